package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/plugin/spec"
)

// TestBetterInSmallWindow: in a window that is full, or as old as it may be, the few held-out rows do not become more,
// and a better model replaces one that beats chance.
func TestBetterInSmallWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	rows := make([]row, 3000)
	for i := range rows {
		c, x := i%10, make([]float32, testFeatures)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		x[0] += 6 * float32(c%2)
		switch {
		case i >= 2000: // the live model still beats chance
			x[1], x[2] = x[1]+float32(c), x[2]+3*float32(c)
		case i >= 1000:
			x[1] += 3 * float32(c)
		}
		rows[i] = row{x, fmt.Sprint(c)}
	}
	for name, w := range map[string]spec.Window{
		"rows":       {Rows: 200},
		"unbalanced": {Rows: 200, Balance: spec.BalanceNone},
		"age":        {Rows: 5000, Age: 10 * time.Second}, // of messages of 20 rows, one a second
	} {
		t.Run(name, func(t *testing.T) {
			var doors []string
			s := newStage(t, func(c *spec.Config) {
				c.Fit.Dim, c.Training.Window, c.Training.IgnoreDrift = 1, w, true
				c.Store = func(_ context.Context, r *spec.Release) (string, error) {
					doors = append(doors, r.Door)
					return r.Model.Digest()[:16], nil
				}
			})
			learnRows(t, s, 1, rows)
			if st := s.Status(); !slices.Contains(doors, policy.DoorBetter) {
				t.Errorf("doors %v; evidence %g of %g at %q: %s", doors, st.Evidence, st.EvidenceRequired, st.Door, st.Note)
			}
		})
	}
}
