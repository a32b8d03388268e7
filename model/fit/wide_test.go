package fit

import (
	"context"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
)

// TestNoRidgeWithRedundantFeatures: without a ridge, features that repeat others do not prevent a fit of somewhat fewer
// rows than features, since it is made in the space that the rows span.
func TestNoRidgeWithRedundantFeatures(t *testing.T) {
	const few, all = 20, 60
	d := fixture.Synthetic(3, 54, few, 3)
	wide := &model.Data{N: d.N, M: all, Y: d.Y, Classes: d.Classes, X: make([]float64, d.N*all)}
	for i := range wide.X {
		wide.X[i] = d.X[i/all*few+i%all%few] * float64(1+i%all/few)
	}
	for _, m := range Methods() {
		hasRidge := slices.ContainsFunc(m.Params, func(p Param) bool { return p.Name == "ridge" })
		if !hasRidge || m.Streaming != "moments" {
			continue
		}
		c := Config{Method: m.Name, Dim: 2, Params: map[string]string{"ridge": "0"}}
		if _, err := Fit(context.Background(), wide, c); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}
