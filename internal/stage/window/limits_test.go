package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// around is a sample of 101 values of a feature whose median is 5: 91 at the first distance, 7 at the second, and the
// last three at the third.
func around(nine, most, top float64) (values []float64) {
	for i := range 101 {
		distance := nine
		switch {
		case i >= 98:
			distance = top
		case i >= 91:
			distance = most
		}
		if i%2 == 0 {
			distance = -distance
		}
		if i == 0 { // the median
			distance = 0
		}
		values = append(values, 5+distance)
	}
	return values
}

// limitsOfFeatures computes the limits of features from their samples.
func limitsOfFeatures(features ...[]float64) *limits {
	rows := make([][]float64, len(features[0]))
	for i := range rows {
		for _, f := range features {
			rows[i] = append(rows[i], f[i])
		}
	}
	return limitsOf(rows, len(features), func() {})
}

// TestReach: a range reaches ten times as far as nine in ten rows, five times as far as 97 in 100, and five times as
// far as all but two or as is usual, whichever is less. Of a feature that hardly varies it reaches ten times the usual
// distance.
func TestReach(t *testing.T) {
	usual := [][]float64{around(100, 100, 100), around(100, 100, 100), around(100, 100, 100), around(100, 100, 100)}
	for _, c := range []struct {
		name     string
		features [][]float64
		want     float64 // of the first
	}{
		{"nine in ten", [][]float64{around(2, 2, 2)}, 20},
		{"97 in 100", [][]float64{around(2, 30, 30)}, 150},
		{"all but two, not the usual", [][]float64{around(2, 2, 1000)}, 20},
		{"all but two", append([][]float64{around(2, 2, 40)}, usual...), 200},
		{"usual", append([][]float64{around(2, 2, 1000)}, usual...), 500},
		{"hardly varies", append([][]float64{around(0, 0, 3)}, usual...), 1000},
		{"never varies", [][]float64{around(0, 0, 0)}, math.Inf(1)},
		{"three values", [][]float64{{1, 2, 3}}, math.Inf(1)},
		{"four values", [][]float64{{1, 2, 3, 4}}, 10},
		{"three values that are not enormous", [][]float64{{1, 2, 3, 1.1e140, math.NaN()}}, math.Inf(1)},
		{"a large value that is not enormous", [][]float64{{1, 2, 3, 0.9e140}}, 10},
	} {
		l := limitsOfFeatures(c.features...)
		if got := l.reach[0]; !(got == c.want) {
			t.Errorf("%s: the reach is %v, want %v", c.name, got, c.want)
		}
		if got, want := l.extreme[0], 10*c.want; !(got == want || c.name == "hardly varies" && math.IsInf(got, 1)) {
			t.Errorf("%s: values are extreme from %v on, want %v", c.name, got, want)
		}
	}
}

// TestRounded: a limit moves by up to a hundredth of its reach.
func TestRounded(t *testing.T) {
	const ulp = 0x1p-30
	for reach, want := range map[float64]float64{99 * ulp: 1 + ulp, 100 * ulp: 1, math.Inf(1): 1} {
		if got := rounded(1+ulp, reach); got != want {
			t.Errorf("reach %g: %v, want %v", reach, got, want)
		}
	}
}

// TestUsualReach: it is the upper quartile of the features that vary.
func TestUsualReach(t *testing.T) {
	of := func(nines ...float64) (all []spread) {
		for _, v := range nines {
			all = append(all, spread{nine: v, most: 10, top: 100})
		}
		return all
	}
	for _, c := range []struct {
		all  []spread
		want float64
	}{{of(0, 5, 4, 3, 2, 1, 0), 4}, {of(7), 7}, {of(0, 0), 10}, {[]spread{{top: 3}}, 3}, {nil, 0}} {
		if got := usualReach(c.all); got != c.want {
			t.Errorf("%v: %v, want %v", c.all, got, c.want)
		}
	}
}

// TestJudge: a value is limited beyond the range, extreme beyond ten times its reach, and enormous beyond 1e140. A row
// is a suspect if a quarter of its values are extreme.
func TestJudge(t *testing.T) {
	l := limitsOfFeatures(around(2, 2, 2)) // 5 - 20 to 5 + 20
	for _, c := range []struct {
		value, applied float64
		want           judgement
	}{
		{5, 5, judgement{}}, {25, 25, judgement{}}, {-15, -15, judgement{}},
		{26, 25, judgement{isLimited: true, ratio: 21. / 20}}, {-16, -15, judgement{isLimited: true, ratio: 21. / 20}},
		{205, 25, judgement{isLimited: true, ratio: 10}}, {207, 5, judgement{isLimited: true, extreme: 1, ratio: 10.1}},
		{1e140, 5, judgement{isLimited: true, extreme: 1, ratio: 1e140 / 20}},
		{1.1e140, 5, judgement{isLimited: true, extreme: 1, isEnormous: true, ratio: math.Inf(1)}},
		{math.Inf(1), 5, judgement{}},
	} {
		if got := l.judge([]float64{c.value}); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.value, got, c.want)
		}
		x := []float64{c.value}
		if l.apply(x); x[0] != c.applied {
			t.Errorf("%v enters a fit as %v, want %v", c.value, x[0], c.applied)
		}
	}
	for extreme, want := range []bool{false, false, true, true} {
		if g := (judgement{extreme: extreme}); g.isSuspect(8) != want {
			t.Errorf("%d extreme values of 8: suspect %v", extreme, !want)
		}
	}
}

