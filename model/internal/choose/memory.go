package choose

import (
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// Memory is the memory in bytes that auto holds in addition to its rows: that of the most expensive candidate, and the
// preprocessed rows of a blend of all. Cross-validation holds the preprocessed rows of every kind at once, but of few
// rows.
func Memory(c Config, e frame.Extent) int64 {
	most := int64(0)
	for _, m := range method.Candidates() {
		of := e
		of.Params, _ = m.Resolve(nil) // its defaults
		if m.Auto.Tried != nil && !m.Auto.Tried(e.Dim, 2, false) {
			of.Rows = min(e.Rows, MaxFewRows)
		}
		most = max(most, m.MemoryBytes(of))
	}
	specs := make([]preprocess.Spec, 1)
	if c.Scale == model.ScaleAuto {
		specs = make([]preprocess.Spec, 3) // as many as there are scales
	}
	if c.Nonlinear {
		specs = append(specs, preprocess.Spec{Scale: model.ScaleRank}, preprocess.Spec{Landmarks: Landmarks})
	}
	few, one, all, compared := e, int64(0), int64(0), int64(0)
	few.Rows = min(e.Rows, frame.MaxValidated)
	for _, s := range specs {
		one, all, compared = max(one, s.Memory(e)), all+s.Memory(e), compared+s.Memory(few)
	}
	if c.Blend == 1 {
		return most + max(one, compared)
	}
	kept := int64(folds * len(method.Candidates()) * len(specs) * keptBytes(e.Features))
	return most + all + min(kept, maxKept)
}
