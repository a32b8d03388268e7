package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

// Rules compares the rules "refit the newest n rows", for the sizes n of the suffixes. A rule is scored on each row by
// its newest model, before any model learns the row. So the scores are about the rule, however often it was fitted and
// whichever of its models is live, and a swap changes the opponent of the others and loses nothing.
//
// Under a drift that does not stop, the rule of a short suffix is better than that of the whole window. The stage then
// follows it: each fit of the suffix goes live, by DoorFollowing, until the evidence for the rule is used up. It is
// capped, so that this takes not much longer than the first proof did.
type Rules struct {
	Averages []RuleAverage `json:"scores,omitempty"`
	Pairs    []RulePair    `json:"pairs,omitempty"`
	// Live is the suffix of the rule that the live model came from, if HasLive; SwappedAt is how many rows had been
	// learned when it went live.
	Live      int  `json:"live"`
	HasLive   bool `json:"has_live,omitempty"`
	SwappedAt int  `json:"swapped_at,omitempty"`
	// Followed is the suffix that the stage follows; 0: none.
	Followed int `json:"followed,omitempty"`
}

// RuleAverage is the exponentially weighted mean of the difference in accuracy between a rule and the whole window's.
type RuleAverage struct {
	Size   int     `json:"size"`
	Weight float64 `json:"weight"`
	Sum    float64 `json:"sum"`
}

// RulePair is the evidence that the rule of one suffix is better than another, or than the live model.
type RulePair struct {
	Size  int                     `json:"size"`
	Other int                     `json:"other"` // liveModel: the live model
	Test  evidence.SequentialTest `json:"test"`
}

// RuleOutcomes are the scores of a rule's newest model on some rows.
type RuleOutcomes struct {
	Size  int
	Right []float64
}

const (
	liveModel = -1
	// scoreMemory is the number of rows after which a score has 1/e of its weight.
	scoreMemory = 3000
	// maxEvidence caps the evidence for a rule, in multiples of what following needs.
	maxEvidence = 10
	// minLead is the lead in accuracy of a shorter suffix that closes DoorMoreRows.
	minLead = 0.0025
	// switchGain is the gain in accuracy for which the stage follows a longer suffix. It follows a shorter one for any
	// gain: scores by references of the past favour the longer one.
	switchGain = 0.003
	// minFollowRows is the least number of rows between two models by DoorFollowing.
	minFollowRows = 250
)

// Add counts the scores of all rules on rows, and those of the live model. Rules without a score end.
func (r *Rules) Add(g spec.Gate, rules []RuleOutcomes, live []float64, rows []evidence.Row) {
	has := func(size int) bool {
		return slices.ContainsFunc(rules, func(s RuleOutcomes) bool { return s.Size == size })
	}
	r.Averages = slices.DeleteFunc(r.Averages, func(s RuleAverage) bool { return !has(s.Size) })
	r.Pairs = slices.DeleteFunc(r.Pairs, func(p RulePair) bool {
		return !has(p.Size) || p.Other != liveModel && !has(p.Other)
	})
	whole := slices.IndexFunc(rules, func(s RuleOutcomes) bool { return s.Size == 0 })
	limit := math.Log(maxEvidence * DoorNamed(DoorFollowing).threshold(g))
	for _, a := range rules {
		if whole >= 0 {
			r.average(a.Size).add(a.Right, rules[whole].Right, rows)
		}
		r.pair(g, a.Size, liveModel).add(a.Right, live, rows, limit)
		for _, b := range rules {
			if a.Size != b.Size {
				r.pair(g, a.Size, b.Size).add(a.Right, b.Right, rows, limit)
			}
		}
	}
	if r.Followed != 0 && !(r.evidence(r.Followed, 0) >= 1) {
		r.Followed = 0
	}
}

func (s *RuleAverage) add(right, other []float64, rows []evidence.Row) {
	for i := range right {
		if d := right[i] - other[i]; !math.IsNaN(d) {
			weight := cmp.Or(rows[i].Weight, 1)
			s.Weight = s.Weight*(1-1./scoreMemory) + weight
			s.Sum = s.Sum*(1-1./scoreMemory) + weight*d
		}
	}
}

func (p *RulePair) add(right, other []float64, rows []evidence.Row, limit float64) {
	for i := range right {
		if d := right[i] - other[i]; !math.IsNaN(d) {
			p.Test.AddRow(d, rows[i])
		}
	}
	for i := range p.Test.Logs {
		p.Test.Logs[i] = min(p.Test.Logs[i], limit)
	}
}

