package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// learner is the learning path of a stage: the window, the policy, and the worker that fits. Its lock is held while
// rows are copied and decisions are made, never while a model is fitted, stored or promoted.
type learner struct {
	stage  *Stage
	config *Config
	method fit.Method

	mu     sync.Mutex
	window *window // nil until the first message says how many features there are
	policy policy
	warm   []float64 // first rows, labelled or not, for the PCA that stands in
	next   uint64    // counts messages for hosts that give no sequence
	last   Outcome
	fits   int
	note   string
	idle   chan struct{} // closed and made anew whenever a fit ends
	closed bool
	pinned bool // the live model was chosen outside and stays

	jobs   chan job
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// job is one fit: what to fit, from which rows.
type job struct {
	rows      snapshot
	bootstrap bool
}

func newLearner(s *Stage) *learner {
	l := &learner{stage: s, config: &s.config, jobs: make(chan job, 1), done: make(chan struct{}),
		idle: make(chan struct{})}
	l.method, _ = s.config.Fit.Describe() // the configuration was checked
	if l.method.Name == fit.Auto {
		l.method.Supervised = l.labelled()
		if !l.labelled() {
			l.method, _ = fit.Lookup("pca") // which auto is without labels
		}
	}
	l.policy.every = s.config.Training.Every
	return l
}

func (l *learner) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.done)
		l.work(ctx)
	}()
}

func (l *learner) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.once.Do(l.cancel)
	<-l.done
}

// work fits one job after another; between them it lets the time of the policy go on, so that a period passes in
// silence too.
func (l *learner) work(ctx context.Context) {
	tick := time.NewTicker(tickOf(l.config.Training.Every.Period))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			l.policy.tick(l.config.Clock())
			l.begin()
			l.mu.Unlock()
		case j := <-l.jobs:
			l.end(l.fit(ctx, j))
		}
	}
}

func tickOf(period time.Duration) time.Duration {
	if period <= 0 {
		return time.Hour
	}
	return min(max(period/20, 10*time.Millisecond), 10*time.Second)
}

// labelled tells whether rows need a label to be learned from.
func (l *learner) labelled() bool { return l.config.Spec.Label != "" }

func (l *learner) learn(m *arrowio.Message, at Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if at.Seq == 0 {
		l.next++
		at.Seq = l.next
	}
	if at.Time.IsZero() {
		at.Time = l.config.Clock()
	}
	if l.window == nil {
		if m.Rows() == 0 {
			return nil
		}
		l.open(len(l.stage.decoder.Features()))
	}
	l.warmUp(m.Batches())
	taken, overfull := l.window.add(at, m.Batches(), l.config.Classes)
	if overfull > 0 {
		l.config.Logger.Warn("rows of new classes are not learned", "rows", overfull, "limit", l.config.Classes,
			"cure", "raise limits.classes, or check that the label column holds classes")
	}
	// Rows that are read again after a restart fill the window; only what the live model has not seen makes a fit due.
	if l.config.Resume == nil || at.Seq > l.config.Resume.Seen {
		l.policy.learned(taken, at.Time)
	}
	l.begin()
	return nil
}

// refit makes a fit due.
func (l *learner) refit() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if l.window == nil || !l.window.trainable(l.method.Supervised) {
		rows, classes := 0, 0
		if l.window != nil {
			rows, classes = l.window.rows, l.window.classes.alive()
		}
		if l.method.Supervised {
			return fmt.Errorf("%w: the window has %d labelled rows of %d classes, and %s needs two classes of two rows; learn more rows",
				ErrFewRows, rows, classes, l.method.Name)
		}
		return fmt.Errorf("%w: the window has %d rows, and %s needs two; learn more rows", ErrFewRows, rows,
			l.method.Name)
	}
	l.policy.asked()
	l.begin()
	return nil
}

// adopt takes a model from outside.
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
	if err := l.stage.decoder.Pin(m.Model.Features()); err != nil {
		return fmt.Errorf("adopting model %s: %w", m.Version, err)
	}
	l.pinned = pinned
	l.stage.promote(m)
	return nil
}

func (l *learner) open(features int) {
	t, f := l.config.Training, l.config.Fit
	w := newWindow(t.Window, features)
	w.holdout = t.Holdout
	w.impute = l.config.Nulls == NullsImpute
	w.labelled = l.labelled()
	w.keep = l.method.Streaming == "moments" && (f.Scale == "" || f.Scale == "standard" || f.Scale == "none")
	if most := int(l.config.Memory / w.rowBytes()); most < t.Window.Rows {
		w.limit.Rows = max(most, 4)
		l.config.Logger.Warn("the window holds fewer rows than asked, to stay within its memory",
			"rows", w.limit.Rows, "asked", t.Window.Rows, "bytes", l.config.Memory, "features", features)
	}
	l.window = w
}

