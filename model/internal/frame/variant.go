package frame

import (
	"maps"
	"math"
	"strconv"

	"github.com/embedd/embedd/model"
)

// variant is what cross-validation chooses together with the ridge.
type variant struct {
	share  float64 // of the variance that PCA in front of the method keeps
	kernel string  // "": as the parameters say
}

// variants are those to choose from. The first is taken if no rows can be held out.
func variants(t *Task) []variant {
	if t.Params["kernel"] == "auto" {
		var all []variant
		for _, name := range t.Method.Ridge.Kernels(t) {
			all = append(all, variant{1, name})
		}
		return all
	}
	word, has := t.Params["pca"]
	if share, err := strconv.ParseFloat(word, 64); err == nil {
		return []variant{{share: share}}
	}
	if has && t.Columns > manyColumns {
		return []variant{{share: 1}, {share: mostVariance}}
	}
	return []variant{{share: 1}}
}

// set puts a variant into a task.
func (v variant) set(t *Task) {
	t.VarianceShare = v.share
	if v.kernel != "" {
		t.Params = maps.Clone(t.Params)
		t.Params["kernel"] = v.kernel
	}
}

// simplest is the index of first, the best score of the first variant, unless it is more than one standard error behind
// the best of all. Of few held-out rows a more flexible kernel is often ahead by luck (the one-standard-error rule of
// Breiman, Friedman, Olshen and Stone, Classification and Regression Trees, 1984).
func simplest(scores []model.RidgeScore, best, first int) int {
	correct, scored := float64(scores[best].Correct), float64(scores[best].Scored)
	if deviation := math.Sqrt(correct * (1 - correct/scored)); correct-float64(scores[first].Correct) > deviation {
		return best
	}
	return first
}
