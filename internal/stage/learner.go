package stage

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/join"
	"github.com/embedd/embedd/internal/stage/profile"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// learner is the queue of events, and the worker that passes them to the trainer. Its lock is never held while a model
// is fitted, scored, stored or promoted.
type learner struct {
	stage   *Stage
	config  *spec.Config
	trainer *trainer.Trainer // used by the worker alone
	late    *lateLabels      // nil if labels come with their rows
	copies  *arrowio.Encoder // of kept messages; nil once counting has ended
	pace    *pace            // the worker's context
	retry   <-chan time.Time // when to store again what could not be stored; nil: nothing. Used by the worker alone

	mu          logMutex // guards the fields up to closed
	queue       []*trainer.Event
	bytes       int64     // of queue
	waiting     int       // labelled rows in queue, and corrections of labels
	next        uint64    // the last sequence number given to a message that has none
	counting    *counting // nil once the contract is known and the kept messages are learned
	unfit       int       // kept messages that do not fit the contract
	intake      intake
	rowTime     eventTime
	labelTime   eventTime
	dropped     int // rows that the queue had no memory for
	busy        bool
	refitQueued bool
	standby     bool           // as last requested; the trainer follows in the order of its events
	status      trainer.Status // as of the last event
	fits        int            // models that were fitted
	lastFit     time.Duration  // of the last promotion
	note        string         // on the last candidate
	idle        chan struct{}  // closed, and replaced, when the worker becomes idle
	closed      bool

	samples chan func(*window.Window) // called by the worker, which alone reads the window
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}
}

// logMutex is a mutex that logs the warnings of its holder once it is released: the host's logger may block, or call
// the stage.
type logMutex struct {
	sync.Mutex
	log     *slog.Logger
	pending []warning
}

type warning struct {
	text  string
	attrs []any
}

// warn has a warning logged. The caller holds the mutex.
func (m *logMutex) warn(text string, attrs ...any) {
	m.pending = append(m.pending, warning{text, attrs})
}

func (m *logMutex) Unlock() {
	pending := m.pending
	m.pending = nil
	m.Mutex.Unlock()
	for _, w := range pending {
		m.log.Warn(w.text, w.attrs...)
	}
}

func newLearner(s *Stage) *learner {
	l := &learner{stage: s, config: s.config, mu: logMutex{log: s.config.Logger}, wake: make(chan struct{}, 1),
		done: make(chan struct{}), samples: make(chan func(*window.Window)), idle: make(chan struct{}),
		standby: s.config.Standby,
		rowTime: eventTime{kind: "messages"}, labelTime: eventTime{kind: "labels"}}
	l.trainer = trainer.New(s.config, trainer.Host{Live: s.Live, Promote: s.promote, Features: s.Features,
		CountFit: l.countFit, Report: l.report, Times: l.times, Pause: func() { _ = l.pace.Err() }})
	if s.Contract() == nil {
		l.counting = &counting{}
		l.copies, _ = arrowio.NewEncoder(arrowio.Output{}) // which is valid
	}
	l.status = l.trainer.Status()
	if s.config.Resume != nil {
		l.rowTime.EventTime, l.labelTime.EventTime = trainer.Times(s.config.Resume.State)
	}
	if c := s.config.Labels; c != nil {
		l.late = &lateLabels{join: join.New[waitingRow](join.Limits{Wait: c.Wait, Bytes: c.Bytes})}
	}
	return l
}

// learningGoroutines is how many goroutines learning uses at a time. If all cores fitted, a message would wait some
// milliseconds for a core, many times what its transform takes.
func learningGoroutines(workers int) int {
	if workers > 0 {
		return workers
	}
	return max(1, runtime.GOMAXPROCS(0)-1)
}

func (l *learner) start() {
	workers := learningGoroutines(l.config.Fit.Workers)
	ctx, cancel := context.WithCancel(model.Limit(context.Background(), workers))
	l.cancel = cancel
	l.pace = newPace(ctx, l.shouldPause)
	go func() {
		defer close(l.done)
		l.work(l.pace, false)
	}()
}

// shouldPause reports whether transforms are waiting that do not themselves wait for a model.
func (l *learner) shouldPause() bool {
	if l.config.Busy == nil || !l.config.Busy() {
		return false
	}
	return l.hasModel()
}

// hasModel reports whether a model is live that the next one has to follow.
func (l *learner) hasModel() bool {
	live := l.stage.Live()
	return live != nil && !live.IsProvisional()
}

func (l *learner) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	<-l.done
}

// threadIdle is how long the thread of low priority waits for the next event before it ends: threads of idle pipelines
// would take most of their memory.
const threadIdle = 10 * time.Second