// begin hands a job to the worker where a fit is due. The caller holds the lock.
func (l *learner) begin() {
	if l.window == nil {
		return
	}
	if n := l.config.Training.Every.Rows; l.wantsBootstrap() && n > 0 && len(l.warm) >= n*l.window.m &&
		!l.policy.fitting {
		l.policy.fitting = true // without began: labelled rows go on counting towards the first model
		l.jobs <- job{rows: snapshotOf(l.warm, l.window.m), bootstrap: true}
		l.warm = nil
		return
	}
	if l.pinned || !l.policy.due(l.window.trainable(l.method.Supervised)) {
		return
	}
	l.policy.began()
	l.jobs <- job{rows: l.window.snapshot()}
}

// wantsBootstrap tells whether rows are still gathered for the PCA that serves until a first model exists.
func (l *learner) wantsBootstrap() bool {
	return l.config.Until == UntilPCA && l.stage.live.Load() == nil
}

func (l *learner) warmUp(batches []*arrowio.Batch) {
	if !l.wantsBootstrap() {
		l.warm = nil
		return
	}
	m := l.window.m
	for _, b := range batches {
		for i := range b.Rows() {
			if len(l.warm) >= l.config.Training.Every.Rows*m {
				return
			}
			n := len(l.warm)
			l.warm = append(l.warm, make([]float64, m)...)
			gather(l.warm[n:], b.Features(), i)
			if l.config.Nulls != NullsImpute && !finite(l.warm[n:]) {
				l.warm = l.warm[:n]
			}
		}
	}
}

// end records what came of a fit, and lets the next begin where one is due by now.
func (l *learner) end(f Outcome) {
	if l.config.Observe != nil {
		l.config.Observe(f) // before Wait returns, so that who waited has seen every fit
	}
	l.mu.Lock()
	l.policy.ended()
	l.fits++
	l.last = f
	l.note = f.Reason
	close(l.idle)
	l.idle = make(chan struct{})
	l.begin()
	l.mu.Unlock()
}

func (l *learner) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		busy, idle, closed := l.policy.fitting, l.idle, l.closed
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

func (l *learner) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Live: l.stage.Live(), Waiting: l.policy.rows, Needed: l.policy.every.Rows, Fitting: l.policy.fitting,
		Fits: l.fits, LastFit: l.last.Duration, Note: l.note}
	if l.window != nil {
		s.Rows = l.window.rows
		s.Classes = l.window.classes.alive()
	}
	return s
}

// fit runs one job: candidate, judgement, final fit on all rows, alignment, store, pointer. A panic of a method ends
// the fit, not the host.
func (l *learner) fit(ctx context.Context, j job) (f Outcome) {
	begin := time.Now()
	f = Outcome{Live: l.stage.Live(), Candidate: math.NaN(), Previous: math.NaN(), Rows: j.rows.rows}
	log := l.config.Logger
	defer func() {
		if p := recover(); p != nil {
			f.Err = fmt.Errorf("fitting %s panicked: %v; please report it", l.method.Name, p)
		}
		f.Duration = time.Since(begin)
		switch {
		case ctx.Err() != nil:
		case f.Err != nil:
			f.Reason = f.Err.Error()
			attrs := []any{"rows", f.Rows, "error", f.Err}
			if p := new(model.Panic); errors.As(f.Err, &p) {
				attrs = append(attrs, "stack", string(p.Stack))
			}
			log.Error("fit failed; the live model stays", attrs...)
		case f.Promoted:
			log.Info("model goes live", "version", f.Live.Version, "method", f.Live.Model.Method(), "dim",
				f.Live.Model.Dim(),
				"epoch", f.Live.Epoch, "rows", f.Rows, "seconds", f.Duration.Seconds(), "reason", f.Reason)
		default:
			log.Info("candidate refused; the live model stays", "rows", f.Rows, "reason", f.Reason)
		}
	}()
	if j.rows.err != nil {
		f.Err = fmt.Errorf("summing the window: %w", j.rows.err)
		return f
	}
	if j.bootstrap {
		f.Err = l.fitBootstrap(ctx, j.rows, &f)
		return f
	}
	f.Err = l.fitCandidate(ctx, j.rows, &f)
	return f
}

