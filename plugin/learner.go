package plugin

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// learner is the learning path of a stage: the queue of lessons, and the worker that takes them one after another. Its
// lock is held while lessons come and go, never while a model is fitted, scored, stored or promoted.
type learner struct {
	stage   *Stage
	config  *Config
	trainer *trainer // the worker's alone
	late    *late    // nil where labels come with their rows
	paced   *pace    // the worker's context

	mu       sync.Mutex
	queue    []*lesson
	bytes    int64  // of queue
	waiting  int    // labelled rows in queue
	next     uint64 // counts messages for hosts that give no sequence
	intake   intake
	stamps   stamps    // of the rows' messages
	answers  stamps    // of the messages of labels that come apart from them
	turned   time.Time // when it was logged last that they are read another way
	dropped  int       // rows that the queue had no memory for
	busy     bool
	refitted bool // a wish to fit waits in the queue
	standby  bool // as the host said last; the trainer hears of it at its turn
	status   Status
	idle     chan struct{} // closed and made anew whenever the worker has nothing left to do
	closed   bool

	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// queueBytes is how much of the window's memory lessons may take that wait.
func queueBytes(window int64) int64 { return window / 8 }

func newLearner(s *Stage) *learner {
	l := &learner{stage: s, config: &s.config, trainer: newTrainer(s), wake: make(chan struct{}, 1),
		done: make(chan struct{}), idle: make(chan struct{})}
	l.standby = s.config.Standby
	l.status = l.trainer.status()
	if r := l.trainer.resume; r != nil {
		l.stamps, l.answers = r.Stamps, r.Answers
	}
	if s.config.Labels != nil {
		l.late = newLate(s.config.Labels)
	}
	return l
}

// learners is how many goroutines learning takes at one time, fits, sums and scores together: as many as the
// configuration of fits says, else all cores but one. A message that comes while all cores fit waits for its share of
// them, some milliseconds, which is many times what its answer takes.
func learners(workers int) int {
	if workers > 0 {
		return workers
	}
	return max(1, runtime.GOMAXPROCS(0)-1)
}

func (l *learner) start() {
	ctx, cancel := context.WithCancel(model.Limit(context.Background(), learners(l.config.Fit.Workers)))
	l.cancel = cancel
	l.paced = newPace(ctx, l.giveWay)
	go func() {
		defer close(l.done)
		l.work(l.paced, l.config.LowPriority)
	}()
}

// rest has the worker rest where that is due, in what must not be broken off.
func (l *learner) rest() { _ = l.paced.Err() }

// giveWay tells whether answers wait that are not themselves waiting for a model.
func (l *learner) giveWay() bool {
	if l.config.Busy == nil || !l.config.Busy() {
		return false
	}
	live := l.stage.Live()
	return live != nil && !live.Bootstrap
}

func (l *learner) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.once.Do(l.cancel)
	<-l.done
}

// work takes one lesson after another; between them it lets the time go on while there is no model, so that a first one
// comes in silence too. Asked to, it steps aside for answers once there is a model: until then they wait for it.
func (l *learner) work(ctx *pace, stepAside bool) {
	tick := time.NewTicker(tickOf(l.config.Training.Every.Period))
	defer tick.Stop()
	for ctx.Err() == nil {
		if live := l.stage.Live(); stepAside && live != nil && !live.Bootstrap {
			aside(func() { l.work(ctx, false) })
			return
		}
		if next := l.take(); next != nil {
			l.teach(ctx, next)
			l.report()
			continue
		}
		select {
		case <-ctx.Done():
		case <-l.wake:
			ctx.begin()
		case <-tick.C:
			ctx.begin()
			if l.begin() {
				l.trainer.tick(ctx, l.config.Clock())
				l.report()
			}
		}
	}
}

// teach gives the trainer one lesson. A panic of ours ends the lesson, not the host.
func (l *learner) teach(ctx context.Context, next *lesson) {
	defer func() {
		if p := recover(); p != nil {
			l.config.Logger.Error("learning from a message panicked; please report it", "panic", p,
				"stack", string(debug.Stack()))
			l.ended(Outcome{Live: l.stage.Live(), Candidate: math.NaN(), Previous: math.NaN(), Rows: len(next.rows),
				Reason: "learning from a message panicked", Err: fmt.Errorf("learning from a message panicked: %v", p)})
		}
	}()
	l.trainer.learn(ctx, next)
}

func tickOf(period time.Duration) time.Duration {
	if period <= 0 {
		return time.Hour
	}
	return min(max(period/20, 10*time.Millisecond), 10*time.Second)
}

// take is the next lesson, nil where there is none: then whoever waits is told.
func (l *learner) take() *lesson {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		if l.busy {
			l.busy = false
			close(l.idle)
			l.idle = make(chan struct{})
		}
		return nil
	}
	next := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.bytes -= next.bytes
	l.waiting -= len(next.rows)
	if next.summary != nil {
		l.waiting -= len(next.summary.Rows)
	}
	if next.refit {
		l.refitted = false
	}
	return next
}

// begin marks the worker as busy where nothing waits.
func (l *learner) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = true
	return len(l.queue) == 0
}

// report publishes how far the trainer is.
func (l *learner) report() {
	s := l.trainer.status()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Fits, s.LastFit, s.Note = l.status.Fits, l.status.LastFit, l.status.Note
	l.status = s
}

// counted counts a fit.
func (l *learner) counted() {
	l.mu.Lock()
	l.status.Fits++
	l.mu.Unlock()
}

// ended tells what came of candidates.
func (l *learner) ended(o Outcome) {
	l.mu.Lock()
	l.status.Note = o.Reason
	if o.Promoted {
		l.status.LastFit = o.Duration
	}
	l.mu.Unlock()
	if l.config.Observe != nil {
		l.config.Observe(o)
	}
}