// work handles one event after another. Between them it advances the time while there is no model, so that a first
// model does not need further messages. Once there is a model, it moves to a thread of low priority for each event and
// those that follow within threadIdle, if the configuration says so.
func (l *learner) work(ctx *pace, isMoved bool) {
	tick := time.NewTicker(tickInterval(l.config.Training.Every.Period))
	defer tick.Stop()
	idle := time.NewTimer(threadIdle)
	defer idle.Stop()
	for ctx.Err() == nil {
		select { // before the events that wait
		case ask := <-l.samples:
			ask(l.trainer.Window())
		default:
		}
		if l.isCountingDue() {
			l.endCounting(ctx)
			l.publishStatus()
			continue
		}
		if next := l.take(); next != nil {
			if !isMoved && l.config.LowPriority && l.hasModel() {
				runAtLowPriority(func() {
					l.handle(ctx, next)
					l.publishStatus()
					l.work(ctx, true)
				})
				continue
			}
			l.handle(ctx, next)
			l.publishStatus()
			idle.Reset(threadIdle)
			continue
		}
		if l.retry == nil && l.trainer.ShouldRetryStore() {
			l.retry = time.After(storeRetry)
		}
		select {
		case <-ctx.Done():
		case ask := <-l.samples:
			ask(l.trainer.Window())
		case <-l.wake:
			ctx.begin()
		case <-idle.C:
			if isMoved {
				return
			}
		case <-l.retry:
			l.retry = nil
			l.advance(ctx)
		case <-tick.C:
			l.advance(ctx)
		}
	}
}

// advance advances the trainer's time if no event waits.
func (l *learner) advance(ctx *pace) {
	defer recoverPanic(l, 0)
	ctx.begin()
	if l.beginIfIdle() {
		l.trainer.Tick(ctx, l.config.Clock()) // does nothing once a model is live
		l.publishStatus()
	}
}

// handle passes an event to the trainer.
func (l *learner) handle(ctx context.Context, next *trainer.Event) {
	defer recoverPanic(l, len(next.Rows))
	l.trainer.Learn(ctx, next)
}

// recoverPanic reports a panic of the trainer, or of a function of the host that the trainer calls. It ends what the
// worker does now, and not the host.
func recoverPanic(l *learner, rows int) {
	if p := recover(); p != nil {
		l.config.Logger.Error("learning from a message panicked; please report it", "panic", p,
			"stack", string(debug.Stack()))
		l.report(spec.Outcome{Live: l.stage.Live(), Candidate: math.NaN(), Previous: math.NaN(), Rows: rows,
			Reason: "learning from a message panicked", Err: fmt.Errorf("learning from a message panicked: %v", p)})
	}
}

func tickInterval(period time.Duration) time.Duration {
	if period <= 0 {
		return time.Hour
	}
	return min(max(period/20, 10*time.Millisecond), 10*time.Second)
}

// take removes the next event from the queue. If there is none, it wakes those that wait for that and returns nil. It
// also returns nil while counting must end first: a request to fit includes the rows kept while counting. A change of
// standby overtakes such a request.
func (l *learner) take() *trainer.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counting != nil && l.counting.due {
		return nil
	}
	if l.counting != nil && len(l.queue) > 1 && l.queue[0].Refit {
		l.queue[0], l.queue[1] = l.queue[1], l.queue[0]
	}
	if len(l.queue) == 0 || l.counting != nil && l.queue[0].Refit {
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
	l.bytes -= next.Bytes
	l.waiting -= len(next.Rows) + len(next.Fixes)
	if next.Summary != nil {
		l.waiting -= len(next.Summary.Rows)
	}
	if next.Refit {
		l.refitQueued = false
	}
	return next
}

// beginIfIdle marks the worker as busy, and reports whether the queue is empty.
func (l *learner) beginIfIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = true
	if l.counting != nil && !l.counting.due {
		l.counting.due = l.isContractDue(l.config.Clock())
	}
	return len(l.queue) == 0 && (l.counting == nil || !l.counting.due)
}

// publishStatus copies the trainer's status.
func (l *learner) publishStatus() {
	s := l.trainer.Status()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = s
}

func (l *learner) countFit() {
	l.mu.Lock()
	l.fits++
	l.mu.Unlock()
}