func (l *learner) fitBootstrap(ctx context.Context, rows snapshot, f *Outcome) error {
	c := l.config.Fit
	c.Method, c.Own, c.Params = "pca", nil, nil
	all := rows.all()
	m, err := fit.Fit(ctx, l.data(all, rows), c)
	if err != nil {
		return fmt.Errorf("fitting the stand-in: %w", err)
	}
	f.Reason = fmt.Sprintf("a PCA of the first %d rows serves until a first model exists", rows.rows)
	return l.goLive(ctx, m, rows, true, f)
}

func (l *learner) fitCandidate(ctx context.Context, rows snapshot, f *Outcome) error {
	e := evidence{margin: l.config.Training.Margin}
	live := l.stage.Live()
	judgeable := l.judgeable(rows)
	held := rows.part[1]
	if live != nil && !live.Bootstrap {
		// The live model was fitted on the held-out rows of its day too. The rows that are new since then are new
		// to both models; older ones would speak for the live model.
		held = held.since(live.Seen, rows.m)
	}
	c := l.settled(live)
	if judgeable {
		candidate, err := l.fitPart(ctx, rows, trained, c)
		if err != nil {
			return fmt.Errorf("fitting the candidate on %d rows: %w", len(rows.part[0].y), err)
		}
		if candidate, c, err = l.keepMethod(ctx, rows, candidate, live, c); err != nil {
			return fmt.Errorf("fitting the candidate on %d rows: %w", len(rows.part[0].y), err)
		}
		if e.candidate, err = l.score(candidate, rows, held); err != nil {
			return err
		}
		f.Candidate = e.candidate.Value
	}
	if live != nil && !live.Bootstrap {
		e.live = &heldOutScore{}
		if judgeable {
			s, err := l.score(live.Model, rows, held)
			if err != nil {
				return err
			}
			e.live, f.Previous = &s, s.Value
		}
	}
	var promote bool
	if promote, f.Reason = judge(e); !promote {
		return nil
	}
	final, err := l.fitPart(ctx, rows, everything, c)
	if err != nil {
		return fmt.Errorf("fitting on %d rows: %w", rows.rows, err)
	}
	return l.goLive(ctx, final, rows, false, f)
}

// settled is the configuration of a fit. Readers of the output rely on its dimension: once a model is live, what was
// left to the rows stays as it was found at the first fit.
func (l *learner) settled(live *Live) fit.Config {
	c := l.config.Fit
	if c.Dim == fit.AutoDim && l.method.Streaming != "moments" && live != nil && !live.Bootstrap {
		c.Dim = live.Model.Dim()
	}
	return c
}

// keepMethod turns a choice of auto into a configuration, so that what goes live is what was judged. The method of
// the live model stays where another is better by no more than the noise: a change of method moves every output.
func (l *learner) keepMethod(ctx context.Context, rows snapshot, candidate *model.Model, live *Live,
	c fit.Config) (*model.Model, fit.Config, error) {
	choice := candidate.Report().Choice
	if choice == nil || choice.Rule != "cv" {
		return candidate, c, nil
	}
	kept := *choice
	again := c.Method == fit.Auto && live != nil && !live.Bootstrap && live.Model.Method() != choice.Method &&
		near(choice, live.Model.Method())
	if again {
		kept.Method = live.Model.Method()
	}
	c = c.Settled(&kept)
	if again {
		var err error
		candidate, err = l.fitPart(ctx, rows, trained, c)
		return candidate, c, err
	}
	return candidate, c, nil
}

// near tells whether a method scored within one standard error of the best, at the dimension that was chosen.
func near(c *model.Choice, method string) bool {
	best := c.Scores[0]
	for _, s := range c.Scores {
		if s.Method == method && s.Dim == c.Dim && s.Scored > 0 {
			p, n := float64(best.Correct)/float64(best.Scored), float64(best.Scored)
			return float64(best.Correct-s.Correct) <= math.Sqrt(n*p*(1-p))
		}
	}
	return false
}

// judgeable tells whether the rows to train on can be fitted without the rows held out, and these judge anything.
func (l *learner) judgeable(rows snapshot) bool {
	train, held := rows.part[0], rows.part[1]
	if len(held.y) == 0 {
		return false
	}
	if !l.method.Supervised {
		return len(train.y) >= 2
	}
	count := map[int]int{}
	for _, c := range train.y {
		count[c]++
	}
	return len(count) == len(rows.classes) && len(count) >= 2 && len(train.y) > len(count)
}

