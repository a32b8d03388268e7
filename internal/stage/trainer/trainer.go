package trainer

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/profile"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// Trainer learns from events, one after another. It is not safe for concurrent use.
type Trainer struct {
	config *spec.Config
	host   Host
	log    *slog.Logger

	plan     *plan
	data     *dataset
	fitter   *fitter
	probe    *windowProbe // nil if the method needs none, or it would cost too much
	schedule policy.Schedule

	live            *prequential.Model     // nil before the first model that is no bootstrap model
	origin          *model.Model           // the first model of the epoch, and of those recorded as one with it
	previousOrigin  *model.Model           // origin of the epoch before, while it is undecided whether both are comparable
	liveRows        fittedRows             // of the live model
	drift           evidence.DriftDetector // of the recall of the nearest class mean in the live model's outputs
	labels          evidence.LabelSequence // of the rows that are scored
	suspicion       policy.Suspicion
	judged          int     // candidates that held-out rows have tested against the live model
	heldOutAccuracy float64 // of the live model in the last such test; NaN: none
	candidates      []*candidate
	rules           policy.Rules // of the suffixes that candidates are fitted on
	unlabelled      []float64    // features of the first rows without a label, for the bootstrap model

	bootstrap     *model.Model // fitted from unlabelled, and not stored yet; nil: none
	bootstrapRows int

	description description // of the window, for the status

	pinned      bool
	standby     bool
	resume      *checkpoint // of a restart, until the window is filled again
	newest      int64       // time of the newest row that was scored
	alarms      int
	failedAt    int       // rows learned when a failed fit was last reported; 0: never
	storeFailed bool      // see ShouldRetryStore
	x           []float64 // scratch memory: features of the rows that are scored
}

// chunkRows is how many rows are scored before they are learned.
const chunkRows = 32

// New returns a trainer for a valid configuration.
func New(c *spec.Config, host Host) *Trainer {
	t := &Trainer{config: c, host: host, log: c.Logger, standby: c.Standby, plan: newPlan(c), heldOutAccuracy: math.NaN()}
	t.data = &dataset{references: prequential.NewReferences(0), labelled: t.plan.labelled(), log: t.log,
		features: host.Features, maxClasses: c.Classes}
	t.fitter = &fitter{plan: t.plan, data: t.data, log: t.log, features: host.Features, countFit: host.CountFit,
		blocks: &t.drift.Blocks}
	t.schedule.Every, t.schedule.Landmarks = c.Training.Every, c.Fit.Landmarks
	t.schedule.Nested = t.plan.byMoments()
	if c.Resume != nil {
		t.resumeFrom(c.Resume)
	}
	return t
}

// open makes the window, once the number of features is known. first is the position of its first row; zero: unknown.
func (t *Trainer) open(features int, first window.Position) {
	p := t.plan
	if p.setLimit(features); p.limit != "" {
		t.log.Warn("learning is limited by memory", "cause", p.limit)
		t.schedule.Nested = p.byMoments()
	}
	c, asked := p.windowConfig(features)
	c.Pause = t.host.Pause
	if p.probes(features) {
		t.probe = &windowProbe{fitter: t.fitter, schedule: policy.Schedule{
			Config: policy.Config{Nested: true, Features: features, Landmarks: t.config.Fit.Landmarks}}}
	}
	t.data.window = window.New(c)
	t.fitter.mapWindow()
	if most := c.MaxRows(); most < asked {
		t.log.Warn("the window holds fewer rows than configured, to stay within its memory", "rows", most,
			"requested", asked, "window.bytes", t.config.Training.Window.Bytes, "features", features)
	}
	t.schedule.Features, t.schedule.MaxRows = features, t.data.window.MaxRows()
	if t.resume != nil {
		// Else the stream is an older copy, whose rows are all before the start.
		if first == (window.Position{}) || first.Created >= t.resume.Start.Created {
			t.data.window.Cut(t.resume.Start)
		}
		t.data.window.LowerQuota(t.resume.Quota)
	}
}

// Learn handles one event.
func (t *Trainer) Learn(ctx context.Context, e *Event) {
	if first, ok := e.first(); t.data.window == nil && (ok || len(e.Unlabelled) > 0) {
		t.open(len(t.host.Features()), first)
	}
	switch {
	case e.TakeOver:
		t.takeOver(e.Adopt)
	case e.Adopt != nil:
		t.adopt(ctx, e.Adopt, e.Pinned)
		t.fitBootstrap(ctx, nil)
	case e.Standby != nil:
		t.setStandby(ctx, *e.Standby)
		t.fitBootstrap(ctx, nil)
	case e.Refit:
		t.fitBootstrap(ctx, nil)
		if t.data.window == nil || t.standby {
			break
		}
		if t.resume != nil {
			t.restore(ctx)
		}
		t.schedule.Request()
		t.fitDue(ctx)
	case e.Summary != nil:
		t.learnSummary(ctx, e.Summary)
		updateDescription(t, len(e.Summary.Rows))
	default:
		t.learnMessage(ctx, e)
		updateDescription(t, len(e.Rows))
	}
}

