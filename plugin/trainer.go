package plugin

import (
	"context"
	"log/slog"
	"math"
	"slices"
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
	scouts     *scouts       // nil: the method needs none, or they would cost too much
	settled    fit.Config    // the method as auto chose it, with the number of outputs
	choice     *model.Choice // of auto
	marks      landmarks
	others     []float64 // first rows, labelled or not, for the bootstrap model
	pinned     bool
	standby    bool   // another process fits
	most       int    // rows that fits may have where matrices of features x features would be too large; 0: no bound
	narrow     string // a sentence about it
	resume     *state // of a restart, until the window is filled again
	alarms     int
	overfull   int       // rows of one class too many
	far        int       // rows that summaries leave out
	x          []float64 // rows that are scored, side by side
	failedAt   int       // rows learned when a failed fit was last told of; 0: never
	farTold    int       // from how many far rows on they are told of again

	// Of labels that come apart from their rows:
	waits   window.Position // the oldest row that waits for one; zero: none
	labels  window.Position // the newest that was read
	learned window.Position // the newest row that was learned before a restart
	joined  window.Position // the newest label that was read then
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
	t.standby = s.config.Standby
	t.policy.every = s.config.Training.Every
	t.policy.nested, t.policy.landmarks = t.byMoments(), s.config.Fit.Landmarks
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
	t.resumeBehind(r.Model, t.resume.Landmarks)
}

// labelled tells whether rows need a label to be learned from.
func (t *trainer) labelled() bool { return t.config.Spec.Label != "" }

// byMoments tells whether the method, or what auto settled on, is fitted from moments.
func (t *trainer) byMoments() bool { return t.method.Streaming == "moments" && t.sums() }

// sums tells whether a model can be fitted from moments at all, given how rows are prepared.
func (t *trainer) sums() bool {
	scale := t.config.Fit.Scale
	return t.narrow == "" && t.config.Nulls != NullsImpute && (t.behind() || scale == "" || scale == model.ScaleStandard || scale == model.ScaleNone)
}

// chooses tells whether the method is left to the rows.
func (t *trainer) chooses() bool {
	method, _ := t.config.Fit.Describe() // the configuration was checked
	return method.Name == fit.Auto && t.labelled()
}

