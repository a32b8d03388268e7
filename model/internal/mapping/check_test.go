package mapping

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"
)

// training is rows of two features with two outputs.
func training(n int) Training {
	return Training{2, make([]float64, 2*n), make([]float64, 2*n)}
}

// ofTwo are maps of two features to two outputs, one of each kind.
func ofTwo() map[string]Map {
	ones := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 1
		}
		return v
	}
	gauss := Kernel{Name: "gauss", Param: []float64{1}}
	return map[string]Map{
		"linear": &Linear{2, ones(4)},
		"kernel": &KernelMap{D: 2, Rows: ones(6), Coefficients: ones(6), Offset: ones(2), K: gauss},
		"sum": &Sum{D: 2, Offset: ones(2), Linear: ones(4),
			Kernel: &KernelMap{D: 2, Rows: ones(2), Coefficients: ones(2), K: gauss}},
		"ranks": &Sum{D: 2, Offset: ones(2), Ranked: ones(4), Ranks: &Ranks{First: []float64{0, 2, 3},
			Value: []float64{1, 2, 1}, Score: []float64{1, 1, 1}}},
		"views":      &Views{2, ones(8), ones(4), ones(12), []float64{0, 1, 1}},
		"nystrom":    &Nystrom{training(3), []float64{0, 2}, ones(3), 1, 0},
		"barycentre": &Barycentric{training(3), 1, 1e-300},
		"geodesic": &Geodesic{Training: training(3), Lambda: []float64{1, 1e-300}, Square: ones(3),
			Edge: []float64{0, 1, 2, 1}, Length: []float64{0, 1}, K: 1},
		"tangent":    &Tangent{training(3), []float64{0, 1, 1}, ones(8), 2},
		"similarity": &SimilarityMap{training(3), []float64{0, 2}, 0, 0, 0, gauss},
	}
}

