package fit

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/pencil"
)

// TestMirroredRows: rows with the opposite sign have the opposite map, also where all features of a class have the
// same sign, before centring or after it.
func TestMirroredRows(t *testing.T) {
	const n, m = 90, 4
	rng := rand.New(rand.NewPCG(7, 7))
	data := model.Data{N: n, M: m, X: make([]float64, n*m), Y: make([]int, n), Classes: []string{"a", "b", "c"}}
	for i := range n {
		data.Y[i] = i % 3
		for j := range m {
			data.X[i*m+j] = 3 + 4*float64(i%3) + float64(j+1)*rng.NormFloat64()
		}
	}
	mirrored := data
	mirrored.X = make([]float64, n*m)
	for i, v := range data.X {
		mirrored.X[i] = -v
	}
	for _, method := range linearMethods() {
		c := Config{Method: method.Name, Params: fixed(method), Dim: 2, Scale: model.ScaleNone}
		a := mat.DenseCopyOf(matrixOf(fit(t, &data, c)))
		b := mat.DenseCopyOf(matrixOf(fit(t, &mirrored, c)))
		pencil.FixSigns(a)
		pencil.FixSigns(b)
		bound := 1e-8
		if method.Name == "pairacc" {
			bound = 1e-6 // an optimum by its values alone is known to half of their digits
		}
		if e := apart(a, b); !(e <= bound) {
			t.Errorf("%s: mirrored rows change the map by %.2g", method.Name, e)
		}
	}
}
