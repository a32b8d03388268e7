package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/evidence"
	"github.com/embedd/embedd/plugin/window"
)

// trainer learns from rows, one lesson after another: it scores the live model and the candidates on each row before
// it learns from it, fits candidates where the policy says so, and promotes what the gate lets pass. What it does is a
// function of the rows in their order and of the configuration; it knows no clock and starts no goroutine. It is the
// worker's alone.
type trainer struct {
	stage  *Stage
	config *Config
	method fit.Method
	log    *slog.Logger

	window     *window.Window // nil until the first message says how many features there are
	references *references
	policy     policy
	drift      evidence.Adaptive // of how right the class means are under the live model
	live       *view             // of Stage.live; nil before the first model that is no bootstrap model
	origin     *model.Model      // the first model of the epoch
	newest     int64             // time of the newest row that was scored
	candidates []*candidate
	settled    fit.Config    // the method as auto chose it, with the number of outputs
	choice     *model.Choice // of auto
	others     []float64     // first rows, labelled or not, for the bootstrap model
	pinned     bool
	resume     *state // of a restart, until the window is filled again
	alarms     int
	overfull   int // rows of one class too many
	failedAt   int // rows learned when a failed fit was last told of; 0: never

	// Of labels that come apart from their rows:
	waits   window.Position // the oldest row that waits for one; zero: none
	labels  window.Position // the newest that was read
	learned window.Position // the newest row that was learned before a restart
	joined  window.Position // the newest label that was read then
}

// candidate is a model that is scored beside the live one.
type candidate struct {
	view
	size  int // of its suffix, 0: the whole window
	rows  int // that it was fitted on
	first window.Position
	last  window.Position
	standing
}

// chunkRows is how many rows are scored before they are learned.
const chunkRows = 32

func newTrainer(s *Stage) *trainer {
	t := &trainer{stage: s, config: &s.config, log: s.config.Logger, references: newReferences()}
	t.method, _ = s.config.Fit.Describe() // the configuration was checked
	if t.method.Name == fit.Auto {
		t.method.Supervised = t.labelled()
		if !t.labelled() {
			t.method, _ = fit.Lookup("pca") // which auto is without labels
		}
	}
	t.settled = s.config.Fit
	t.settled.Pad = true
	t.policy.every = s.config.Training.Every
	t.policy.nested = t.byMoments()
	if r := s.config.Resume; r != nil {
		t.takeUp(r)
	}
	return t
}

// takeUp goes on from a model that was live before a restart.
func (t *trainer) takeUp(r *Live) {
	t.resume = &state{}
	if len(r.State) > 0 {
		if s, err := readState(r.State); err != nil {
			t.log.Warn("what the learner knew is lost; it learns the rows again", "error", err)
		} else {
			t.resume, t.learned, t.joined = s, s.Last, s.Labels
		}
	}
	if r.Bootstrap {
		return
	}
	t.live, t.origin = newView(r.Model), r.Model
	if r.Origin != nil {
		t.origin = r.Origin
	}
	t.settle(r.Model, t.resume.Choice)
}

// labelled tells whether rows need a label to be learned from.
func (t *trainer) labelled() bool { return t.config.Spec.Label != "" }

// byMoments tells whether the method, or what auto settled on, is fitted from moments.
func (t *trainer) byMoments() bool {
	scale := t.config.Fit.Scale
	return t.method.Streaming == "moments" && t.config.Nulls != NullsImpute &&
		(scale == "" || scale == model.ScaleStandard || scale == model.ScaleNone)
}

func (t *trainer) open(features int) {
	w := t.config.Training.Window
	c := window.Config{Features: features, Rows: w.Rows, Age: w.Age, Bytes: w.Bytes - queueBytes(w.Bytes),
		Classes: t.config.Classes, Holdout: t.config.Training.Holdout, Balance: w.Balance == BalanceClass,
		Labelled: t.labelled(), Moments: t.byMoments(), Copies: !t.byMoments()}
	if t.method.Name == fit.Auto {
		c.Moments = t.config.Nulls != NullsImpute // it may choose a method of moments
	}
	t.window = window.New(c)
	if most := c.MaxRows(); most < w.Rows {
		t.log.Warn("the window holds fewer rows than asked, to stay within its memory", "rows", most, "asked", w.Rows,
			"window.bytes", w.Bytes, "features", features)
	}
	t.policy.features = features
	if t.resume != nil {
		t.window.Cut(t.resume.Start)
		t.window.LowerLevel(t.resume.Level)
	}
}

