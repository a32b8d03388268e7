package fit

import (
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestSizesThatOverflow: the product of the sizes of data is not computed.
func TestSizesThatOverflow(t *testing.T) {
	_, err := Fit(t.Context(), &model.Data{N: 1 << 32, M: 1 << 32}, Config{Method: "pca"})
	if want := "data: 0 values are not 4294967296 rows x 4294967296 features"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWithoutChoice: a report without a choice leaves the configuration as it is.
func TestWithoutChoice(t *testing.T) {
	if c := (Config{Method: Auto, Dim: AutoDim}).WithChoice(nil); c.Method != Auto || c.Dim != AutoDim {
		t.Errorf("%+v", c)
	}
}

// auto on rows that are few, wide, or nearly without classes: it chooses among the candidates that can be fitted.
func TestAutoOfBadRows(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	wide := &model.Data{N: 60, M: 150, Classes: []string{"a", "b", "c"}}
	for i := range wide.N {
		for j := range wide.M {
			v := r.NormFloat64()
			if j < 5 {
				v += 2 * float64(i%3)
			}
			wide.X = append(wide.X, v)
		}
		wide.Y = append(wide.Y, i%3)
	}
	lonely := synthetic(71, 40, 5, 3) // a class of one row, and one of two
	for i := range lonely.N {
		lonely.Y[i] = i % 2
	}
	lonely.Classes = []string{"a", "b", "one", "two"}
	lonely.Y[7], lonely.Y[8], lonely.Y[9] = 2, 3, 3
	flat := synthetic(72, 30, 4, 2) // features that do not vary, or hardly
	for i := range flat.N {
		flat.X[4*i+1] = 5
		flat.X[4*i+2] = float64(i % 2)
	}
	equal := synthetic(73, 40, 4, 2) // every landmark is one of two rows
	for i := 2; i < equal.N; i++ {
		copy(equal.X[i*4:i*4+4], equal.X[i%2*4:])
	}
	for name, d := range map[string]*model.Data{"wide": wide, "lonely": lonely, "flat": flat, "equal": equal} {
		for _, nonlinear := range []bool{false, true} {
			if name == "wide" && !nonlinear {
				continue // a nonlinear candidate also tries all linear ones
			}
			m := fit(t, d, Config{Dim: AutoDim, Nonlinear: nonlinear, Seed: 1})
			if err := m.Project(make([]float32, d.N*m.Dim()), model.DenseRows(d.X, d.N, d.M)); err != nil {
				t.Errorf("%s, nonlinear %t: %v", name, nonlinear, err)
			}
			choice := m.Report().Choice
			if choice.Rule != "cv" || len(choice.Members) < 2 {
				t.Errorf("%s, nonlinear %t: %s of %d members, %q", name, nonlinear, m.Method(), len(choice.Members), choice.Rule)
			}
			if left := len(choice.LeftOut) > 0; left != (name == "equal") {
				t.Errorf("%s, nonlinear %t: left out %q", name, nonlinear, choice.LeftOut)
			}
		}
	}
}
