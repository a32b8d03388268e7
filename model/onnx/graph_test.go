package onnx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/mapping"
)

// crafted is a model of five features with this map.
func crafted(t *testing.T, m model.Mapping, classes ...string) *model.Model {
	t.Helper()
	c := model.Content{Method: "own", Features: []string{"x0", "x1", "x2", "x3", "x4"}, Classes: classes,
		Mean: []float64{1, -1, 0, 2, 0}, Scale: []float64{1, 2, 1, 0.5, 1}, Map: m, Rows: 9, InformativeRank: 1}
	c.Report.Convergence = model.Direct
	return fail.Must(model.New(c))
}

// TestCraftedMaps exports maps that fits rarely produce: a row of zeros in the kernel cosine, no kernels near each
// other, a class without rows in a window, ties between views, an origin, and weights that all underflow.
func TestCraftedMaps(t *testing.T) {
	d := fixture.Synthetic(3, 36, 5, 3)
	x, n := probes(d)
	rows := d.X[:3*5]
	coefficients := []float64{1, -2, 0.5, 3, 2, 1}
	zero := append(make([]float64, 5), rows[:10]...)
	origin := []float64{0.5, 1, 0, -0.25, 2}
	far := make([]float64, 15)
	for i := range far {
		far[i] = rows[i] + 1e7*float64(i/5)
	}
	training := mapping.Training{D: 2, Rows: rows, Embedding: coefficients}
	for name, m := range map[string]model.Mapping{
		"cosine": &mapping.KernelMap{D: 2, Rows: zero, Coefficients: coefficients, K: mapping.Kernel{Name: "cosine"}},
		"cosine about an origin": &mapping.KernelMap{D: 2, Rows: rows, Coefficients: coefficients, Offset: []float64{3, 4},
			K: mapping.Kernel{Name: "cosine", Origin: origin}},
		"linear about an origin": &mapping.KernelMap{D: 2, Rows: rows, Coefficients: coefficients,
			K: mapping.Kernel{Name: "linear", Origin: origin}},
		"polynomial": &mapping.KernelMap{D: 2, Rows: rows, Coefficients: coefficients,
			K: mapping.Kernel{Name: "polynomial", Param: []float64{5}, Origin: origin}},
		"chi2": &mapping.KernelMap{D: 2, Rows: zero, Coefficients: coefficients,
			K: mapping.Kernel{Name: "chi2", Param: []float64{2}, Origin: []float64{9, 9, 9, 9, 9}}},
		"gauss of far rows": &mapping.KernelMap{D: 2, Rows: far, Coefficients: coefficients,
			K: mapping.Kernel{Name: "gauss", Param: []float64{3}}},
		"a sum of one part": &mapping.Sum{D: 2, Offset: []float64{1, 2}, Linear: append(coefficients, 1, 2, 3, 4)},
		"steps": &mapping.Sum{D: 1, Offset: []float64{1}, Ranked: []float64{1, 2, 3, 4, 5}, Ranks: &mapping.Ranks{
			First: []float64{0, 1, 3, 4, 5, 8}, Value: []float64{0, -1, 1, 0, 0, -2, 0, 5},
			Score: []float64{7, -1, 1, 3, 3, -1, 0, 2}}},
		"nystrom that underflows": &mapping.Nystrom{Training: training, Lambda: []float64{0.5, 0.25},
			Reach: []float64{1, 1, 1}, K: 2, Rate: 1e6},
		"barycentre": &mapping.Barycentric{Training: training, K: 2, Regular: 0.1},
		"nystrom":    &mapping.Nystrom{Training: training, Lambda: []float64{0.5, 1.25}, Reach: []float64{9, 4, 0}, K: 1},
	} {
		t.Run(name, func(t *testing.T) {
			compareGraph(t, crafted(t, m).WithNote(model.Note{Version: "7", Epoch: 1}), x, n)
		})
	}
	views := &mapping.Views{D: 1, Components: make([]float64, 15), Offset: []float64{0, 1, 5},
		Window: make([]float64, 12), Label: []float64{0, 0, 1, 1}} // the third class has no rows
	for i := range views.Components {
		views.Components[i] = float64(i%4) - 1.5
	}
	for i := range views.Window {
		views.Window[i] = float64(i*i%7) / 2
	}
	t.Run("views", func(t *testing.T) {
		compareGraph(t, crafted(t, views, "a", "b", "c").WithNote(model.Note{Version: "7", Epoch: 1}), x, n)
	})
}

// TestFarLandmarks: up to 256 rows far from the others are measured one by one.
func TestFarLandmarks(t *testing.T) {
	for count, refused := range map[int]bool{256: false, 257: true} {
		const near = 300
		k := &mapping.KernelMap{D: 1, Rows: make([]float64, near+count), Coefficients: make([]float64, near+count),
			K: mapping.Kernel{Name: "gauss", Param: []float64{1}}}
		for i := range count {
			k.Rows[i] = 1e9
		}
		_, err := kernels(newGraph(), "z", 1, k)
		want := fmt.Sprintf("257 of %d rows of the fit are so far from the others that products lose the digits of their "+
			"distances, at most 256 are measured one by one: leave outliers out of the fit", near+count)
		if (err != nil) != refused || refused && err.Error() != want {
			t.Errorf("%d far rows: %v", count, err)
		}
		sum := &mapping.Sum{D: 1, Offset: []float64{0}, Kernel: k}
		if _, err := outputs(newGraph(), "z", model.Content{Mean: []float64{0}, Map: sum}); (err != nil) != refused {
			t.Errorf("%d far rows in a sum: %v", count, err)
		}
	}
	if far := outliers([]float64{0, 0, 0, 0, 999, 1000, 1001}, 1, 1e6); len(far) != 2 || far[0] != 5 || far[1] != 6 {
		t.Errorf("outliers %v", far)
	}
	if m := medians([]float64{1, 9, 3, 7, 2, 8}, 2); m[0] != 2 || m[1] != 8 {
		t.Errorf("medians %v", m)
	}
	f := &mapping.Geodesic{Training: mapping.Training{D: 1, Rows: make([]float64, 300), Embedding: make([]float64, 300)},
		K: 257}
	if _, err := geodesic(newGraph(), "z", 1, f); err == nil || !strings.HasPrefix(err.Error(), "257 neighbours") {
		t.Error(err)
	}
}