// past tells whether a row was learned before a restart: it only fills the window again. Rows of another stream than
// the last one that was learned are new, also where that was made earlier: an older copy was put back.
func (t *trainer) past(r *window.Row) bool {
	if t.resume == nil || t.config.Labels != nil && t.resume.Format > 0 { // these are refilled apart
		return false
	}
	if t.resume.Format == 0 {
		return r.Seq <= t.config.Resume.Seen
	}
	return r.Created == t.resume.Last.Created && r.Compare(t.resume.Last) <= 0
}

// learn takes one lesson.
func (t *trainer) learn(ctx context.Context, l *lesson) {
	if t.window == nil && len(l.rows)+len(l.other) > 0 {
		t.open(len(t.stage.decoder.Features()))
	}
	if l.adopt != nil {
		t.adopt(l.adopt, l.pinned)
	}
	t.warmUp(ctx, l.other)
	if l.by != nil {
		t.labels = l.labels
	}
	for rows := t.refill(l); len(rows) > 0 && ctx.Err() == nil; {
		part := rows[:min(chunkRows, len(rows))]
		rows = rows[len(part):]
		t.step(ctx, part)
	}
	t.mend(l.fixes)
	if !l.refit && l.adopt == nil {
		t.waits = l.waits
	}
	if l.refit && t.window != nil {
		if t.resume != nil {
			t.restore(ctx)
		}
		t.policy.ask()
		t.look(ctx)
	}
}

// adopt goes on from a model that was chosen outside: its outputs are an epoch of their own unless they are those of
// the live one.
func (t *trainer) adopt(m *Live, pinned bool) {
	t.pinned = pinned
	t.stage.promote(m)
	t.live, t.origin, t.candidates, t.newest = newView(m.Model), m.Model, nil, 0
	if m.Origin != nil {
		t.origin = m.Origin
	}
	t.settle(m.Model, nil)
	t.drift.Reset()
	t.policy.Fitted = nil
	t.log.Info("a chosen model goes live", "version", m.Version, "pinned", pinned)
}

// tick lets the time go on where no rows come: a first model need not wait for them.
func (t *trainer) tick(ctx context.Context, now time.Time) {
	if t.live == nil && t.window != nil && t.resume == nil {
		t.policy.tick(now)
		t.look(ctx)
	}
}

// status is how far learning is.
func (t *trainer) status() Status {
	s := Status{Needed: t.policy.firstRows(), Alarms: t.alarms, Overfull: t.overfull, Filling: t.resume != nil,
		Pinned: t.pinned, Accuracy: math.NaN(), Candidate: math.NaN()}
	if t.window != nil {
		s.Rows, s.Classes, s.Bytes = t.window.Len(), t.window.Classes(), t.window.Bytes()
		s.Largest, s.trainable = t.window.Largest(), t.window.Trainable()
	}
	if t.newest != 0 {
		s.Newest = time.Unix(0, t.newest)
	}
	if t.live != nil {
		s.Accuracy, s.Chance = t.live.agree.rate(), t.live.agree.chance()
	}
	for _, c := range t.candidates {
		if v := c.Test.Value(); v >= s.Evidence {
			s.Evidence, s.Candidate, s.CandidateRows = v, c.agree.rate(), c.rows
		}
	}
	return s
}

// step scores some rows, learns them, and does what is due then.
func (t *trainer) step(ctx context.Context, rows []window.Row) {
	for len(rows) > 0 && t.past(&rows[0]) {
		t.window.Add(rows[0])
		rows = rows[1:]
	}
	if len(rows) == 0 {
		return
	}
	if t.resume != nil {
		t.restore(ctx)
	}
	for _, r := range rows {
		t.newest = max(t.newest, r.Time)
	}
	changed := t.score(rows)
	t.take(rows)
	if changed && !t.config.Training.IgnoreDrift {
		t.cut(t.drift.Len())
	}
	t.promoteBest(ctx)
	t.look(ctx)
}

