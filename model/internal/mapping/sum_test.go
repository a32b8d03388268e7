package mapping

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"
)

// checkedSum rebuilds and checks a sum of two features.
func checkedSum(arrays []Array) (s Map, err error) {
	defer fail.Catch(&err)
	s = rebuildSum(arrays)
	return s, s.Check(2, 0)
}

// A sum can be read from its arrays, any part may be missing, and inconsistent arrays are rejected.
func TestSumArrays(t *testing.T) {
	offset := Array{"offset", []int{1}, []float64{1}}
	linear := Array{"components", []int{2, 1}, []float64{2, 3}}
	ranks := []Array{{"first", []int{3}, []float64{0, 2, 3}}, {"value", []int{3}, []float64{0, 1, 5}},
		{"score", []int{3}, []float64{-1, 1, 0}}, {"ranked", []int{2, 1}, []float64{10, 20}}}
	kernel := []Array{{"rows", []int{1, 2}, []float64{0, 0}}, {"coefficients", []int{1, 1}, []float64{100}},
		{"gauss", []int{1}, []float64{1}}}
	join := func(parts ...[]Array) (all []Array) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	z := []float64{0.25, 0}
	for _, c := range []struct {
		arrays []Array
		want   float64
	}{
		{join([]Array{offset, linear}), 1.5},
		{join([]Array{offset}, ranks), 1 + 10*-0.5},
		{join([]Array{offset}, kernel), 1 + 100*math.Exp(-0.0625)},
		{join([]Array{offset, linear}, ranks, kernel), 1.5 - 5 + 100*math.Exp(-0.0625)},
	} {
		s, err := checkedSum(c.arrays)
		if err != nil {
			t.Fatalf("%v: %v", c.arrays, err)
		}
		if again := s.Arrays(); len(again) != len(c.arrays) {
			t.Errorf("%d arrays of %d", len(again), len(c.arrays))
		}
		e, err := s.(*Sum).Extension(2)
		if err != nil {
			t.Fatal(err)
		}
		y := make([]float64, 1)
		if _, err := e.Project(y, z, 1, e.Workspace()); err != nil || !(math.Abs(y[0]-c.want) <= 1e-12) {
			t.Errorf("%v is %g, %v, want %g", c.arrays, y[0], err, c.want)
		}
	}
	knots := func(first, value, score []float64) []Array {
		return join([]Array{offset, {"first", []int{len(first)}, first}, {"value", []int{len(value)}, value},
			{"score", []int{len(score)}, score}, ranks[3]})
	}
	for _, c := range []struct {
		arrays []Array
		want   string
	}{
		{nil, "starts with the array offset"},
		{[]Array{offset}, "a sum of nothing"},
		{join([]Array{offset, linear}, kernel[:2]), "perhaps components"},
		{join([]Array{offset}, kernel, kernel), "one kernel map at most"},
		{join([]Array{offset, {"components", []int{3, 1}, []float64{1, 2, 3}}}), "2 x 1 are needed"},
		{join([]Array{offset, {"components", []int{2, 2}, []float64{1, 2, 3, 4}}}), "perhaps components"},
		{knots([]float64{0, 3}, []float64{0, 1, 5}, []float64{0, 1, 2}), "do not hold the knots"},
		{knots([]float64{0, 0, 3}, []float64{0, 1, 5}, []float64{0, 1, 2}), "feature 0 has no knot"},
		{knots([]float64{0, 1.5, 3}, []float64{0, 1, 5}, []float64{0, 1, 2}), "must be an integer"},
		{knots([]float64{0, 2, 3}, []float64{1, 1, 5}, []float64{0, 1, 2}), "do not ascend"},
		{knots([]float64{0, 2, 3}, []float64{0, 1, 5}, []float64{1, 0, 2}), "do not ascend"},
		{knots([]float64{0, 2, 3}, nil, nil), "do not hold the knots"},
	} {
		_, err := checkedSum(c.arrays)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.arrays, err, c.want)
		}
	}
}

