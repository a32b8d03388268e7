package fit

import (
	"math"
	"testing"

	"github.com/embedd/embedd/model/internal/fixture"
)

// TestSigns: the entry of largest magnitude of each column of a linear map, or of an embedding of eigenvectors, is
// positive, so that an eigenvector and its negative give one model.
func TestSigns(t *testing.T) {
	d := fixture.Synthetic(8, 40, 5, 3)
	for _, m := range Methods() {
		if m.Name == "mp-tsimr" {
			continue // its eigenvectors are of patches, which place the rows
		}
		f := fit(t, d, Config{Method: m.Name, Dim: 2, Seed: 1, Workers: 1})
		columns := f.Components()
		if e, ok := f.Content().Map.(interface{ Values() []float64 }); ok {
			columns = e.Values()
		}
		for c := range 2 {
			largest := 0.0
			for i := c; i < len(columns); i += 2 {
				if v := columns[i]; math.Abs(v) > math.Abs(largest)*(1+1e-9) {
					largest = v
				}
			}
			if largest < 0 {
				t.Errorf("%s: the largest entry of column %d is %g", m.Name, c, largest)
			}
		}
	}
}