// score asks every model about rows that none has seen, and tells whether the world has changed.
func (t *trainer) score(rows []window.Row) (changed bool) {
	if t.live == nil || t.labelled() && len(t.references.rows) == 0 {
		return false
	}
	v, err := t.live.judge(t.references, rows, t.labelled())
	if err != nil {
		t.log.Error("scoring the live model", "error", err)
		return false
	}
	t.live.agree.addAll(v, rows)
	for _, wrong := range v.means {
		changed = t.drift.Add(1-wrong) || changed
	}
	for _, c := range t.candidates {
		u, err := c.judge(t.references, rows, t.labelled())
		if err != nil {
			t.log.Error("scoring a candidate", "error", err)
			continue
		}
		c.agree.addAll(u, rows)
		for i := range rows {
			c.Test.Add(u.right[i] - v.right[i])
		}
	}
	return changed
}

// take puts rows into the window, and what is held out among the references.
func (t *trainer) take(rows []window.Row) {
	taken, over, classes := 0, 0, t.window.Classes()
	for i := range rows {
		switch t.window.Add(rows[i]) {
		case window.Taken:
			taken++
			if held := t.window.At(rows[i].Position); held.Held() {
				t.references.add(held)
			}
		case window.Overfull:
			over++
		}
	}
	t.references.follow(t.window)
	if over > 0 && t.overfull == 0 {
		t.log.Warn("rows of new classes are not learned", "rows", over, "limit", t.config.Classes,
			"cure", "raise limits.classes, or check that the label column holds classes")
	}
	t.overfull += over
	t.policy.learn(taken, t.window.Classes() > classes, time.Unix(0, rows[len(rows)-1].Time))
}

// cut leaves out what was before a change: the window and the references keep the newest rows, and candidates are
// fitted on them. A change promotes nothing.
func (t *trainer) cut(rows int) {
	if t.window.Len() == 0 {
		return
	}
	t.alarms++
	at := t.window.Back(max(rows, 1))
	t.window.Cut(at)
	t.references.cut(at)
	t.policy.cut(t.window.Len())
	t.candidates = nil
	t.log.Info("the rows have changed; older ones are left out", "kept", t.window.Len())
}

// look fits what is due.
func (t *trainer) look(ctx context.Context) {
	if t.window == nil || t.pinned || !t.window.Trainable() {
		return
	}
	if t.live == nil && t.policy.first(t.window.Len()) {
		t.fitFirst(ctx)
	}
	if t.live == nil {
		return
	}
	if t.policy.checkpoint() {
		t.refused()
		t.fitAll(ctx)
		t.keep(ctx)
		return
	}
	due := t.policy.due(t.window.Len())
	if len(due) == len(t.policy.sizes(t.window.Len())) {
		t.refused()
	}
	for _, size := range due {
		t.fitCandidate(ctx, size)
	}
	t.policy.began(due, t.window.Len())
	if len(due) > 0 && !t.policy.nested {
		t.keep(ctx)
	}
}

// refused tells that candidates were looked at and the live model was kept, where rows judged them.
func (t *trainer) refused() {
	var best *candidate
	for _, c := range t.candidates {
		if c.Test.Count > 0 && (best == nil || c.Test.Value() > best.Test.Value()) {
			best = c
		}
	}
	if best == nil {
		return
	}
	_, why := t.passes(best)
	t.stage.learner.ended(Outcome{Live: t.stage.Live(), Candidate: best.agree.rate(), Previous: t.live.agree.rate(),
		Rows: best.rows, Reason: why})
}

// keep hands a checkpoint to the host.
func (t *trainer) keep(ctx context.Context) {
	t.policy.saved()
	if t.config.Checkpoint == nil {
		return
	}
	if err := t.config.Checkpoint(ctx, t.state()); err != nil && ctx.Err() == nil {
		t.log.Warn("what the learner knows could not be kept; a restart reads more rows", "error", err)
	}
}

