package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// candidate is a model that may replace the live one.
type candidate struct {
	*prequential.Model
	size       int // of its suffix, 0: the whole window
	rows       int // that it was fitted on
	first      window.Position
	last       window.Position
	comparison policy.Comparison // with the live model
}

// fitDue fits what is due, and follows a drift with it.
func (t *Trainer) fitDue(ctx context.Context) {
	defer follow(ctx, t)
	w := t.data.window
	if w == nil || t.pinned || t.standby || t.plan.learnsNothing() || !w.Trainable() {
		return
	}
	// One that was requested before it was due, and could not be stored, is not due again.
	if t.live == nil && !t.config.Training.Gate.NeverFirst &&
		(t.storeFailed || t.schedule.FirstDue(w.FirstModelRows(), t.labels.HasRuns())) {
		t.fitFirst(ctx)
	}
	if t.live == nil {
		return
	}
	t.renewLandmarks(ctx)
	if t.plan.choosesMethod() && t.schedule.ChoiceDue(w.Len()) {
		t.chooseMethod(ctx)
	}
	if t.isProbing() {
		t.probe.fitDue(ctx, false)
	}
	due, sizes := t.schedule.Due(w.Len(), t.rules.Followed), t.schedule.Sizes(w.Len())
	save := t.schedule.CheckpointDue()
	if !t.schedule.Nested && slices.Contains(due, 0) { // a suffix costs less than the whole window
		save = true
		t.candidates = slices.DeleteFunc(t.candidates, func(c *candidate) bool { return !slices.Contains(sizes, c.size) })
	}
	if save { // with all candidates fitted a restart can begin here
		due = sizes
		t.fitter.redrawLandmarks()
	}
	if len(due) == len(sizes) {
		t.reportRejected()
	}
	for _, size := range due {
		t.fitCandidate(ctx, size)
	}
	t.schedule.RecordFits(due, w.Len())
	if save {
		t.saveCheckpoint(ctx)
	}
}

// saveCheckpoint passes a checkpoint to the host.
func (t *Trainer) saveCheckpoint(ctx context.Context) {
	t.schedule.RecordCheckpoint()
	if t.isProbing() {
		t.probe.fitDue(ctx, true)
	}
	settleEpoch(ctx, t, window.Position{})
	if t.config.Checkpoint == nil || ctx.Err() != nil { // fits are missing then, which a restart would not repeat
		return
	}
	if err := t.config.Checkpoint(ctx, t.state()); err != nil && ctx.Err() == nil {
		t.log.Warn("a checkpoint could not be saved; a restart reads more rows", "error", err)
	}
}

// fitAll fits every suffix except that of a model that goes live; nil: there is none.
func (t *Trainer) fitAll(ctx context.Context, except *candidate) {
	sizes := t.schedule.Sizes(t.data.window.Len())
	if except != nil {
		sizes = slices.DeleteFunc(sizes, func(size int) bool { return size == except.size })
	}
	for _, size := range sizes {
		t.fitCandidate(ctx, size)
	}
	t.schedule.RecordFits(sizes, t.data.window.Len())
}

// fitFirst fits and promotes the first model, which needs no evidence.
func (t *Trainer) fitFirst(ctx context.Context) {
	begin := t.config.Clock()
	t.fitter.landmarks = landmarks{} // those of a first fit that failed
	s, m, err := t.fitter.fit(ctx, 0)
	t.schedule.RecordFits([]int{0}, t.data.window.Len())
	if err == nil {
		t.keepMethod(m.Dim(), m.Report().Choice, len(s.Classes))
		t.schedule.RecordChoice(t.data.window.Len())
		o := spec.Outcome{Candidate: math.NaN(), Previous: math.NaN(), Door: policy.DoorFirst,
			Reason: fmt.Sprintf("the first model, of %d rows", s.Rows)}
		err = t.promote(ctx, m, s, nil, o, begin)
		t.storeFailed = err != nil
	}
	t.reportFailure(ctx, err, t.data.window.Len())
}

// keepMethod keeps the number of outputs and the method of a model.
func (t *Trainer) keepMethod(width int, choice *model.Choice, classes int) {
	t.plan.keepMethod(width, choice, classes)
	t.schedule.Nested = t.plan.byMoments()
}