func (r *Rules) average(size int) *RuleAverage {
	i := slices.IndexFunc(r.Averages, func(s RuleAverage) bool { return s.Size == size })
	if i < 0 {
		i = len(r.Averages)
		r.Averages = append(r.Averages, RuleAverage{Size: size})
	}
	return &r.Averages[i]
}

func (r *Rules) pair(g spec.Gate, size, other int) *RulePair {
	i := slices.IndexFunc(r.Pairs, func(p RulePair) bool { return p.Size == size && p.Other == other })
	if i < 0 {
		i = len(r.Pairs)
		r.Pairs = append(r.Pairs, RulePair{size, other, NewComparison(g, DoorFollowing).Test})
	}
	return &r.Pairs[i]
}

// evidence is the evidence that a rule is better than another one or, with liveModel, than the live model.
func (r *Rules) evidence(size, other int) float64 {
	for i := range r.Pairs {
		if p := &r.Pairs[i]; p.Size == size && p.Other == other {
			return p.Test.Value()
		}
	}
	return 0
}

// Swap records that a model of a suffix goes live. It is the newest of its rule, so the evidence of the other rules
// against that one continues against it.
func (r *Rules) Swap(size, learned int) Rules {
	next := Rules{Averages: slices.Clone(r.Averages), Live: size, HasLive: true, SwappedAt: learned, Followed: r.Followed}
	for _, p := range r.Pairs {
		if p.Other == liveModel {
			continue
		}
		next.Pairs = append(next.Pairs, p)
		if p.Other == size {
			next.Pairs = append(next.Pairs, RulePair{p.Size, liveModel, p.Test})
		}
	}
	return next
}

// Restored returns the rules of a checkpoint. Evidence that was gathered with another margin is about another
// hypothesis: it starts over, and no suffix is followed.
func (r Rules) Restored(g spec.Gate) Rules {
	margin := NewComparison(g, DoorFollowing).Test.Margin
	if slices.ContainsFunc(r.Pairs, func(p RulePair) bool { return p.Test.Margin != margin }) {
		r.Pairs, r.Followed = nil, 0
	}
	return r
}

// Choose decides which suffix of a window of this many rows to follow. It begins with the one with the best score, when
// the evidence that its rule is better than that of the whole window and than the live model suffices. The window has
// at least twice its rows: else the two differ by when they were last fitted, not by what they are fitted on.
func (r *Rules) Choose(g spec.Gate, rows int) {
	need := DoorNamed(DoorFollowing).threshold(g)
	if math.IsInf(need, 1) {
		r.Followed = 0
		return
	}
	best, most := 0, 0.0
	for _, s := range r.Averages {
		if mean := s.mean(); s.Size > 0 && 2*s.Size <= rows && mean > most && r.evidence(s.Size, 0) >= math.Sqrt(need) {
			best, most = s.Size, mean
		}
	}
	gain := switchGain
	if best < r.Followed {
		gain = 0
	}
	switch {
	case best == 0:
	case r.Followed == 0 && r.evidence(best, liveModel) >= need,
		r.Followed != 0 && most > r.average(r.Followed).mean()+gain:
		r.Followed = best
	}
}

func (s *RuleAverage) mean() float64 {
	if s.Weight < minSuffix {
		return 0
	}
	return s.Sum / s.Weight
}

// IsBehind reports whether more rows do not help: the stage follows a drift, or the rule of a shorter suffix is more
// accurate than that of the one given.
func (r *Rules) IsBehind(size int) bool {
	if r.Followed != 0 {
		return true
	}
	own := 0.0
	for _, s := range r.Averages {
		if s.Size == size {
			own = s.mean()
		}
	}
	return slices.ContainsFunc(r.Averages, func(s RuleAverage) bool {
		return s.Size > 0 && (size == 0 || s.Size < size) && s.mean() > own+minLead
	})
}

// IsShownBehind reports whether the stage follows a drift, or low odds show that the rule of a shorter suffix is better
// than that of the one given.
func (r *Rules) IsShownBehind(size int) bool {
	return r.Followed != 0 || slices.ContainsFunc(r.Averages, func(s RuleAverage) bool {
		return s.Size > 0 && (size == 0 || s.Size < size) && r.evidence(s.Size, size) >= lowOdds
	})
}

// FollowingDue reports whether the fit of the followed suffix may go live, after this many rows were learned.
func (r *Rules) FollowingDue(learned int) bool {
	return r.Followed != 0 && learned-r.SwappedAt >= followRows(r.Followed)
}

// followRows is the number of rows after which the live model of a suffix that the stage follows is replaced by a newer
// one: a model of 2,000 rows of a drift loses a point in 250 rows.
func followRows(size int) int { return max(minFollowRows, size/8) }