// fitAll fits every suffix.
func (t *trainer) fitAll(ctx context.Context) {
	sizes := t.policy.sizes(t.window.Len())
	for _, size := range sizes {
		t.fitCandidate(ctx, size)
	}
	t.policy.began(sizes, t.window.Len())
}

// fitOthers fits every suffix but that of the model that is to go live.
func (t *trainer) fitOthers(ctx context.Context, c *candidate) {
	var sizes []int
	for _, size := range t.policy.sizes(t.window.Len()) {
		if c != nil && size != c.size && t.policy.nested {
			t.fitCandidate(ctx, size)
			sizes = append(sizes, size)
		}
	}
	t.policy.began(sizes, t.window.Len())
}

// fitFirst makes the first model, which needs no evidence.
func (t *trainer) fitFirst(ctx context.Context) {
	begin := t.config.Clock()
	s, m, err := t.fit(ctx, 0, t.settled)
	t.policy.began([]int{0}, t.window.Len())
	if err == nil {
		t.settle(m, m.Report().Choice)
		err = t.promote(ctx, m, s, nil, fmt.Sprintf("the first model, of %d rows", s.Rows), begin)
	}
	t.failed(ctx, err, t.window.Len())
}

// settle keeps the number of outputs and what auto chose: readers rely on the one, and a change of method moves all.
func (t *trainer) settle(m *model.Model, choice *model.Choice) {
	if choice != nil && choice.Rule == "cv" {
		t.choice = choice
		t.settled = t.settled.Settled(choice)
		t.settled.Pad = true
	}
	t.settled.Dim = m.Dim()
	if method, err := t.settled.Describe(); err == nil && method.Name != fit.Auto {
		t.method = method
		t.policy.nested = t.byMoments()
	}
}

// fitCandidate fits a suffix anew. A candidate of that suffix that was there goes on with the evidence that its
// predecessors gathered: each row was scored before a model saw it, so the evidence is for the suffix, however often it
// was fitted.
func (t *trainer) fitCandidate(ctx context.Context, size int) {
	if ctx.Err() != nil {
		return
	}
	s, m, err := t.fit(ctx, size, t.settled)
	if err != nil {
		t.failed(ctx, err, t.window.Len())
		return
	}
	c := t.candidateOf(size)
	growing := grown(s.Rows, t.live.model.Rows())
	if c == nil {
		c = &candidate{size: size}
		c.Test = t.config.Training.Gate.begin(growing)
		c.Growing = growing
		t.candidates = append(t.candidates, c)
		slices.SortFunc(t.candidates, func(a, b *candidate) int { return longer(b.size) - longer(a.size) })
	} else if growing && !c.Growing {
		c.Growing, c.Test = true, t.config.Training.Gate.begin(true)
	}
	agree := c.agree
	c.view = *newView(m)
	c.view.agree = agree
	c.rows, c.first, c.last = s.Rows, s.First, s.Last
}

func longer(size int) int {
	if size == 0 {
		return math.MaxInt
	}
	return size
}

func (t *trainer) candidateOf(size int) *candidate {
	for _, c := range t.candidates {
		if c.size == size {
			return c
		}
	}
	return nil
}

// fit fits one suffix.
func (t *trainer) fit(ctx context.Context, size int, c fit.Config) (s *window.Suffix, m *model.Model, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fitting %s panicked: %v; please report it", t.method.Name, p)
		}
	}()
	n := size
	if n == 0 {
		n = t.window.Len()
	}
	if t.byMoments() {
		s, err = t.window.Newest(n)
		if err != nil {
			return nil, nil, err
		}
		m, err = fit.FitMoments(ctx, s.Moments, t.stage.decoder.Features(), s.Classes, c)
	} else {
		s = t.window.NewestRows(n)
		d := &model.Data{X: s.X, N: s.Rows, M: t.policy.features, Features: t.stage.decoder.Features()}
		if t.labelled() {
			d.Y, d.Classes = s.Y, s.Classes
		}
		m, err = fit.Fit(ctx, d, c)
	}
	t.stage.learner.counted()
	if err != nil {
		return nil, nil, fmt.Errorf("fitting on %d rows: %w", s.Rows, err)
	}
	return s, m, nil
}