// report records the outcome of a fit and passes it to the host.
func (l *learner) report(o spec.Outcome) {
	l.mu.Lock()
	l.note = o.Reason
	if o.Promoted {
		l.lastFit = o.Duration
	}
	l.mu.Unlock()
	if l.config.Observe == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			l.config.Logger.Error("Config.Observe panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	l.config.Observe(o)
}

// learn queues the rows of a message.
func (l *learner) learn(m *arrowio.Message, at spec.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return spec.ErrClosed
	}
	if m.Rows() > 0 && l.counting == nil && !l.stage.Contract().Equal(m.Contract()) {
		return spec.ErrContract
	}
	if at.Seq == 0 {
		l.next++
		at.Seq = l.next
	}
	if l.config.Training.Block == 0 { // else blocks are learned, and messages only counted
		at.Time = l.rowTime.of(l, at)
	}
	switch {
	case m.Rows() == 0:
		return nil
	case l.counting != nil:
		l.count(m, at)
		return nil
	case l.config.Training.Block > 0:
		return nil
	}
	next := l.messageEvent(m, at)
	l.intake.count(m, l.config, len(next.Rows))
	l.enqueue(next)
	return nil
}

// messageEvent copies what is learned from a message. The caller holds the lock.
func (l *learner) messageEvent(m *arrowio.Message, at spec.Position) *trainer.Event {
	features := l.stage.Contract().Len()
	unlabelled := l.config.Until == spec.UntilPCA && l.stage.Live() == nil
	if l.late == nil {
		return eventOf(l.config, m, at, features, unlabelled)
	}
	next := l.late.addRows(l.config, m, at, features, unlabelled)
	l.late.warn(l)
	return next
}

// times is the event time for a checkpoint.
func (l *learner) times() (rows, labels trainer.EventTime) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rowTime.Copy(), l.labelTime.Copy()
}

// enqueue adds rows to the queue if it has memory for them. The caller holds the lock.
func (l *learner) enqueue(e *trainer.Event) {
	if len(e.Rows)+len(e.Unlabelled)+len(e.Fixes) == 0 {
		return
	}
	features := l.stage.Contract().Len()
	e.Bytes = int64(len(e.Rows)+len(e.Unlabelled))*int64(9*features+rowOverhead) + int64(len(e.Fixes))*rowOverhead
	for i := range e.Rows {
		e.Bytes += int64(len(e.Rows[i].Label) + len(e.Rows[i].Source))
	}
	need := l.bytes + e.Bytes
	if l.late != nil {
		need = l.bytes // one label may release many rows, whose memory was counted until now
	}
	if len(l.queue) > 0 && need > trainer.QueueBytes(l.config.Training.Window.Bytes) {
		l.drop(len(e.Rows) + len(e.Fixes))
		return
	}
	l.bytes += e.Bytes
	l.waiting += len(e.Rows) + len(e.Fixes)
	l.push(e)
}

// drop counts rows that the queue has no memory for. The caller holds the lock.
func (l *learner) drop(rows int) {
	if l.dropped == 0 {
		l.mu.warn("rows are not learned because they arrive faster than they can be learned", "rows", rows,
			"fix", "send fewer labelled rows, raise training.window.bytes, or wait while Status.Backlog is high")
	}
	l.dropped += rows
}

// push adds an event to the queue. The caller holds the lock.
func (l *learner) push(e *trainer.Event) {
	l.queue = append(l.queue, e)
	l.signal()
}

// signal wakes the worker. The caller holds the lock.
func (l *learner) signal() {
	l.busy = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// learnSummary queues a summary.
func (l *learner) learnSummary(s *window.Summary) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return spec.ErrClosed
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		at := spec.Position{Created: time.Unix(0, r.Created), Seq: r.Seq, Time: time.Unix(0, r.Time)}
		r.Time = l.rowTime.of(l, at).UnixNano()
	}
	l.intake.rows += s.Read.Rows - s.Read.Faulty
	l.intake.unlabelled += s.Read.Unlabelled
	l.waiting += len(s.Rows)
	l.push(&trainer.Event{Summary: s})
	return nil
}

// refit queues a request to fit, unless one is queued.
func (l *learner) refit() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return spec.ErrClosed
	}
	if l.counting != nil {
		if leader := l.counting.contracts.leader(); leader != nil && l.isTrainable(leader) {
			l.wakeForContract()
		}
	}
	if !l.busy && !l.status.Trainable {
		rows, classes := l.status.Rows, l.status.Classes
		if leader := l.counting.leader(); leader != nil {
			rows, classes = leader.rows, len(leader.classes)
		}
		method, _ := l.config.Fit.Describe() // the configuration is valid
		if method.Supervised || method.Name == fit.Auto && l.config.Spec.Label != "" {
			return fmt.Errorf("%w: it has %d labelled rows of %d classes, and %s needs two classes of two rows; "+
				"learn more rows", spec.ErrFewRows, rows, classes, method.Name)
		}
		return fmt.Errorf("%w: it has %d rows, and %s needs two; learn more rows", spec.ErrFewRows, rows, method.Name)
	}
	if !l.refitQueued {
		l.refitQueued = true
		l.push(&trainer.Event{Refit: true})
	}
	return nil
}