// learn puts the rows of a message into the queue.
func (l *learner) learn(m *arrowio.Message, at Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	var contract *arrowio.Contract
	if m.Rows() > 0 {
		var err error
		if contract, err = l.stage.contractOf(m); err != nil {
			return err
		}
	}
	if at.Seq == 0 {
		l.next++
		at.Seq = l.next
	}
	at.Time = l.timeOf(&l.stamps, at, "messages")
	if m.Rows() == 0 {
		return nil
	}
	features := contract.Len()
	if features == 0 { // no row has said yet how long a list of features is
		l.intake.count(m, l.config, 0)
		return nil
	}
	unlabelled := l.config.Until == UntilPCA && l.stage.Live() == nil
	if l.late != nil {
		next := l.late.rowsOf(l.config, m, at, features, unlabelled)
		l.late.tell(l)
		l.intake.count(m, l.config, len(next.rows))
		l.enqueue(next)
		return nil
	}
	next := l.config.lessonOf(m, at, features, unlabelled)
	l.intake.count(m, l.config, len(next.rows))
	l.enqueue(next)
	return nil
}

// timeOf is the time of a message for learning. The caller holds the lock.
func (l *learner) timeOf(s *stamps, at Position, what string) time.Time {
	now := l.config.Clock()
	if at.Time.IsZero() {
		at.Time = now
	}
	t, turned := s.at(at.row(0), at.Time.UnixNano(), now.UnixNano())
	if note := s.note(what); turned && note != "" && now.Sub(l.turned) >= time.Minute {
		l.turned = now
		l.config.Logger.Warn(note)
	}
	return time.Unix(0, t)
}

// times are what a checkpoint keeps of how messages were stamped.
func (l *learner) times() (rows, labels stamps) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stamps.copy(), l.answers.copy()
}

// enqueue puts a lesson into the queue, where that has memory for it. The caller holds the lock.
func (l *learner) enqueue(rows *lesson) {
	if len(rows.rows)+len(rows.other)+len(rows.fixes) == 0 {
		return
	}
	features := l.stage.contract.Load().Len()
	rows.bytes = int64(len(rows.rows)+len(rows.other))*int64(9*features+rowOverhead) +
		int64(len(rows.fixes))*rowOverhead
	for i := range rows.rows {
		rows.bytes += int64(len(rows.rows[i].Label) + len(rows.rows[i].Source))
	}
	need := l.bytes + rows.bytes
	if l.late != nil {
		need = l.bytes // one label may set free many rows, whose memory was counted until now
	}
	if len(l.queue) > 0 && need > queueBytes(l.config.Training.Window.Bytes) {
		if l.dropped == 0 {
			l.config.Logger.Warn("rows are not learned: they come faster than they are learned from", "rows",
				len(rows.rows), "cure", "send fewer labelled rows, raise training.window.bytes, or wait on Stage.Backlog")
		}
		l.dropped += len(rows.rows)
		return
	}
	l.bytes += rows.bytes
	l.waiting += len(rows.rows)
	l.push(rows)
}

// push adds a lesson. The caller holds the lock.
func (l *learner) push(next *lesson) {
	l.queue = append(l.queue, next)
	l.busy = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// refit asks for candidates.
func (l *learner) refit() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if !l.busy && !l.status.trainable {
		method, _ := l.config.Fit.Describe() // the configuration was checked
		if method.Supervised || method.Name == fit.Auto && l.config.Spec.Label != "" {
			return fmt.Errorf("%w: the window has %d labelled rows of %d classes, and %s needs two classes of two rows; learn more rows",
				ErrFewRows, l.status.Rows, l.status.Classes, method.Name)
		}
		return fmt.Errorf("%w: the window has %d rows, and %s needs two; learn more rows", ErrFewRows, l.status.Rows,
			method.Name)
	}
	if !l.refitted {
		l.refitted = true
		l.push(&lesson{refit: true})
	}
	return nil
}

// adopt takes a model from outside, at its turn among the lessons.
func (l *learner) adopt(m *Live, pinned bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if live := l.stage.Live(); live != nil && !live.Bootstrap && live.Model.Dim() != m.Model.Dim() {
		return fmt.Errorf("model %s has %d dimensions, and readers of the output rely on %d; choose another version",
			m.Version, m.Model.Dim(), live.Model.Dim())
	}
	if err := l.stage.setContract(m.Model.Features()); err != nil {
		return fmt.Errorf("adopting model %s: %w", m.Version, err)
	}
	if l.standby {
		// Nothing that is fitted here goes live meanwhile, so it need not wait for the rows before it.
		l.stage.promote(m)
	}
	l.push(&lesson{adopt: m, pinned: pinned})
	return nil
}

func (l *learner) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		busy, idle, closed := l.busy, l.idle, l.closed
		l.mu.Unlock()
		if closed {
			return ErrClosed
		}
		if !busy {
			return nil
		}
		select {
		case <-idle:
		case <-l.done:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// backlog is how many labelled rows wait to be learned from.
func (l *learner) backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

func (l *learner) now() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Live, s.Fitting, s.Backlog, s.Dropped = l.stage.Live(), l.busy, l.waiting, l.dropped
	s.Seen, s.Unlabelled, s.Faulty = l.intake.rows, l.intake.unlabelled, l.intake.faulty
	if hint := l.intake.hint(s, l.config.Spec.Label); hint != "" && !s.nothing {
		s.Hint = hint
	}
	if s.Clock = l.stamps.note("messages"); s.Clock == "" {
		s.Clock = l.answers.note("labels")
	}
	return s
}