// failed tells of an error, now and then where many fits fail.
func (t *trainer) failed(ctx context.Context, err error, rows int) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if t.failedAt > 0 && t.policy.Learned-t.failedAt < failedRows && t.policy.Learned >= t.failedAt {
		return
	}
	t.failedAt = max(t.policy.Learned, 1)
	attrs := []any{"rows", rows, "error", err}
	if p := new(model.Panic); errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	t.log.Error("a fit failed; the live model stays", attrs...)
	t.stage.learner.ended(Outcome{Live: t.stage.Live(), Candidate: math.NaN(), Previous: math.NaN(), Rows: rows,
		Reason: err.Error(), Err: err})
}

// failedRows is how many rows go by between two reports of failed fits.
const failedRows = 1000

// passes asks the gate about a candidate.
func (t *trainer) passes(c *candidate) (bool, string) {
	if !t.labelled() {
		return t.config.Training.Gate.passes(c.standing, nil)
	}
	return t.config.Training.Gate.passes(c.standing, &c.agree)
}

// promoteBest promotes the candidate for which most speaks, where it passes the gate.
func (t *trainer) promoteBest(ctx context.Context) {
	if t.pinned || t.live == nil {
		return
	}
	var best *candidate
	var why string
	for _, c := range t.candidates {
		pass, reason := t.passes(c)
		if pass && (best == nil || c.Test.Value() > best.Test.Value()) {
			best, why = c, reason
		}
	}
	if best == nil {
		return
	}
	s := &window.Suffix{First: best.first, Last: best.last, Rows: best.rows}
	begin := t.config.Clock()
	if err := t.promote(ctx, best.model, s, best, why, begin); err != nil {
		best.Test = t.config.Training.Gate.begin(best.Growing) // what was not stored has to earn it again
		t.failed(ctx, err, best.rows)
	}
}

// promote aligns a model to the live one, stores it and moves the pointer, in this order: what answers is always in
// the store. What was known of candidates spoke about the model that was live: they begin anew.
func (t *trainer) promote(ctx context.Context, m *model.Model, s *window.Suffix, c *candidate, why string,
	begin time.Time) error {
	o := Outcome{Candidate: math.NaN(), Previous: math.NaN(), Rows: s.Rows, Reason: why}
	if c != nil {
		o.Candidate, o.Previous = c.agree.rate(), t.live.agree.rate()
	}
	live := t.stage.Live()
	epoch, origin := 1, m
	if live != nil {
		var err error
		if m, epoch, origin, err = t.align(m, live, &o); err != nil {
			return fmt.Errorf("aligning to model %s: %w", live.Version, err)
		}
	}
	before := *t
	t.live, t.origin, t.candidates = newView(m), origin, nil
	t.drift.Reset()
	t.policy.saved()
	t.fitOthers(ctx, c)
	if err := t.publish(ctx, m, epoch, s, &o, false); err != nil {
		*t = before
		return err
	}
	o.Duration = t.config.Clock().Sub(begin)
	t.stage.learner.ended(o)
	return nil
}

// align brings a model into the coordinates of the live one, and says which epoch its outputs belong to.
func (t *trainer) align(m *model.Model, live *Live, o *Outcome) (*model.Model, int, *model.Model, error) {
	if live.Bootstrap {
		return m, live.nextEpoch(), m, nil
	}
	x, labels := newestRows(t.window, epochRows)
	anchors := model.DenseRows(x, len(labels), m.M())
	aligned, a, err := model.Align(m, live.Model, anchors, string(t.config.Training.Align))
	if err != nil {
		return nil, 0, nil, err
	}
	o.Displacement = a.Residual
	loss, spread, comparable := 0.0, 0.0, a.Comparable
	if t.labelled() {
		if loss, spread, err = crossLoss(t.origin, aligned, x, labels); err != nil {
			return nil, 0, nil, err
		}
		comparable = loss+1.5*spread <= maxCrossLoss
	}
	if comparable {
		o.Reason += fmt.Sprintf("; coordinates of the epoch's first model lose %.1f points", 100*loss)
		return aligned, live.Epoch, t.origin, nil
	}
	o.Reason += fmt.Sprintf("; a new epoch: coordinates of the old one's first model lose %.1f points", 100*loss)
	return aligned, live.nextEpoch(), aligned, nil
}

