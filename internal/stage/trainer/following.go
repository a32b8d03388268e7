package trainer

import (
	"context"
	"fmt"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

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

// followsChange reports whether a change of the live model's accuracy is one more step of the drift that the stage
// follows. A cut would end the following, and the evidence that begins it takes thousands of rows. After an abrupt
// change the live model no longer beats chance. Whether landmarks still serve is found from the rows that a cut leaves.
func followsChange(t *Trainer) bool {
	return t.rules.Followed != 0 && !t.plan.hasLandmarks() && t.live.Sensitivity.BeatsChance()
}

// follow makes the newest fit of the suffix that the stage follows live.
func follow(ctx context.Context, t *Trainer) {
	c := t.candidateOf(t.rules.Followed)
	if c == nil || c.size == 0 || t.pinned || t.standby || t.live == nil || ctx.Err() != nil ||
		!t.schedule.IsFresh(c.size) || !t.rules.FollowingDue(t.schedule.Learned) {
		return
	}
	if !c.Agreement.AboveChance() || !c.Sensitivity.BeatsChance() {
		return
	}
	begin := t.config.Clock()
	o := spec.Outcome{Candidate: c.Agreement.Rate(), Previous: t.live.Agreement.Rate(), Door: policy.DoorFollowing,
		Reason: fmt.Sprintf("refitting the newest %d rows is better than the whole window", c.size)}
	s := &window.Suffix{First: c.first, Last: c.last, Rows: c.rows}
	if err := t.promote(ctx, c.Model.Model, s, c, o, begin); err != nil {
		t.reportFailure(ctx, err, c.rows)
	}
}

// carryOver continues the evidence for the rules after a swap, and the agreement with the labels of their models.
func carryOver(t *Trainer, before []*candidate, c *candidate) {
	t.rules = t.rules.Swap(c.size, t.schedule.Learned)
	t.live.Agreement = c.Agreement
	for _, old := range before {
		now := t.candidateOf(old.size)
		if now == nil || old == c {
			continue
		}
		now.Agreement, now.Sensitivity = old.Agreement, old.Sensitivity
	}
}