// learnMessage handles the rows of a message, or the rows and fixes that a message of labels brings.
func (t *Trainer) learnMessage(ctx context.Context, e *Event) {
	t.fitBootstrap(ctx, e.Unlabelled)
	if t.resume != nil && t.data.hasNewFixes(e) {
		t.restore(ctx) // the window of the checkpoint is full, and without these fixes
	}
	later := t.data.fix(e.Fixes) // before a checkpoint of these rows: a restart has read the whole message
	rows := t.data.refill(e, t.resume != nil)
	t.data.setNewestLabel(e, 0)
	for len(rows) > 0 && ctx.Err() == nil {
		part := rows[:min(chunkRows, len(rows))]
		rows = rows[len(part):]
		t.data.setNewestLabel(e, len(rows))
		t.learnRows(ctx, part)
	}
	t.data.fix(later)
	t.data.waiting = e.OldestWaiting
}

// learnRows scores rows, learns them, and fits and promotes what is due then.
func (t *Trainer) learnRows(ctx context.Context, rows []window.Row) {
	for len(rows) > 0 && t.isPast(&rows[0]) {
		t.data.window.Add(rows[0])
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
	drifted := t.score(ctx, rows)
	t.addRows(rows)
	t.fitAndPromote(ctx, drifted, rows)
}

// isPast reports whether a row was learned before a restart and only fills the window again. Rows of another stream
// than the last one that was learned are new, even if that stream was created earlier: it was restored.
func (t *Trainer) isPast(r *window.Row) bool {
	if t.resume == nil || t.config.Labels != nil && t.resume.Format > 0 { // the dataset refills these itself
		return false
	}
	if t.resume.Format == 0 {
		return r.Seq <= t.config.Resume.Seen
	}
	return r.Created == t.resume.Last.Created && r.Compare(t.resume.Last) <= 0
}

// learnSummary does the same for the summary of a block, whose rows are a sample.
func (t *Trainer) learnSummary(ctx context.Context, s *window.Summary) {
	t.data.outliers += s.Read.Outliers
	t.data.overClassLimit += s.Read.OverClassLimit
	if len(s.Rows) == 0 {
		return
	}
	last := &s.Rows[len(s.Rows)-1]
	if t.isPast(last) {
		t.data.window.AddSummary(s)
		return
	}
	if t.resume != nil {
		t.restore(ctx)
	}
	t.newest = max(t.newest, last.Time)
	drifted := false
	for rows := s.Rows; len(rows) > 0 && ctx.Err() == nil; {
		part := rows[:min(chunkRows, len(rows))]
		rows = rows[len(part):]
		drifted = t.score(ctx, part) || drifted
	}
	if ctx.Err() != nil {
		return
	}
	t.addSummary(s)
	t.fitAndPromote(ctx, drifted, nil)
}

// score scores all models on rows that none has seen, and reports whether the drift detector found a change. Before the
// first model it only follows the sequence of their labels.
func (t *Trainer) score(ctx context.Context, rows []window.Row) (drifted bool) {
	labelled, refs := t.plan.labelled(), t.data.references
	if t.live == nil {
		describeRows(t, rows)
		return false
	}
	if labelled && refs.Len() == 0 {
		return false
	}
	rows = t.data.scorable(rows)
	ctx = Endless(ctx) // an interrupted score would count as wrong
	t.x = t.x[:0]
	for i := range rows {
		t.x = append(t.x, rows[i].X...)
	}
	live := t.live.Score(ctx, refs, rows, t.x, labelled)
	described := describeRows(t, rows)
	t.live.Count(live, rows, described, &t.labels)
	for i, right := range live.NearestMean {
		if described[i].IsStray { // between its runs most rows of a class are wrong labels: its recall would seem to fall
			right = math.NaN()
		}
		drifted = t.drift.Add(rows[i].Label, right) || drifted
	}
	if t.isProbing() {
		t.schedule.Suffix = t.probe.score(ctx, t.config.Training.Gate, rows, t.x, described)
	}
	scores := make([][]float64, len(t.candidates))
	early := earlyOdds(t)
	for k, c := range t.candidates {
		if c.comparison.EarlyOdds = early; t.rules.IsShownBehind(c.size) || c.Method() != t.live.Method() {
			c.comparison.EarlyOdds = 0
		}
		own := c.Score(ctx, refs, rows, t.x, labelled)
		c.Count(own, rows, described, &t.labels)
		compareScores(t, c, own, live, described)
		scores[k] = fairScores(c.Model, own.NearestMean, described)
	}
	if labelled && t.schedule.Nested {
		scoreRules(t, scores, fairScores(t.live, live.NearestMean, described), described)
	} else {
		t.rules = policy.Rules{} // of a method before, whose suffixes were fitted from moments
	}
	suspect(t, described)
	return drifted
}

// isProbing reports whether the method, or the one that auto chose, uses the window probe.
func (t *Trainer) isProbing() bool { return t.probe != nil && !t.plan.byMoments() }

// Endless returns a context that is never done. Its Err calls that of ctx, where learning pauses.
func Endless(ctx context.Context) context.Context { return endless{context.WithoutCancel(ctx), ctx} }

type endless struct {
	context.Context
	pausing context.Context
}

func (e endless) Err() error {
	_ = e.pausing.Err()
	return nil
}

// addRows adds rows to the window, and those that are held out to the references.
func (t *Trainer) addRows(rows []window.Row) {
	taken, over, classes := 0, 0, t.data.window.EstablishedClasses()
	for i := range rows {
		switch t.data.window.Add(rows[i]) {
		case window.Added:
			taken++
			t.data.addReference(t.data.window.At(rows[i].Position))
		case window.OverClassLimit:
			over++
		}
	}
	t.data.syncReferences()
	t.data.countOverClassLimit(over)
	t.count(taken, classes, rows[len(rows)-1].Time)
}

// addSummary does so for a block and its sample of rows.
func (t *Trainer) addSummary(s *window.Summary) {
	classes, at := t.data.window.EstablishedClasses(), s.Rows[len(s.Rows)-1].Time
	rows := make([]window.Position, len(s.Rows))
	for i := range s.Rows {
		rows[i] = s.Rows[i].Position
	}
	taken := s.Len()
	if t.data.window.AddSummary(s) != window.Added {
		return
	}
	for _, p := range rows {
		t.data.addReference(t.data.window.At(p))
	}
	t.data.syncReferences()
	t.count(taken, classes, at)
}

// count records rows in the schedules; classes is the number of classes before them.
func (t *Trainer) count(rows, classes int, nanos int64) {
	newClass, at := t.data.window.EstablishedClasses() > classes, time.Unix(0, nanos)
	t.schedule.RecordRows(rows, newClass, at)
	if t.probe != nil {
		t.probe.schedule.RecordRows(rows, newClass, at)
	}
}

// fitAndPromote does what is due after rows were added, nil for those of a summary: it cuts the window after a drift,
// promotes the best candidate, and fits.
func (t *Trainer) fitAndPromote(ctx context.Context, drifted bool, rows []window.Row) {
	if drifted && !t.config.Training.IgnoreDrift && t.data.window.Len() > 0 && !followsChange(t) {
		t.cut(ctx, t.drift.Len(), t.config.Labels != nil && t.data.isBackwards(rows))
	}
	t.promoteBest(ctx)
	t.fitDue(ctx)
}

// cut removes the rows before a change from the window and the references; a number of rows has arrived since then.
// Candidates are then fitted on the newest rows; the change itself promotes nothing. If labels arrive backwards, the
// rows from before the change are the newer ones and stay.
func (t *Trainer) cut(ctx context.Context, rows int, backwards bool) {
	stay := max(rows, 1)
	if backwards {
		stay = max(t.data.window.Len()-rows, 1)
	}
	t.alarms++
	at := t.data.window.Back(stay)
	if !backwards {
		settleEpoch(Endless(ctx), t, at)
	}
	t.data.cut(at)
	t.drift.Reset() // what older references scored is no base for the scores by newer ones
	t.data.sift()
	t.schedule.Cut(t.data.window.Len())
	t.candidates, t.rules = nil, policy.Rules{}
	t.fitter.redrawLandmarks() // landmarks of rows that were removed
	t.fitter.landmarks.Alarmed = t.plan.hasLandmarks() && !t.fitter.landmarks.New
	if t.probe != nil {
		t.probe.cut(t.data.window.Len())
	}
	t.log.Info("the distribution of the rows has changed; older rows are left out", "kept", t.data.window.Len())
}

// Tick advances the time if no rows come: a first model need not wait for them.
func (t *Trainer) Tick(ctx context.Context, now time.Time) {
	if t.live == nil && t.data.window != nil && t.resume == nil {
		t.fitBootstrap(ctx, nil)
		t.schedule.Tick(now)
		t.fitDue(ctx)
	}
}

// ShouldRetryStore reports whether a first model, or the PCA until then, was fitted and could not be stored, and the
// trainer may fit. Tick fits it again: where inputs wait for a model, no more rows may come.
func (t *Trainer) ShouldRetryStore() bool {
	return !t.standby && !t.pinned && (t.storeFailed && t.live == nil || hasBootstrapRows(t))
}

// Window is the rows to learn from; nil before the number of features is known. It changes with each event.
func (t *Trainer) Window() *window.Window { return t.data.window }

// Status is the trainer's part of the status of a stage.
type Status struct {
	spec.Status
	Trainable     bool // the window has enough rows for a fit
	LearnsNothing bool // the memory bound leaves no room for learning
}

// Status describes the progress of learning.
func (t *Trainer) Status() Status {
	s := Status{LearnsNothing: t.plan.learnsNothing()}
	s.Needed, s.Hint, s.Alarms = t.schedule.FirstRows(), t.plan.limit, t.alarms
	s.OverClassLimit, s.Restoring, s.Pinned = t.data.overClassLimit, t.resume != nil, t.pinned
	s.Accuracy, s.Chance, s.Candidate, s.HeldOut = math.NaN(), math.NaN(), math.NaN(), t.heldOutAccuracy
	s.Drift = t.drift.Largest()
	s.Limits = spec.Limits{WindowRows: t.config.Training.Window.Rows, WindowBytes: t.config.Training.Window.Bytes,
		Classes: t.config.Classes}
	if t.config.Labels != nil {
		s.Limits.LabelBytes = t.config.Labels.Bytes
	}
	if w := t.data.window; w != nil {
		s.Rows, s.Classes, s.Bytes = w.Len(), w.Classes(), w.Bytes()
		s.Largest, s.Trainable = w.Largest(), w.Trainable()
		s.Limits.WindowRows = w.MaxRows()
		s.OverQuota = w.CappedRows()
		s.RareClassRows = w.SparseRows()
		t.data.countOutliers(&s.Status)
		s.ReadFrom = t.data.readFrom().Seq
	}
	if n := rowsUntilFit(t); n < math.MaxInt {
		s.RowsUntilFit = &n
	}
	if t.newest != 0 {
		s.Newest = time.Unix(0, t.newest)
	}
	s.LabelsSuspect = t.suspicion.IsRaised()
	t.description.addTo(&s.Status)
	if effect := &t.drift.Blocks; t.live != nil && effect.IsKnown() {
		s.EffectiveRows = float64(s.Rows) / effect.Effect()
	}
	if t.live != nil {
		agreement := &t.live.Agreement
		s.Accuracy, s.Chance = agreement.Rate(), agreement.Chance()
		s.Scored = int(agreement.Last.Rows + agreement.Before.Rows)
	}
	for _, c := range t.candidates {
		if v := c.comparison.Evidence(); v >= s.Evidence {
			s.Evidence, s.Candidate, s.CandidateRows = v, c.Agreement.Rate(), c.rows
			s.Door, s.EvidenceRequired = c.comparison.Door, c.comparison.Required(t.config.Training.Gate)
		}
	}
	return s
}

// rowsUntilFit is how many more labelled rows make the next fit due by their number, math.MaxInt if no number does.
func rowsUntilFit(t *Trainer) int {
	switch {
	case t.pinned, t.standby, t.plan.learnsNothing(), t.live == nil && t.config.Training.Gate.NeverFirst:
		return math.MaxInt
	case t.data.window == nil:
		return t.schedule.FirstRows()
	case t.live == nil:
		return max(t.schedule.FirstRows()-t.data.window.FirstModelRows(), 0)
	}
	return t.schedule.RowsUntilDue(t.data.window.Len(), t.rules.Followed)
}

// updateDescription describes the window for the status again if enough rows have arrived, with as many as given.
func updateDescription(t *Trainer, rows int) {
	if t.description.arrived += rows; !t.description.isDue(t.data.window) {
		return
	}
	s := profile.Stream{Seen: seenClasses(&t.labels)}
	if live := t.host.Live(); live != nil && t.plan.labelled() && !live.IsProvisional() {
		s.Outputs = live.Model.Dim()
	}
	t.description.update(t.data.window, s, t.host.Pause, t.log)
}
