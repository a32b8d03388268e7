package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
)

// squeezed are rows of normal features in two classes; the last feature has this share of the variance of one. Class
// means differ in the first by apart.
func squeezed(n, m int, share, apart float64) *model.Data {
	r := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{N: n, M: m, Classes: []string{"a", "b"}}
	for i := range n {
		for j := range m {
			v := r.NormFloat64()
			if j == 0 {
				v += apart * float64(i%2)
			}
			if j == m-1 {
				v *= math.Sqrt(share)
			}
			d.X = append(d.X, v)
		}
		d.Y = append(d.Y, i%2)
	}
	return d
}

// TestShares: what counts as rounding error is a share of the largest, on both sides of each threshold.
func TestShares(t *testing.T) {
	kernel := map[string]string{"kernel": "linear", "ridge": "0"}
	for name, c := range map[string]struct {
		config Config
		m      int
		least  float64 // the larger share is three times as large
		says   string
	}{
		"tangent spaces": {Config{Method: "lltsa"}, 3, 1e-10, "explain all of the variance"},
		"kernel":         {Config{Method: "ksmpa", Params: kernel}, 2, 7e-11, "rank 1 of the criterion"},
	} {
		c.config.Dim, c.config.Scale = 2, model.ScaleNone
		_, below := Fit(t.Context(), squeezed(80, c.m, c.least, 1), c.config)
		_, above := Fit(t.Context(), squeezed(80, c.m, 3*c.least, 1), c.config)
		if below == nil || !strings.Contains(below.Error(), c.says) || above != nil {
			t.Errorf("%s: a share of %g: %v; of %g: %v", name, c.least, below, 3*c.least, above)
		}
	}
	for share, noted := range map[float64]bool{4e-13: true, 3e-12: false} { // of the variance, within classes
		d := squeezed(80, 2, 1, 0)
		for i := range d.N {
			d.X[2*i] = float64(i%2) + d.X[2*i]*math.Sqrt(share)/2
		}
		m := fit(t, d, Config{Method: "lda", Dim: 1, Params: map[string]string{"ridge": "0"}})
		if strings.Contains(strings.Join(m.Report().Notes, " "), "no within-class variance") != noted {
			t.Errorf("a share of %g within classes: %q", share, m.Report().Notes)
		}
	}
}

// TestRowsOfQuadraticMethods: methods with a matrix of all pairs of rows use all of some hundred.
func TestRowsOfQuadraticMethods(t *testing.T) {
	coupled := map[string]string{"gamma": "1"}
	for _, c := range []Config{{Method: "lsmpa"}, {Method: "tsimr", Dim: 2, Params: coupled}} {
		notes := fit(t, synthetic(1, 220, 5, 2), c).Report().Notes
		if slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, "rows were used") }) {
			t.Errorf("%s: %q", c.Method, notes)
		}
	}
}

// TestSigmaOfCopies: where every row has an equal one, the width of the heat similarity is the paper's.
func TestSigmaOfCopies(t *testing.T) {
	d := synthetic(1, 30, 3, 2)
	d.N, d.X, d.Y = 60, append(d.X, d.X...), append(d.Y, d.Y...)
	m := fit(t, d, Config{Method: "lenews", Dim: 1, Params: map[string]string{"iters": "3"}})
	if got := m.Params()["sigma"]; got != "0.02" {
		t.Errorf("sigma is %s", got)
	}
}

// TestAutoDim: the number that stands for auto in files and programs is -1.
func TestAutoDim(t *testing.T) {
	if err := (Config{Method: "lda", Dim: -1}).Validate(); err != nil {
		t.Error(err)
	}
}