// nextEpoch is one that no model had before.
func (l *Live) nextEpoch() int { return max(l.Epoch, l.Epochs) + 1 }

// publish stores a model and moves the pointer.
func (t *trainer) publish(ctx context.Context, m *model.Model, epoch int, s *window.Suffix, o *Outcome,
	bootstrap bool) error {
	note := model.Note{Created: t.config.Clock(), Epoch: uint64(epoch), Source: map[string]string{}}
	for k, v := range t.config.Source {
		note.Source[k] = v
	}
	note.Source["first"] = strconv.FormatUint(t.readFrom().Seq, 10)
	note.Source["last"] = strconv.FormatUint(s.Last.Seq, 10)
	live := &Live{Version: m.Digest()[:16], Epoch: epoch, Seen: s.Last.Seq, Bootstrap: bootstrap, Origin: t.origin}
	if before := t.stage.Live(); before != nil {
		live.Epochs = max(before.Epochs, epoch)
	}
	if t.config.Store != nil {
		r := &Release{Model: m.WithNote(note), Epoch: epoch, Bootstrap: bootstrap, First: s.First.Seq, Last: s.Last.Seq,
			Rows: s.Rows, Score: o.Candidate, LiveScore: o.Previous, Why: o.Reason, State: t.state(),
			NewEpoch: t.origin == m}
		if before := t.stage.Live(); before != nil {
			r.Parent = before.Version
		}
		version, err := t.config.Store(ctx, r)
		if err != nil {
			return fmt.Errorf("storing the model: %w", err)
		}
		live.Version = version
	}
	note.Version = live.Version
	live.Model = m.WithNote(note)
	o.Live, o.Promoted = live, true
	t.stage.promote(live)
	t.log.Info("model goes live", "version", live.Version, "method", m.Method(), "dim", m.Dim(), "epoch", epoch,
		"rows", s.Rows, "reason", o.Reason)
	return nil
}

// wantsBootstrap tells whether rows are gathered for the PCA that serves until a first model exists.
func (t *trainer) wantsBootstrap() bool {
	return t.config.Until == UntilPCA && t.stage.Live() == nil
}

// warmUp gathers rows for the bootstrap model, and fits it when there are enough.
func (t *trainer) warmUp(ctx context.Context, rows [][]float64) {
	if !t.wantsBootstrap() {
		t.others = nil
		return
	}
	for _, x := range rows {
		if t.config.Nulls == NullsImpute || finite(x) {
			t.others = append(t.others, x...)
		}
	}
	m := t.policy.features
	if len(t.others) < t.policy.firstRows()*m {
		return
	}
	n := len(t.others) / m
	c := t.config.Fit
	c.Method, c.Own, c.Params = "pca", nil, nil
	begin := t.config.Clock()
	p, err := fit.Fit(ctx, &model.Data{X: t.others, N: n, M: m, Features: t.stage.decoder.Features()}, c)
	t.others = nil
	if err != nil {
		t.failed(ctx, fmt.Errorf("fitting the bootstrap model: %w", err), n)
		return
	}
	o := Outcome{Candidate: math.NaN(), Previous: math.NaN(), Rows: n,
		Reason: fmt.Sprintf("a PCA of the first %d rows serves until a first model exists", n)}
	t.origin = p
	if err := t.publish(ctx, p, 1, &window.Suffix{Rows: n}, &o, true); err != nil {
		t.failed(ctx, err, n)
		return
	}
	o.Duration = t.config.Clock().Sub(begin)
	t.stage.learner.ended(o)
}