// score judges a model on held-out rows.
func (l *learner) score(m *model.Model, rows snapshot, held rowSet) (heldOutScore, error) {
	s := heldOutScore{Rows: len(held.y)}
	if rows.classes == nil {
		kept, err := keptVariance(m, held, rows.m)
		if err != nil {
			return s, fmt.Errorf("judging: %w", err)
		}
		s.Value = kept
		return s, nil
	}
	right, err := score.Correct(m, l.data(rows.part[0], rows), l.data(held, rows), 1)
	if err != nil {
		return s, fmt.Errorf("judging: %w", err)
	}
	s.Value = float64(right) / float64(len(held.y))
	return s, nil
}

// keptVariance is |Y|^2 / |X|^2 with X the scaled rows: for orthonormal components the share of the variance that the
// projection keeps.
func keptVariance(m *model.Model, held rowSet, features int) (float64, error) {
	n := len(held.y)
	x, y := make([]float64, len(held.x)), make([]float32, n*m.Dim())
	if err := m.ScaledTo(x, model.DenseRows(held.x, n, features)); err != nil {
		return 0, err
	}
	if err := m.Project(y, model.DenseRows(held.x, n, features)); err != nil {
		return 0, err
	}
	var kept, all float64
	for _, v := range y {
		kept += float64(v) * float64(v)
	}
	for _, v := range x {
		all += v * v
	}
	if all == 0 {
		return 1, nil
	}
	return kept / all, nil
}

// which rows of a snapshot a fit sees
type which int

const (
	trained which = iota
	everything
)

// fitPart fits from the moments that the window kept where it can, from rows otherwise.
func (l *learner) fitPart(ctx context.Context, rows snapshot, w which, c fit.Config) (*model.Model, error) {
	if stats := rows.stats[w]; stats != nil {
		return fit.FitMoments(ctx, stats, l.stage.decoder.Features(), rows.classes, c)
	}
	set := rows.part[0]
	if w == everything {
		set = rows.all()
	}
	return fit.Fit(ctx, l.data(set, rows), c)
}

func (l *learner) data(set rowSet, rows snapshot) *model.Data {
	d := &model.Data{X: set.x, N: len(set.y), M: rows.m, Features: l.stage.decoder.Features()}
	if rows.classes != nil {
		d.Y, d.Classes = set.y, rows.classes
	}
	return d
}

// goLive aligns a model to the live one, stores it and moves the pointer, in this order: what answers is always in
// the store.
func (l *learner) goLive(ctx context.Context, m *model.Model, rows snapshot, bootstrap bool, f *Outcome) error {
	live := l.stage.Live()
	epoch := 1
	if live != nil {
		anchors := rows.all()
		x, how := model.DenseRows(anchors.x, len(anchors.y), rows.m), string(l.config.Training.Align)
		aligned, a, err := model.Align(m, live.Model, x, how)
		if err != nil {
			return fmt.Errorf("aligning to model %s: %w", live.Version, err)
		}
		m, epoch = aligned, live.Epoch
		if !a.Comparable {
			epoch++
		}
		f.Reason += fmt.Sprintf("; residual to the live model after alignment %.3f", a.Residual)
	}
	note := model.Note{Created: l.config.Clock(), Epoch: uint64(epoch), Source: map[string]string{}}
	for k, v := range l.config.Source {
		note.Source[k] = v
	}
	note.Source["first"] = strconv.FormatUint(rows.oldest, 10)
	note.Source["last"] = strconv.FormatUint(rows.last, 10)
	version := m.Digest()[:16]
	if l.config.Store != nil {
		var err error
		r := &Release{Model: m.WithNote(note), Epoch: epoch, Bootstrap: bootstrap, First: rows.oldest, Last: rows.last,
			Rows: rows.rows, Score: f.Candidate, LiveScore: f.Previous, Why: f.Reason}
		if live != nil {
			r.Parent = live.Version
		}
		if version, err = l.config.Store(ctx, r); err != nil {
			return fmt.Errorf("storing the model: %w", err)
		}
	}
	note.Version = version
	f.Live = &Live{Model: m.WithNote(note), Version: version, Epoch: epoch, Seen: rows.last, Bootstrap: bootstrap}
	f.Promoted = true
	l.stage.promote(f.Live)
	return nil
}
