package trainer

import (
	"context"
	"maps"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/window"
)

// maxHeldOutRows bounds the cost of judging a candidate by held-out rows.
const maxHeldOutRows = 2000

// judgeHeldOut tests a candidate of the whole window on held-out rows, which neither it nor the live model has seen.
// It is for streams whose labels come in runs: the newest rows are then of few classes, and here all classes count
// alike. Rows older than those of the live model are left out, as they may be of an earlier concept. The rows test a
// candidate once, and its evidence is divided by the number of candidates that they have tested (Bonferroni). If the
// rows lack a class, the candidate may be worse for that class. Then they are no evidence that it is better than a live
// model that beats chance.
func judgeHeldOut(ctx context.Context, t *Trainer, c *candidate) {
	c.comparison.HeldOut = policy.HeldOut{} // that of the fit before, of the same suffix
	if c.size != 0 || !t.plan.labelled() || !t.labels.HasRuns() {
		return
	}
	rows := heldOutRows(t.data, t.liveRows.first)
	if len(rows) == 0 {
		return
	}
	x := make([]float64, 0, len(rows)*t.data.window.Features())
	count := map[string]float64{}
	for i := range rows {
		x = append(x, rows[i].X...)
		count[rows[i].Label]++
	}
	ctx = Endless(ctx)
	v := t.live.Score(ctx, t.data.references, rows, x, true)
	u := c.Score(ctx, t.data.references, rows, x, true)
	differences := differencesOf(t, c, u, v)
	n, effect := float64(len(rows)), heldOutEffect(t, rows, differences)
	test := policy.NewComparison(t.config.Training.Gate, c.comparison.Door).Test
	sample := policy.Sensitivity{Test: evidence.SequentialTest{IsSample: true}}
	test.IsSample = true
	nearest := test // of the same hypothesis
	candidate, live := sample, sample
	right := 0.0
	for i, r := range rows {
		row := evidence.Row{Weight: balancedWeight(count[r.Label]/n, len(count)), Effect: effect, NewRun: true}
		test.AddRow(differences[i], row)
		nearest.AddRow(u.Right[i]-v.Right[i], row)
		candidate.Add(u.Right[i], count[u.Class[i]]/n, row)
		live.Add(v.Right[i], count[v.Class[i]]/n, row)
		right += v.Right[i]
	}
	t.judged++
	t.heldOutAccuracy = right / n
	c.comparison.HeldOut = policy.HeldOut{Evidence: test.Value() / float64(t.judged), Rows: len(rows),
		Nearest:        nearest.Value(),
		CandidateBeats: candidate.BeatsChance(), LiveBeats: live.BeatsChance()}
	if c.comparison.Door == policy.DoorBetter && c.comparison.HeldOut.LiveBeats &&
		lacksClass(t.data.window, slices.Collect(maps.Keys(count))) {
		c.comparison.HeldOut.Evidence = 0
	}
}

// lacksClass reports whether rows of these labels lack classes of the window that enter fits, and those together have
// at least 1/MaxWeight of the fair share of one class.
func lacksClass(w *window.Window, labels []string) bool {
	lacking := w.Len() - window.RowsOf(w, labels) - w.SparseRows()
	return evidence.MaxWeight*w.EstablishedClasses()*lacking >= w.Len()
}

// balancedWeight is the weight of a row of a class with a share of the rows, so that all classes count alike.
func balancedWeight(share float64, classes int) float64 {
	return min(evidence.MaxWeight, 1/(share*float64(classes)))
}

// heldOutEffect is the design effect of the differences of two models on rows that are held out: that of the stretches
// in which they were drawn, or that of the stream by short blocks if that is known and larger.
func heldOutEffect(t *Trainer, rows []window.Row, differences []float64) float64 {
	var clusters evidence.Clusters
	stretch, last := 0, window.Position{}
	for i := range rows {
		if from, _ := rows[i].Neighbourhood(); i == 0 || from != last {
			stretch, last = stretch+1, from
		}
		clusters.Add(stretch, rows[i].Label, differences[i])
	}
	effect := clusters.Effect()
	if t.drift.Blocks.IsKnown() {
		effect = max(effect, t.drift.Blocks.ShortEffect())
	}
	return effect
}

// heldOutRows returns rows from a position on that are held out and have a reference, oldest first. If there are more
// than maxHeldOutRows, it returns the newest of each class, the same number of all.
func heldOutRows(d *dataset, from window.Position) (rows []window.Row) {
	start, _ := d.window.Bounds()
	start = slices.MaxFunc([]window.Position{start, from}, window.Position.Compare)
	d.window.All(func(r *window.Row) bool {
		if r.IsUnseen() && r.Compare(start) >= 0 && d.references.CanJudge(r) {
			rows = append(rows, *r)
		}
		return true
	})
	if len(rows) <= maxHeldOutRows {
		return rows
	}
	count := map[string]int{}
	for i := range rows {
		count[rows[i].Label]++
	}
	quota := window.FairQuota(slices.Collect(maps.Values(count)), maxHeldOutRows)
	return slices.DeleteFunc(rows, func(r window.Row) bool {
		count[r.Label]--
		return count[r.Label] >= quota
	})
}