func (t *trainer) open(features int) {
	w := t.config.Training.Window
	if t.most, t.narrow = t.room(features); t.narrow != "" {
		t.log.Warn("learning is narrower than asked", "cause", t.narrow)
		w.Rows = min(w.Rows, max(t.most, 4))
		t.policy.nested = t.byMoments()
	}
	c := window.Config{Features: features, Rows: min(w.Rows, t.mostOf(w.Rows, features)), Age: w.Age, Bytes: w.Bytes - queueBytes(w.Bytes) - t.landmarkBytes(features),
		Classes: t.config.Classes, Holdout: t.config.Training.Holdout, Balance: w.Balance == BalanceClass,
		Share:    t.config.Training.Quota.Share,
		Labelled: t.labelled(), Moments: t.byMoments(), Copies: !t.byMoments() || t.behind(),
		Lifted: t.config.Fit.Landmarks, Rest: t.stage.learner.rest}
	if t.config.Training.Block > 0 {
		c.Summed, c.Balance = true, false // which is in the summaries
	}
	if t.chooses() { // now a method that learns from moments, now one that needs the rows
		c.Moments, c.Copies = t.sums(), true
	}
	if t.labelled() && t.sums() && t.columns(features) <= maxScoutFeatures && (t.chooses() || !t.byMoments()) {
		c.Moments = true
		t.scouts = newScouts()
		t.scouts.policy.features, t.scouts.policy.landmarks = features, t.config.Fit.Landmarks
	}
	t.window = window.New(c)
	t.lift()
	if most := c.MaxRows(); most < w.Rows {
		t.log.Warn("the window holds fewer rows than asked, to stay within its memory", "rows", most, "asked", w.Rows,
			"window.bytes", w.Bytes, "features", features)
	}
	t.policy.features, t.policy.most = features, t.window.MaxRows()
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
	if t.window == nil && (len(l.rows)+len(l.other) > 0 || l.summary != nil) {
		t.open(t.stage.contract.Load().Len())
	}
	if l.adopt != nil {
		t.adopt(ctx, l.adopt, l.pinned)
	}
	if l.standby != nil {
		t.stand(ctx, *l.standby)
	}
	if l.summary != nil {
		t.learnSummary(ctx, l.summary)
		return
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
	if !l.refit && l.adopt == nil && l.standby == nil {
		t.waits = l.waits
	}
	if l.refit && t.window != nil && !t.standby {
		if t.resume != nil {
			t.restore(ctx)
		}
		t.policy.ask()
		t.look(ctx)
	}
}

// adopt goes on from a model that was chosen outside: its outputs are an epoch of their own unless they are those of
// the live one.
func (t *trainer) adopt(ctx context.Context, m *Live, pinned bool) {
	t.pinned = pinned
	t.stage.promote(m)
	if m.Bootstrap {
		t.live, t.candidates = nil, nil
		return
	}
	t.live, t.origin, t.candidates, t.newest = newView(m.Model), m.Model, nil, 0
	if m.Origin != nil {
		t.origin = m.Origin
	}
	t.settle(m.Model, t.keepStep(m))
	t.stayBehind(ctx, m.Model)
	t.drift.Reset()
	t.policy.Fitted = nil
	if t.resume != nil {
		t.resume.forget()
	}
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
	s := Status{Needed: t.policy.firstRows(), Hint: t.narrow, nothing: t.learnsNothing(), Alarms: t.alarms, Overfull: t.overfull, Filling: t.resume != nil,
		Pinned: t.pinned, Accuracy: math.NaN(), Candidate: math.NaN()}
	if t.window != nil {
		s.Rows, s.Classes, s.Bytes = t.window.Len(), t.window.Classes(), t.window.Bytes()
		s.Largest, s.trainable = t.window.Largest(), t.window.Trainable()
		s.Capped = t.window.Capped()
		s.Sparse, s.Far, s.FarRow = t.window.Sparse(), t.window.Far().Rows+t.far, t.farRow()
		s.ReadFrom = t.readFrom().Seq
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
	changed := t.score(ctx, t.known(rows))
	t.take(rows)
	if changed && !t.config.Training.IgnoreDrift {
		t.cut(t.drift.Len())
	}
	t.promoteBest(ctx)
	t.look(ctx)
}

// score asks every model about rows that none has seen, and tells whether the world has changed.
func (t *trainer) score(ctx context.Context, rows []window.Row) (changed bool) {
	if t.live == nil || t.labelled() && len(t.references.rows) == 0 {
		return false
	}
	ctx = toItsEnd(ctx) // a verdict that was broken off would count as wrong
	t.x = t.x[:0]
	for i := range rows {
		t.x = append(t.x, rows[i].X...)
	}
	v := t.live.judge(ctx, t.references, rows, t.x, t.labelled())
	t.live.agree.addAll(v, rows)
	for _, wrong := range v.means {
		changed = t.drift.Add(1-wrong) || changed
	}
	if t.scouting() {
		t.scouts.score(ctx, t.references, rows, t.x)
		t.policy.Suffix = t.scouts.best()
	}
	for _, c := range t.candidates {
		u := c.judge(ctx, t.references, rows, t.x, t.labelled())
		c.agree.addAll(u, rows)
		for i := range rows {
			c.Test.Add(u.right[i] - v.right[i])
		}
	}
	return changed
}

// take puts rows into the window, and what is held out among the references.
func (t *trainer) take(rows []window.Row) {
	taken, over, classes := 0, 0, t.window.Established()
	for i := range rows {
		switch t.window.Add(rows[i]) {
		case window.Taken:
			taken++
			t.refer(rows[i].Position)
		case window.Overfull:
			over++
		}
	}
	t.references.follow(t.window)
	if t.window.Unsettled() {
		t.sift()
	}
	if over > 0 && t.overfull == 0 {
		t.log.Warn("rows of new classes are not learned", "rows", over, "limit", t.config.Classes,
			"cure", "raise limits.classes, or check that the label column holds classes")
	}
	t.overfull += over
	fresh, at := t.window.Established() > classes, time.Unix(0, rows[len(rows)-1].Time)
	t.policy.learn(taken, fresh, at)
	if t.scouts != nil {
		t.scouts.policy.learn(taken, fresh, at)
	}
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
	t.sift()
	t.policy.cut(t.window.Len())
	t.candidates = nil
	t.redraw() // those of rows that are left out now
	t.marks.Alarmed = t.behind() && !t.marks.New
	if t.scouts != nil {
		t.scouts.cut(t.window.Len())
	}
	t.log.Info("the rows have changed; older ones are left out", "kept", t.window.Len())
}

// look fits what is due.
func (t *trainer) look(ctx context.Context) {
	if t.window == nil || t.pinned || t.standby || t.learnsNothing() || !t.window.Trainable() {
		return
	}
	if t.live == nil && t.policy.first(t.window.Learnable()) {
		t.fitFirst(ctx)
	}
	if t.live == nil {
		return
	}
	t.lookAtLandmarks(ctx)
	if t.chooses() && t.policy.choose(t.window.Len()) {
		t.choose(ctx)
	}
	t.scout(ctx, false)
	if t.policy.checkpoint() {
		t.refused()
		t.redraw()
		t.fitAll(ctx)
		t.keep(ctx)
		return
	}
	due, sizes := t.policy.due(t.window.Len()), t.policy.sizes(t.window.Len())
	keep := !t.policy.nested && slices.Contains(due, 0)
	if keep { // a suffix costs less, and with all candidates anew a restart can begin here
		due = sizes
		t.redraw()
		t.candidates = slices.DeleteFunc(t.candidates, func(c *candidate) bool { return !slices.Contains(sizes, c.size) })
	}
	if len(due) == len(sizes) {
		t.refused()
	}
	for _, size := range due {
		t.fitCandidate(ctx, size)
	}
	t.policy.began(due, t.window.Len())
	if keep {
		t.keep(ctx)
	}
}

// keep hands a checkpoint to the host.
func (t *trainer) keep(ctx context.Context) {
	t.policy.saved()
	t.scout(ctx, true)
	if t.config.Checkpoint == nil || ctx.Err() != nil { // then fits are missing that a restart would never make
		return
	}
	if err := t.config.Checkpoint(ctx, t.state()); err != nil && ctx.Err() == nil {
		t.log.Warn("what the learner knows could not be kept; a restart reads more rows", "error", err)
	}
}