// Rows of a sum that are mapped together get the outputs of mapping each alone, for any parts: the test has the plain
// loop.
func TestSumOfManyRows(t *testing.T) {
	const m, d, n = 5, 3, 40
	r := rand.New(rand.NewPCG(5, 6))
	random := func(n int) []float64 { return normals(r, n) }
	ranks := &Ranks{First: []float64{0}}
	for range m {
		value, score := random(7), random(7)
		slices.Sort(value)
		slices.Sort(score)
		ranks.Value, ranks.Score = append(ranks.Value, value...), append(ranks.Score, score...)
		ranks.First = append(ranks.First, float64(len(ranks.Value)))
	}
	kernels := map[string]*KernelMap{"none": nil}
	for name, k := range map[string]Kernel{"gauss": {Name: "gauss", Param: []float64{3}},
		"polynomial": {Name: "polynomial", Param: []float64{m}}} {
		kernels[name] = &KernelMap{D: d, Rows: random(n * m), Coefficients: random(n * d), Offset: random(d), K: k}
	}
	const rows = 3*Together + 5
	z := random(rows * m)
	for name, k := range kernels {
		s := &Sum{D: d, Offset: random(d), Linear: random(m * d), Ranks: ranks, Ranked: random(m * d), Kernel: k}
		if err := s.Check(m, 0); err != nil {
			t.Fatal(err)
		}
		e, err := s.Extension(m)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float64, rows*d)
		for i := range rows {
			row, y := z[i*m:(i+1)*m], want[i*d:(i+1)*d]
			copy(y, s.Offset)
			addTimes(y, row, s.Linear)
			scores := make([]float64, m)
			scoresOf(ranks, scores, row)
			addTimes(y, scores, s.Ranked)
			if k == nil {
				continue
			}
			one, err := k.Extension(m)
			if err != nil {
				t.Fatal(err)
			}
			part := make([]float64, d)
			if _, err := one.Project(part, row, 1, one.Workspace()); err != nil {
				t.Fatal(err)
			}
			for c, v := range part {
				y[c] += v
			}
		}
		all, w := make([]float64, rows*d), e.Workspace()
		if at := e.AtOnce(); at < rows {
			t.Fatalf("%d rows at once, want %d", at, rows)
		}
		if done, err := e.Project(all, z, rows, w); done != rows || err != nil {
			t.Fatalf("%d rows: %v", done, err)
		}
		for i, v := range all {
			if !(math.Abs(v-want[i]) <= 1e-13*(1+math.Abs(want[i]))) {
				t.Errorf("kernel %s: output %d is %g, want %g", name, i, v, want[i])
			}
		}
		for _, count := range []int{rows - 1, Together + 1, Together, Together - 1, 13, 12, 7, 1} {
			got := make([]float64, count*d)
			if _, err := e.Project(got, z, count, w); err != nil || !slices.Equal(got, all[:count*d]) {
				t.Errorf("kernel %s: %d rows placed together are not what each is by itself; %v", name, count, err)
			}
		}
	}
}

// addTimes adds x·a to dst, with a row-major.
func addTimes(dst, x, a []float64) {
	d := len(dst)
	for j, v := range x {
		for c, b := range a[j*d : (j+1)*d] {
			dst[c] += v * b
		}
	}
}

// The table finds the scores that a search finds, with the same bits, for knots of any spacing, and for values at
// knots, between them and outside.
func TestRankTable(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	ranks := &Ranks{First: []float64{0}}
	var some []float64 // values that are near knots of the same feature
	for j := range 60 {
		size := math.Pow(10, float64(j%7)*3-9)
		value := make([]float64, 1+r.IntN(300))
		for i := range value {
			switch value[i] = size * r.NormFloat64(); j % 4 {
			case 1:
				value[i] = math.Floor(5 * r.NormFloat64())
			case 2:
				value[i] = size * math.Exp(20*r.NormFloat64()) // nearly all are in one interval
			}
		}
		if j%10 == 9 {
			value = append(value, math.MaxFloat64, -math.MaxFloat64, 5e-324)
		}
		if j == 20 {
			value = []float64{0, 5e-324, 1e-323}
		}
		slices.Sort(value)
		value = slices.Compact(value)
		ranks.Value = append(ranks.Value, value...)
		for i := range value {
			ranks.Score = append(ranks.Score, float64(i)+r.Float64())
		}
		ranks.First = append(ranks.First, float64(len(ranks.Value)))
		some = append(some, value[r.IntN(len(value))])
	}
	if err := ranks.check(60); err != nil {
		t.Fatal(err)
	}
	const n = 500
	z := make([]float64, n*60)
	for i := range z {
		j := i % 60
		value := ranks.Value[int(ranks.First[j]):int(ranks.First[j+1])]
		a, b := value[r.IntN(len(value))], value[r.IntN(len(value))]
		z[i] = []float64{a, b, a/2 + b/2, math.Nextafter(a, b), math.MaxFloat64, -math.MaxFloat64, 0, some[j] * 1.5,
			value[0], value[len(value)-1]}[r.IntN(10)]
	}
	got, want := make([]float64, n*60), make([]float64, n*60)
	table := newRankTable(ranks)
	for i, v := range z {
		got[i] = v
		table.score(got[i:i+1], i%60)
	}
	for i := range n {
		scoresOf(ranks, want[i*60:(i+1)*60], z[i*60:(i+1)*60])
	}
	for i, v := range got {
		if math.Float64bits(v) != math.Float64bits(want[i]) {
			t.Fatalf("feature %d: %g has the score %g, not %g", i%60, z[i], v, want[i])
		}
	}
}

// scoresOf writes the scores of the scaled row z to dst, by a search over all knots.
func scoresOf(r *Ranks, dst, z []float64) {
	for j, v := range z {
		from, to := int(r.First[j]), int(r.First[j+1])
		value, score := r.Value[from:to], r.Score[from:to]
		at, found := slices.BinarySearch(value, v)
		switch {
		case found || at == 0:
			dst[j] = score[at]
		case at == len(value):
			dst[j] = score[at-1]
		default:
			share := (v - value[at-1]) / (value[at] - value[at-1])
			dst[j] = score[at-1] + share*(score[at]-score[at-1])
		}
	}
}