// setStandby queues a change of standby. Without a model its end is queued again: a first model may have failed to be
// stored while this process was not the trainer.
func (l *learner) setStandby(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && (l.standby != on || !on && l.stage.Live() == nil) {
		l.standby = on
		l.push(&trainer.Event{Standby: &on})
	}
}

// takeOver queues the end of standby, from a model and its checkpoint, or from nothing. It reports whether that is
// possible.
func takeOver(l *learner, live *spec.Live) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.standby || l.counting != nil || l.late != nil {
		return false
	}
	l.standby, l.rowTime.EventTime, l.labelTime.EventTime = false, trainer.EventTime{}, trainer.EventTime{}
	if live != nil {
		l.rowTime.EventTime, l.labelTime.EventTime = trainer.Times(live.State)
	}
	l.push(&trainer.Event{Adopt: live, TakeOver: true})
	return true
}

// adopt queues a model from outside.
func (l *learner) adopt(m *spec.Live, pinned bool) error {
	if live := l.stage.Live(); l.hasModel() && live.Epoch == m.Epoch && live.Model.Dim() != m.Model.Dim() {
		return fmt.Errorf("model %s has %d dimensions, and readers of the output rely on %d; choose another version",
			m.Version, m.Model.Dim(), live.Model.Dim())
	}
	if err := l.stage.setFeatures(m.Model.Features()); err != nil {
		return fmt.Errorf("adopting model %s: %w", m.Version, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return spec.ErrClosed
	}
	if l.standby {
		l.stage.promote(m) // nothing that is fitted here goes live meanwhile, so it need not wait for queued rows
	}
	l.push(&trainer.Event{Adopt: m, Pinned: pinned})
	return nil
}

func (l *learner) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		busy, idle, closed := l.busy, l.idle, l.closed
		l.mu.Unlock()
		if closed {
			return spec.ErrClosed
		}
		if !busy {
			return nil
		}
		select {
		case <-idle:
		case <-l.done:
			return spec.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// backlog is the number of labelled rows and corrections in the queue.
func (l *learner) backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counting != nil && l.stage.Contract() != nil {
		return l.waiting + l.counting.rows
	}
	return l.waiting
}

func (l *learner) currentStatus() spec.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status.Status
	s.Fits, s.LastFit, s.Note = l.fits, l.lastFit, l.note
	s.Live, s.Fitting, s.Backlog, s.Dropped = l.stage.Live(), l.busy, l.waiting, l.dropped
	s.Mismatched = l.unfit
	counted, in := "", &l.intake
	if c := l.counting; c != nil && l.stage.Contract() == nil {
		if l.config.Training.Block > 0 {
			in = &c.intake
		}
		s.Candidates, s.OtherCandidates = c.contracts.status(), c.contracts.other
		s.Counted = c.contracts.total()
		if leader := c.contracts.leader(); leader != nil {
			s.Rows, s.Classes, s.Bytes = leader.rows, len(leader.classes), l.bytes
			s.Needed = trainer.FirstRows(l.config, leader.contract.Len())
			if s.RowsUntilFit != nil {
				n := max(s.Needed-s.Rows, 0)
				s.RowsUntilFit = &n
			}
		}
		counted = c.contracts.hint()
	}
	if l.config.Spec.Label != "" && s.Live != nil && !s.LabelsSuspect {
		effective := float64(s.Scored) * s.EffectiveRows / float64(s.Rows)
		if u, dropped := profile.AccuracyDropped(s.Accuracy, s.Live.Score, effective); dropped {
			s.Unusual = append([]spec.Unusual{u}, s.Unusual...)
		}
	}
	s.Received, s.Unlabelled, s.Incomplete = in.rows, in.unlabelled, in.faulty
	if l.config.Spec.Label != "" && in.rows > 0 {
		s.LabelledShare = labelledShare(in, l.late)
		if u, few := profile.FewLabels(in.rows, s.LabelledShare); few {
			s.Unusual = append([]spec.Unusual{u}, s.Unusual...)
		}
	}
	if hint := in.hint(s, l.config.Spec.Label); hint != "" && !l.status.LearnsNothing {
		s.Hint = hint
	}
	switch {
	case counted != "":
		s.Hint = counted
	case l.config.Training.Gate.NeverFirst && (s.Live == nil || s.Live.Bootstrap):
		s.Hint = "no first model goes live: training.gate.first is never; choose a stored version with `embedd model pin`"
	}
	s.Clock = cmp.Or(l.rowTime.note(), l.labelTime.note())
	if !s.Newest.IsZero() {
		s.Newest = l.rowTime.Timestamp(s.Newest)
	}
	return s
}
