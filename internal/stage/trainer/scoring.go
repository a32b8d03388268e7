package trainer

import (
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
)

// fairScores returns scores with NaN for rows of a run that the model has learned from.
func fairScores(m *prequential.Model, right []float64, rows []evidence.Row) []float64 {
	out := slices.Clone(right)
	for i, r := range rows {
		if !m.IsFair(r) {
			out[i] = math.NaN()
		}
	}
	return out
}

// differencesOf returns the score of a candidate minus that of the live model, by row. The door better compares the
// nearest reference (1-NN), as consumers look rows up. The other doors compare the share of the nearest references,
// which needs far fewer rows. Models that predict classes directly have no such share.
func differencesOf(t *Trainer, c *candidate, scores, live prequential.Scores) []float64 {
	a, b := scores.Shares, live.Shares
	if c.comparison.Door == policy.DoorBetter || (c.Map() == "views") != (t.live.Map() == "views") {
		a, b = scores.Right, live.Right
	}
	all := make([]float64, len(a))
	for i := range all {
		all[i] = a[i] - b[i]
	}
	return all
}

// compareScores adds the differences between a candidate and the live model on rows to their comparison.
func compareScores(t *Trainer, c *candidate, own, live prequential.Scores, rows []evidence.Row) {
	differences := differencesOf(t, c, own, live)
	for i, r := range rows {
		if !t.live.IsFair(r) || !c.IsFair(r) {
			continue
		}
		nearest := r
		nearest.Effect += referenceEffect(t, c.comparison.Test.Count)
		if c.comparison.Door == policy.DoorBetter {
			c.comparison.Test.AddRow(differences[i], nearest)
			continue
		}
		c.comparison.Nearest.AddRow(own.Right[i]-live.Right[i], nearest)
		c.comparison.Test.AddRow(differences[i], r)
	}
}

// suspect notes whether any model beats chance, and reports when that changes.
func suspect(t *Trainer, rows []evidence.Row) {
	if !t.plan.labelled() {
		return
	}
	beats := t.live.Sensitivity.BeatsChance()
	for _, c := range t.candidates {
		beats = beats || c.Sensitivity.BeatsChance()
	}
	switch changed := t.suspicion.Add(rows, beats, t.live.Agreement.AboveChance()); {
	case changed && beats:
		t.log.Info("labels carry information again")
	case changed:
		t.log.Warn("labels contradict every model; none goes live until a model beats chance", "accuracy",
			t.live.Agreement.Rate(), "chance", t.live.Agreement.Chance(), "fix", "check the source of the labels")
	}
}

// describeRows describes rows for the tests of their outcomes. Without labels each is a run.
func describeRows(t *Trainer, rows []window.Row) []evidence.Row {
	described := make([]evidence.Row, len(rows))
	effect := t.drift.Blocks.Effect()
	for i := range rows {
		described[i] = evidence.Row{NewRun: true, RunStart: math.MaxInt}
		if t.plan.labelled() {
			described[i] = t.labels.Add(rows[i].Label)
		}
		described[i].Effect = effect
	}
	return described
}

// effectOfRows is the design effect by which the rows of models count. Labels in runs are a sign of dependence, and
// then a first estimate that finds none is not relied on.
func effectOfRows(t *Trainer) float64 {
	if t.labels.HasRuns() {
		return t.drift.Blocks.SafeEffect()
	}
	return t.drift.Blocks.Effect()
}

// perReference is what each row that a reference judges adds to the design effect of all of them. The variance of the
// difference between two models over sets of n references is a tenth of the variance of a row's difference, divided by
// n (simulated), and more while references are added.
const perReference = 0.15

// referenceEffect is what the references add to the design effect of rows that are judged by the nearest one: of two
// equal models one may be better with the references that there are, on all rows that these judge. Of many rows each
// reference judges as many as come until the next one replaces it.
func referenceEffect(t *Trainer, rows int) float64 {
	if !t.plan.labelled() { // without labels there are no references
		return 0
	}
	return perReference * min(float64(rows)/float64(t.data.references.Len()), 1/t.config.Training.Holdout)
}

// Classes that the live model does not know make it early only if they have one in minUnknown rows of the window. A few
// wrong labels do not.
const minUnknown = 4

// earlyOdds is Schedule.EarlyOdds of the live model.
func earlyOdds(t *Trainer) float64 {
	w, classes := t.data.window, t.live.Classes()
	established := w.EstablishedClasses()
	if minUnknown*(w.Len()-window.RowsOf(w, classes)) < w.Len() {
		established = 0
	}
	return t.schedule.EarlyOdds(t.live.Rows(), effectOfRows(t), len(classes), established, t.alarms > 0)
}

// continuesSeries reports whether the values that a model has for the drift detector continue those of the live model:
// those of an early model come from few references, those of another method have another mean, and with more classes
// fewer rows of each are right.
func continuesSeries(t *Trainer, m *prequential.Model) bool {
	return earlyOdds(t) == 0 && m.Method() == t.live.Method() && slices.Equal(m.Classes(), t.live.Classes())
}

// scoreRules counts the scores of the candidates, and of the live model, for the rules that they were fitted by. The
// live model is the newest of its rule until that suffix is fitted again.
func scoreRules(t *Trainer, scores [][]float64, live []float64, sampled []evidence.Row) {
	rules := make([]policy.RuleOutcomes, 0, len(scores)+1)
	for k, c := range t.candidates {
		rules = append(rules, policy.RuleOutcomes{Size: c.size, Right: scores[k]})
	}
	if t.rules.HasLive && t.candidateOf(t.rules.Live) == nil {
		rules = append(rules, policy.RuleOutcomes{Size: t.rules.Live, Right: live})
		slices.SortFunc(rules, func(a, b policy.RuleOutcomes) int { return compareSizes(b.Size, a.Size) })
	}
	gate, was := t.config.Training.Gate, t.rules.Followed
	t.rules.Add(gate, rules, live, sampled)
	t.rules.Choose(gate, t.data.window.Len())
	if now := t.rules.Followed; now != was {
		t.log.Info("the stage follows a drift by refitting the newest rows", "rows", now, "before", was)
	}
}