// chooseMethod lets auto choose again, from more or other rows. The method stays unless another one is better by more
// than the noise; candidates of the new method have to pass the gate as any.
func (t *Trainer) chooseMethod(ctx context.Context) {
	rows := t.data.window.Len()
	t.schedule.RecordChoice(rows)
	if err := t.fitter.prepare(ctx); err != nil {
		t.reportFailure(ctx, err, rows)
		return
	}
	s := t.data.window.NewestRows(rows)
	c, like := t.config.Fit, t.plan.settingsFor(s, t.data.window.Features())
	c.Dim, c.MaxDim, c.Outputs, c.Pad = like.Dim, like.MaxDim, like.Outputs, like.Pad
	m, err := t.fitter.fitRows(ctx, s, c)
	t.host.CountFit()
	if err != nil {
		t.reportFailure(ctx, fmt.Errorf("choosing the method from %d rows: %w", s.Rows, err), rows)
		return
	}
	choice, method := m.Report().Choice, t.plan.method.Name
	if choice == nil || choice.Rule != "cv" || choice.Method == method || isClose(choice, method) {
		return
	}
	t.log.Info("auto chose another method for candidates", "before", method, "now", choice.Method, "rows", s.Rows)
	t.keepMethod(t.plan.width, choice, len(s.Classes))
	t.candidates, t.schedule.Fitted = nil, nil
}

// isClose reports whether a method scored within one standard error of the one that was chosen, at its dimension.
func isClose(c *model.Choice, method string) bool {
	for _, s := range c.Scores {
		if s.Method == method && s.Dim == c.Dim && s.Scored > 0 {
			return s.Behind <= s.BehindError
		}
	}
	return false
}

// fitCandidate fits a candidate on a suffix. It continues with the evidence of its predecessors on that suffix: each
// row was scored before a model learned it, so the evidence is about the suffix, however often it was fitted.
func (t *Trainer) fitCandidate(ctx context.Context, size int) {
	if ctx.Err() != nil {
		return
	}
	s, m, err := t.fitter.fit(ctx, size)
	if err != nil {
		t.reportFailure(ctx, err, t.data.window.Len())
		return
	}
	if !t.schedule.Nested && size > 0 { // it replaces the previous suffix
		t.candidates = slices.DeleteFunc(t.candidates, func(c *candidate) bool { return c.size > 0 && c.size != size })
	}
	gate, c := t.config.Training.Gate, t.candidateOf(size)
	door := policy.DoorOf(gate, policy.Grown(s.Rows, t.live.Rows(), effectOfRows(t)),
		policy.HasNewClass(s.Rows, s.Classes, s.Counts, t.live.Rows(), t.live.Classes()))
	next := prequential.New(m)
	if c == nil {
		c = &candidate{size: size, comparison: policy.NewComparison(gate, door)}
		if t.rules.HasLive && t.rules.Live == size {
			next.Agreement, next.Sensitivity = t.live.Agreement.Clone(), t.live.Sensitivity // it is the one before
		}
		t.candidates = append(t.candidates, c)
		slices.SortFunc(t.candidates, func(a, b *candidate) int { return compareSizes(b.size, a.size) })
	} else {
		next.Agreement, next.Sensitivity = c.Agreement, c.Sensitivity
		next.ReuseMemory(c.Model)
		c.comparison.Nearest.Forget() // the fits before it won it
		if door != policy.DoorBetter && c.comparison.Door == policy.DoorBetter {
			c.comparison = policy.NewComparison(gate, door)
		}
	}
	next.FittedAt = t.labels.Count
	c.Model = next
	c.rows, c.first, c.last = s.Rows, s.First, s.Last
	judgeHeldOut(ctx, t, c)
}

func (t *Trainer) candidateOf(size int) *candidate {
	for _, c := range t.candidates {
		if c.size == size {
			return c
		}
	}
	return nil
}

// renewLandmarks draws new landmarks if the old ones do not serve.
func (t *Trainer) renewLandmarks(ctx context.Context) {
	why := t.fitter.renewalReason(ctx, t.schedule.FirstRows())
	if why == "" {
		return
	}
	t.log.Info("candidates are fitted on new landmarks", "cause", why)
	t.fitter.replaceLandmarks()
	t.candidates, t.schedule.Fitted = nil, nil
	if t.probe != nil {
		t.probe.cut(t.data.window.Len())
	}
}