// TestChecks: a map of each kind is accepted at the bounds of its numbers, and refused beyond them with what is wrong.
func TestChecks(t *testing.T) {
	tiny, nan := math.SmallestNonzeroFloat64, math.NaN()
	for _, c := range []struct {
		of     string
		change func(m Map)
		want   string // "": accepted
	}{
		{"linear", func(m Map) { m.(*Linear).D = 3 }, "3 outputs of 2 features"},
		{"linear", func(m Map) { m.(*Linear).Components = make([]float64, 5) }, "5 numbers in components"},
		{"kernel", func(m Map) { m.(*KernelMap).Offset = nil }, ""},
		{"kernel", func(m Map) { m.(*KernelMap).Offset = make([]float64, 3) }, "3 numbers in offset"},
		{"kernel", func(m Map) { m.(*KernelMap).Rows = nil }, "0 numbers in rows"},
		{"kernel", func(m Map) { m.(*KernelMap).Rows = make([]float64, 7) }, "7 numbers in rows"},
		{"kernel", func(m Map) { m.(*KernelMap).Coefficients = make([]float64, 5) }, "5 numbers in coefficients"},
		{"kernel", func(m Map) { m.(*KernelMap).D = 7 }, "numbers in coefficients"},
		{"kernel", func(m Map) { m.(*KernelMap).K = Kernel{Name: "cubic"} }, `kernel "cubic" is not known`},
		{"kernel", func(m Map) { m.(*KernelMap).K = Kernel{Name: "linear"} }, ""},
		{"kernel", func(m Map) { m.(*KernelMap).K = Kernel{Name: "linear", Param: []float64{1}} }, "has 1 numbers, 0"},
		{"kernel", func(m Map) { m.(*KernelMap).K = Kernel{Name: "cosine", Origin: make([]float64, 2)} }, ""},
		{"kernel", func(m Map) { m.(*KernelMap).K = Kernel{Name: "cosine", Origin: make([]float64, 3)} },
			"3 numbers in origin"},
		{"kernel", func(m Map) { m.(*KernelMap).K = Kernel{Name: "chi2", Param: []float64{1}} }, "0 numbers in origin"},
		{"kernel", func(m Map) { m.(*KernelMap).K.Param[0] = tiny }, ""},
		{"kernel", func(m Map) { m.(*KernelMap).K.Param[0] = 0 }, "divides by 0"},
		{"kernel", func(m Map) { m.(*KernelMap).K.Param[0] = math.Inf(1) }, "divides by +Inf"},
		{"sum", func(m Map) { m.(*Sum).Linear = nil }, ""},
		{"sum", func(m Map) { m.(*Sum).Kernel = nil }, ""},
		{"sum", func(m Map) { m.(*Sum).Kernel, m.(*Sum).Linear = nil, nil }, "a sum of nothing"},
		{"sum", func(m Map) { m.(*Sum).Linear = make([]float64, 5) }, "5 numbers in components"},
		{"sum", func(m Map) { m.(*Sum).Kernel.D = 1 }, "a kernel of 1 outputs in a sum of 2"},
		{"sum", func(m Map) { m.(*Sum).Kernel.Rows = nil }, "0 numbers in rows"},
		{"ranks", func(m Map) { m.(*Sum).Ranked = make([]float64, 3) }, "3 numbers in ranked"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.First[0] = 1 }, "first, value and score"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.First[2] = 4 }, "first, value and score"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.First = []float64{0, 3} }, "first, value and score"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.Score = make([]float64, 2) }, "first, value and score"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.First[1] = 1.5 }, "first holds 1.5"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.First[1] = 0 }, "feature 0 has no knot"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.First[1], m.(*Sum).Ranks.Value[2] = 3, 3 }, "first holds 3"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.Value[1] = 1 }, "the knots of feature 0 do not ascend at value[1]"},
		{"ranks", func(m Map) { m.(*Sum).Ranks.Score[1] = 0 }, "the knots of feature 0 do not ascend at value[1]"},
		{"views", func(m Map) { m.(*Views).Offset = make([]float64, 5) }, "5 numbers in offset"},
		{"views", func(m Map) { m.(*Views).Offset = make([]float64, 6) }, "6 numbers in offset"},
		{"views", func(m Map) { m.(*Views).Components = make([]float64, 7) }, "7 numbers in components"},
		{"views", func(m Map) { m.(*Views).Window = make([]float64, 13) }, "13 numbers in window"},
		{"views", func(m Map) { m.(*Views).Window[3] = 0.1 }, "window[3] is 0.1, which float32 cannot"},
		{"views", func(m Map) { m.(*Views).Label[1] = 2 }, "label[1] is 2"},
		{"views", func(m Map) { m.(*Views).Label[1] = -1 }, "label[1] is -1"},
		{"views", func(m Map) { m.(*Views).Label[1] = 0.5 }, "label[1] is 0.5"},
		{"views", func(m Map) { m.(*Views).Label[0] = 1 }, "the 3 rows of the window are of fewer than 2 classes"},
		{"nystrom", func(m Map) { m.(*Nystrom).K = 3 }, ""},
		{"nystrom", func(m Map) { m.(*Nystrom).K = 4 }, "4 neighbours of 3 rows"},
		{"nystrom", func(m Map) { m.(*Nystrom).K = 0 }, "0 neighbours"},
		{"nystrom", func(m Map) { m.(*Nystrom).Rate = -tiny }, "the rate"},
		{"nystrom", func(m Map) { m.(*Nystrom).Rate = nan }, "the rate"},
		{"nystrom", func(m Map) { m.(*Nystrom).Lambda = make([]float64, 3) }, "3 numbers in lambda"},
		{"nystrom", func(m Map) { m.(*Nystrom).Reach = make([]float64, 2) }, "2 in reach"},
		{"nystrom", func(m Map) { m.(*Nystrom).Lambda[1] = 0.9989 }, ""},
		{"nystrom", func(m Map) { m.(*Nystrom).Lambda[1] = 0.9991 }, "eigenvalue 1 is 0.9991"},
		{"nystrom", func(m Map) { m.(*Nystrom).Lambda[0] = 1.0009 }, "eigenvalue 0 is 1.0009"},
		{"nystrom", func(m Map) { m.(*Nystrom).Lambda[0] = nan }, "eigenvalue 0 is NaN"},
		{"barycentre", func(m Map) { m.(*Barycentric).K = 3 }, ""},
		{"barycentre", func(m Map) { m.(*Barycentric).K = 4 }, "4 neighbours of 3 rows"},
		{"barycentre", func(m Map) { m.(*Barycentric).K = 0 }, "0 neighbours"},
		{"barycentre", func(m Map) { m.(*Barycentric).Training, m.(*Barycentric).K = training(2000), 1024 }, ""},
		{"barycentre", func(m Map) { m.(*Barycentric).Training, m.(*Barycentric).K = training(2000), 1025 },
			"give 1 to 1024"},
		{"barycentre", func(m Map) { m.(*Barycentric).Regular = 0 }, "the regulariser is 0"},
		{"barycentre", func(m Map) { m.(*Barycentric).Regular = nan }, "the regulariser is NaN"},
		{"geodesic", func(m Map) { m.(*Geodesic).K = 3 }, ""},
		{"geodesic", func(m Map) { m.(*Geodesic).K = 4 }, "4 neighbours of 3 rows"},
		{"geodesic", func(m Map) { m.(*Geodesic).K = 0 }, "0 neighbours"},
		{"geodesic", func(m Map) { m.(*Geodesic).Lambda[1] = 0 }, "eigenvalue 1 is 0"},
		{"geodesic", func(m Map) { m.(*Geodesic).Lambda = make([]float64, 1) }, "1 numbers in lambda"},
		{"geodesic", func(m Map) { m.(*Geodesic).Square = make([]float64, 4) }, "4 in mean_square"},
		{"geodesic", func(m Map) { m.(*Geodesic).Length = make([]float64, 3) }, "4 numbers in edge, 2 x 3"},
		{"geodesic", func(m Map) { m.(*Geodesic).Length[0] = -tiny }, "must not be negative"},
		{"geodesic", func(m Map) { m.(*Geodesic).Length[0] = nan }, "length[0] is NaN; the length of an edge"},
		{"geodesic", func(m Map) { m.(*Geodesic).Edge[2] = 3 }, "edge holds 3"},
		{"geodesic", func(m Map) { m.(*Geodesic).Edge[2] = -1 }, "edge holds -1"},
		{"geodesic", func(m Map) { m.(*Geodesic).Edge[2] = 1 }, "the graph has 2 components"},
		{"geodesic", func(m Map) { m.(*Geodesic).Rows = make([]float64, 7) }, "7 numbers in rows"},
		{"nystrom", func(m Map) { m.(*Nystrom).Rows = make([]float64, 7) }, "7 numbers in rows"},
		{"barycentre", func(m Map) { m.(*Barycentric).Rows = make([]float64, 7) }, "7 numbers in rows"},
		{"tangent", func(m Map) { m.(*Tangent).Rows = make([]float64, 7) }, "7 numbers in rows"},
		{"tangent", func(m Map) { m.(*Tangent).Patch[2] = 2 }, "patch holds 2"},
		{"tangent", func(m Map) { m.(*Tangent).Patch = make([]float64, 2) }, "2 numbers in patch"},
		{"tangent", func(m Map) { m.(*Tangent).Slope = make([]float64, 9) }, "9 numbers in slope"},
		{"tangent", func(m Map) { m.(*Tangent).Count = 1 }, "8 numbers in slope, 1 x 2 x 2"},
		{"tangent", func(m Map) { m.(*Tangent).Count = 0 }, "numbers in slope"},
		{"tangent", func(m Map) { m.(*Tangent).Count = 9 }, "numbers in slope"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Training = training(2000) }, ""},
		{"similarity", func(m Map) { m.(*SimilarityMap).Training = training(2001) }, "2001 rows"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Alpha = -tiny }, "none may be negative"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Beta = -tiny }, "none may be negative"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Rate = -tiny }, "none may be negative"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Rate = nan }, "none may be negative"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Lambda = make([]float64, 3) }, "3 numbers in lambda"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Lambda[0] = 1 }, "eigenvalue 0 is 1"},
		{"similarity", func(m Map) { m.(*SimilarityMap).K.Param = nil }, "has 0 numbers, 1"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Rows = make([]float64, 7) }, "7 numbers in rows"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Rows = nil }, "0 numbers in rows"},
		{"similarity", func(m Map) { m.(*SimilarityMap).Embedding = make([]float64, 5) }, "5 numbers in embedding"},
		{"similarity", func(m Map) { m.(*SimilarityMap).D = 7 }, "numbers in embedding"},
	} {
		m := ofTwo()[c.of]
		c.change(m)
		if err := m.Check(2, 2); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.of, err, c.want)
		}
	}
}