// TestSetAside: at most one in 100 rows, and one in 20 of each class, the first ones.
func TestSetAside(t *testing.T) {
	var suspects []suspect
	for i := range 40 {
		suspects = append(suspects, suspect{i, i % 2})
	}
	var aside []int
	chooseSetAside(suspects, 1099, map[int]int{0: 999, 1: 79}, func(n int) { aside = append(aside, n) })
	if want := []int{0, 1, 2, 3, 4, 5, 6, 8, 10, 12}; !slices.Equal(aside, want) {
		t.Errorf("set aside are %v, want %v", aside, want)
	}
}

// TestFarTail: a row is in the far tail from 30 times the distance of nine in ten rows on.
func TestFarTail(t *testing.T) {
	for times, want := range map[float64]float64{29.5: 0, 30.5: 1. / 1001} {
		w := New(Config{Features: 1, Rows: 5000, Classes: 1})
		for i := range 1001 {
			x := []float64{float64(2*(i%2) - 1)}
			if i == 500 {
				x[0] = -1 + 2*times // the median is -1, and nine in ten rows are within 2
			}
			w.Add(Row{Position: Position{Seq: uint64(i + 1)}, X: x})
		}
		w.Sift()
		if got := Tails(w); got != want {
			t.Errorf("%v times as far as nine in ten: %v of the rows, want %v", times, got, want)
		}
	}
}

// TestShares: a source keeps at least one row of a class, and its share rounded up.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		share float64
		of    int
		want  int
	}{{0.1, 100, 10}, {0.101, 100, 11}, {0.001, 100, 1}, {0.1, 0, 1}} {
		if got := shareOf(c.share, c.of); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.share, c.of, got, c.want)
		}
	}
}

// TestSelectRank: values of a rank are those of sorted values, with many equal ones, ordered ones and pivots that are
// always the least.
func TestSelectRank(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for name, value := range map[string]func(i int) float64{
		"normal": func(int) float64 { return r.NormFloat64() }, "few": func(int) float64 { return float64(r.IntN(3)) },
		"equal": func(int) float64 { return 0 }, "descending": func(i int) float64 { return float64(-i) },
		"least first and last": func(i int) float64 { return max(0, float64(r.IntN(40)-20)) },
	} {
		for n := 1; n < 300; n++ {
			v, rank := make([]float64, n), r.IntN(n)
			for i := range v {
				v[i] = value(i)
			}
			want := slices.Sorted(slices.Values(v))
			selectRank(v, rank)
			if got := slices.Concat(slices.Sorted(slices.Values(v[:rank])), v[rank:rank+1],
				slices.Sorted(slices.Values(v[rank+1:]))); !slices.Equal(got, want) {
				t.Fatalf("%s: %d values selected by rank %d are not those of sorting", name, n, rank)
			}
		}
	}
}

// TestOldRows: a row is too old if it is more than the age of the window behind the newest one.
func TestOldRows(t *testing.T) {
	w := New(Config{Features: 1, Rows: 10, Age: 1000})
	for i, c := range []struct {
		time int64
		want Outcome
	}{{5000, Added}, {4000, Added}, {3999, Old}, {6000, Added}, {4999, Old}, {5000, Added}} {
		r := Row{Position: Position{Seq: uint64(i + 1)}, Time: c.time, X: []float64{1}}
		if got := w.Add(r); got != c.want {
			t.Errorf("row %d, of time %d: %v, want %v", i, c.time, got, c.want)
		}
	}
}

// TestInsertedRowsChangeTheirBlock: a block forgets its limits and sums when a row is added to it or leaves it.
func TestInsertedRowsChangeTheirBlock(t *testing.T) {
	row := func(seq uint64) *Row { return &Row{Position: Position{Seq: seq}} }
	for _, c := range []struct {
		border, seq uint64 // with the largest border every row begins a block, with 0 none
		blocks      int
		isChanged   bool
	}{
		{0, 1, 1, true}, {0, 15, 1, true}, {0, 99, 1, true},
		{math.MaxUint64, 1, 2, false}, {math.MaxUint64, 15, 2, true}, {math.MaxUint64, 99, 2, false},
	} {
		b := &block{rows: []*Row{row(10), row(20)}, limits: &limits{}, isCurrent: true}
		l := blockList{border: c.border, blocks: []*block{b}}
		l.insert(row(c.seq))
		if got := b.limits == nil && !b.isCurrent; got != c.isChanged || len(l.blocks) != c.blocks || l.count != 1 {
			t.Errorf("row %d, border %d: %d blocks, changed %v", c.seq, c.border, len(l.blocks), got)
		}
	}
}