// fitBootstrap collects the first rows without a label for the bootstrap model, the PCA that serves until a first model
// exists, and fits it when there are enough.
func (t *Trainer) fitBootstrap(ctx context.Context, rows [][]float64) {
	if t.config.Until != spec.UntilPCA || t.host.Live() != nil || t.plan.learnsNothing() {
		t.unlabelled, t.bootstrap = nil, nil
		return
	}
	isFull := hasBootstrapRows(t)
	for _, x := range rows {
		if isFull || t.standby && hasBootstrapRows(t) {
			break // enough, in case this stage has to fit, or to store again
		}
		hasMissing := slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
		if t.config.Nulls == spec.NullsImpute || !hasMissing {
			t.unlabelled = append(t.unlabelled, x...)
		}
	}
	if t.standby || !hasBootstrapRows(t) {
		return
	}
	begin := t.config.Clock()
	if t.bootstrap == nil {
		if err := fitUnlabelled(ctx, t); err != nil {
			t.unlabelled = nil
			t.reportFailure(ctx, fmt.Errorf("fitting the bootstrap model: %w", err), t.bootstrapRows)
			return
		}
	}
	o := spec.Outcome{Candidate: math.NaN(), Previous: math.NaN(), Rows: t.bootstrapRows, Door: policy.DoorBootstrap,
		Reason: fmt.Sprintf("a PCA of the first %d rows serves until a first model exists", t.bootstrapRows)}
	t.origin = t.bootstrap
	placed := beginEpoch(t.bootstrap, t.config.Epochs+1)
	if err := t.publish(ctx, placed, &window.Suffix{Rows: t.bootstrapRows}, &o, true); err != nil {
		t.reportFailure(ctx, err, t.bootstrapRows)
		return
	}
	t.unlabelled, t.bootstrap = nil, nil
	o.Duration = t.config.Clock().Sub(begin)
	t.host.Report(o)
}

// fitUnlabelled fits the bootstrap model, which stays until it is stored.
func fitUnlabelled(ctx context.Context, t *Trainer) (err error) {
	m := t.schedule.Features
	n := len(t.unlabelled) / m
	w := window.New(window.Config{Features: m, Rows: n}) // for its limits
	for i := range n {
		w.Add(window.Row{Position: window.Position{Seq: uint64(i + 1)}, X: t.unlabelled[i*m : (i+1)*m]})
	}
	s := w.NewestRows(n)
	c := t.config.Fit
	c.Method, c.Criterion, c.Params, c.Landmarks = "pca", nil, nil, 0
	t.bootstrapRows = s.Rows
	t.bootstrap, err = fit.Fit(ctx, &model.Data{X: s.X, N: s.Rows, M: m, Features: t.host.Features()}, c)
	return err
}

// hasBootstrapRows reports whether there are the rows of a bootstrap model. They stay until it is stored.
func hasBootstrapRows(t *Trainer) bool {
	need := t.schedule.FirstRows() * t.schedule.Features
	return need > 0 && len(t.unlabelled) >= need && t.host.Live() == nil
}

// reportedEvery is the number of rows between two reports of failed fits.
const reportedEvery = 1000

// reportFailure reports a failed fit, at most every reportedEvery rows.
func (t *Trainer) reportFailure(ctx context.Context, err error, rows int) {
	if err == nil || ctx.Err() != nil {
		return
	}
	learned := t.schedule.Learned
	if t.failedAt > 0 && learned-t.failedAt < reportedEvery && learned >= t.failedAt {
		return
	}
	t.failedAt = max(learned, 1)
	attrs := []any{"rows", rows, "error", err}
	if p := model.Panic(nil); errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.Stack()))
	}
	what := "a fit failed; the live model stays"
	if t.host.Live() == nil {
		what = "a fit failed; no model is live yet"
	}
	t.log.Error(what, attrs...)
	t.host.Report(spec.Outcome{Live: t.host.Live(), Candidate: math.NaN(), Previous: math.NaN(), Rows: rows,
		Reason: err.Error(), Err: err})
}