// TestArraysOfEachKind: a map that is rebuilt from its arrays has the same arrays, and none is rebuilt if one is
// missing, named otherwise, or has another number of axes.
func TestArraysOfEachKind(t *testing.T) {
	for name, m := range ofTwo() {
		if err := m.Check(2, 2); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		arrays := m.Arrays()
		rebuild := func(arrays []Array) (out Map, err error) {
			defer fail.Catch(&err)
			out = Kinds[m.Kind()](arrays)
			return out, out.Check(2, 2)
		}
		again, err := rebuild(arrays)
		if err != nil || fmt.Sprint(again.Arrays()) != fmt.Sprint(arrays) || again.Dim() != 2 || again.Kind() != m.Kind() {
			t.Errorf("%s: %v becomes %v, %v", name, arrays, again, err)
		}
		for i := range arrays {
			for what, wrong := range map[string][]Array{
				"named otherwise":    with(arrays, i, Array{"x", arrays[i].Shape, arrays[i].Data}),
				"with one more axis": with(arrays, i, Array{arrays[i].Name, append([]int{1}, arrays[i].Shape...), arrays[i].Data}),
				"missing":            slices.Delete(slices.Clone(arrays), i, i+1),
			} {
				optional := what == "missing" && slices.Contains([]string{"offset", "components"}, arrays[i].Name)
				if optional && m.Kind() != "linear" {
					continue
				}
				if _, err := rebuild(wrong); err == nil {
					t.Errorf("%s: array %s is accepted %s", name, arrays[i].Name, what)
				}
			}
		}
	}
}

func with(arrays []Array, i int, a Array) []Array {
	arrays = slices.Clone(arrays)
	arrays[i] = a
	return arrays
}
