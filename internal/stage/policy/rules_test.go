package policy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

// scored has rules of suffixes of 500 and 1,000 rows and of the whole window score rows with the given accuracies, and
// the live model with that of the last; half of what each is right about depends on the row.
func scored(r *Rules, g spec.Gate, random *rand.Rand, rows int, accuracies ...float64) {
	const chunk = 32
	for ; rows > 0; rows -= chunk {
		rules, shared := make([]RuleOutcomes, len(accuracies)-1), [chunk]float64{}
		for i := range shared {
			shared[i] = random.Float64()
		}
		right := func(accuracy float64) []float64 {
			out := make([]float64, chunk)
			for i := range out {
				v := shared[i]
				if random.IntN(2) == 0 {
					v = random.Float64()
				}
				if v < accuracy {
					out[i] = 1
				}
			}
			return out
		}
		for k, size := range []int{0, 1000, 500}[:len(rules)] {
			rules[k] = RuleOutcomes{size, right(accuracies[k])}
		}
		r.Add(g, rules, right(accuracies[len(rules)]), slices.Repeat([]evidence.Row{{NewRun: true}}, chunk))
		r.Choose(g, 4000)
	}
}

// TestFollowing: the best suffix is followed while the evidence for its rule lasts, a swap or a restart keeps that
// evidence, and a closed door follows none.
func TestFollowing(t *testing.T) {
	g, random := spec.Gate{Evidence: 1000}, rand.New(rand.NewPCG(1, 2))
	var r Rules
	scored(&r, g, random, 3000, 0.80, 0.74, 0.70, 0.80)
	if r.Followed != 0 || r.IsBehind(0) || r.IsBehind(1000) {
		t.Fatalf("%d is followed while the whole window is best", r.Followed)
	}
	scored(&r, g, random, 6000, 0.70, 0.80, 0.76, 0.72)
	if r.Followed != 1000 || !r.IsBehind(0) || r.FollowingDue(100) || !r.FollowingDue(250) {
		t.Fatalf("%d is followed where 1000 is best", r.Followed)
	}
	text, err := json.Marshal(r.Swap(1000, 9000))
	if err != nil {
		t.Fatal(err)
	}
	var next Rules
	if err := json.Unmarshal(text, &next); err != nil {
		t.Fatal(err)
	}
	if next.Followed != 1000 || next.evidence(1000, 0) != r.evidence(1000, 0) ||
		next.evidence(500, liveModel) != r.evidence(500, 1000) || next.evidence(1000, liveModel) != 0 ||
		next.FollowingDue(9240) || !next.FollowingDue(9250) {
		t.Fatalf("after a swap %s", text)
	}
	scored(&next, g, random, 6000, 0.70, 0.74, 0.80, 0.72)
	if next.Followed != 500 {
		t.Errorf("%d is followed where 500 is best", next.Followed)
	}
	scored(&next, g, random, 4000, 0.80, 0.74, 0.74, 0.74)
	if next.Followed != 0 {
		t.Errorf("%d is followed after the drift has ended", next.Followed)
	}
	scored(&next, spec.Gate{Evidence: 1000, Following: math.Inf(1)}, random, 6000, 0.70, 0.80, 0.76, 0.72)
	if next.Followed != 0 {
		t.Errorf("%d is followed by a closed door", next.Followed)
	}
}

// TestNothingToFollow: of equal rules none is followed.
func TestNothingToFollow(t *testing.T) {
	g := spec.Gate{Evidence: 1000}
	for seed := range uint64(5) {
		var r Rules
		scored(&r, g, rand.New(rand.NewPCG(3, seed)), 20_000, 0.8, 0.8, 0.8, 0.8)
		if r.Followed != 0 {
			t.Errorf("seed %d: %d is followed", seed, r.Followed)
		}
	}
}

// TestRulesOfAnotherMargin: after the margin of the gate was raised, evidence for the lower one begins no following.
func TestRulesOfAnotherMargin(t *testing.T) {
	g, random := spec.Gate{Evidence: 1000}, rand.New(rand.NewPCG(1, 2))
	var r Rules
	scored(&r, g, random, 6000, 0.70, 0.80, 0.76, 0.72)
	if same := r.Restored(g); len(r.Pairs) == 0 || !slices.Equal(same.Pairs, r.Pairs) {
		t.Fatalf("%d of %d pairs are left", len(same.Pairs), len(r.Pairs))
	}
	g.Margin = 0.2
	next := r.Restored(g)
	scored(&next, g, random, 640, 0.70, 0.80, 0.76, 0.72)
	if next.Followed != 0 || r.Followed == 0 {
		t.Errorf("%d is followed, %d was", next.Followed, r.Followed)
	}
}
