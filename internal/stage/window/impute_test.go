package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/model/moments"
)

// TestImputedMoments: the moments of a suffix are those of rows whose missing features have the mean of their block, or
// of the blocks that have values of the feature, and do not depend on the order of arrival.
func TestImputedMoments(t *testing.T) {
	rows := stream(31, 6000, 3, 0.6, 0.3, 0.1)
	r := rand.New(rand.NewPCG(3, 1))
	for i := range rows {
		if r.IntN(10) == 0 {
			rows[i].X[r.IntN(2)] = math.NaN()
		}
		if i > 1000 && i < 4500 {
			rows[i].X[2] = math.Inf(-1)
		}
	}
	c := config
	c.Rows = 6000
	w := fill(c, rows)
	for _, n := range []int{200, 700, 3000, 6000} {
		s, err := w.Newest(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		want, err := imputedByHand(t, w, s.First, s.Classes).Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		have, err := s.Moments.Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range have.Total.RawSymmetric().Data {
			if d := math.Abs(v - want.Total.RawSymmetric().Data[i]); !(d < 1e-12) {
				t.Errorf("%d rows: entry %d of the scatter is off by %g", n, i, d)
			}
		}
		for i, v := range have.Means.RawMatrix().Data {
			if d := math.Abs(v - want.Means.RawMatrix().Data[i]); !(d < 1e-12) {
				t.Errorf("%d rows: entry %d of the means is off by %g", n, i, d)
			}
		}
	}
	shuffled := New(c)
	for _, i := range r.Perm(len(rows)) {
		shuffled.Add(rows[i])
		if i%500 == 0 {
			shuffled.Sift()
		}
	}
	if look(t, w) != look(t, shuffled) {
		t.Error("another window where rows came in another order")
	}
	if x := w.NewestRows(200); !math.IsNaN(minOf(x.X)) {
		t.Error("copied rows have no missing feature, which their fit would replace by the mean")
	}
}

// minOf is NaN if a number is.
func minOf(x []float64) float64 {
	least := math.Inf(1)
	for _, v := range x {
		least = math.Min(least, v)
	}
	return least
}

// imputedByHand sums the rows from a position on with a value in place of each missing one.
func imputedByHand(t *testing.T, w *Window, first Position, classes []string) *moments.Set {
	t.Helper()
	const m = 3
	type part struct {
		rows  []*Row
		means [m]float64
		count [m]float64
	}
	var parts []*part
	for _, b := range w.blocks {
		p := &part{}
		for _, r := range b.rows {
			if r.isFitted() && r.Compare(first) >= 0 {
				p.rows = append(p.rows, r)
			}
		}
		for j := range m {
			for _, r := range p.rows {
				if !math.IsNaN(r.X[j]) {
					p.means[j] += r.X[j]
					p.count[j]++
				}
			}
			p.means[j] /= p.count[j]
		}
		parts = append(parts, p)
	}
	set, absent := moments.New(m, false), 0
	for _, p := range parts {
		for j := range m {
			if p.count[j] > 0 || len(p.rows) == 0 {
				continue
			}
			absent++
			sum, rows := 0.0, 0.0
			for _, q := range parts {
				if q.count[j] > 0 {
					sum, rows = sum+q.means[j]*float64(len(q.rows)), rows+float64(len(q.rows))
				}
			}
			if p.means[j] = 0; rows > 0 {
				p.means[j] = sum / rows
			}
		}
		for _, r := range p.rows {
			x, y := make([]float64, m), 0
			for j, v := range r.X {
				if x[j] = v; math.IsNaN(v) {
					x[j] = p.means[j]
				}
			}
			for c, label := range classes {
				if label == r.Label {
					y = c
				}
			}
			if err := set.Add(t.Context(), x, []int{y}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(parts[0].rows) > 0 && absent == 0 {
		t.Error("each block has a value of each feature: the test shows nothing")
	}
	return set
}

// TestImputer: missing features get the mean of the rows that enter fits, or of other rows of their block; without any
// nothing is imputed.
func TestImputer(t *testing.T) {
	nan := math.NaN()
	row := func(isMissing bool, x ...float64) *Row { return &Row{hasMissing: isMissing, X: x} }
	p := newImputer([]*Row{row(true, nan, 1), row(true, 2, nan), row(true, 4, nan)}, nil)
	x := []float64{nan, nan}
	if p.fill(x); !slices.Equal(x, []float64{3, 1}) || len(p.absent) != 0 {
		t.Errorf("imputed %v, absent %v", x, p.absent)
	}
	p = newImputer([]*Row{row(false, 5, 1), row(true, nan, nan), row(true, 6, nan)}, nil)
	x = []float64{nan, 7}
	if p.fill(x); !slices.Equal(x, []float64{5.5, 7}) {
		t.Errorf("imputed %v", x)
	}
	p = newImputer([]*Row{row(true, nan, 1), row(false, nan, 2)}, nil)
	x = []float64{nan, nan}
	if p.fill(x); !slices.Equal(x, []float64{0, 1.5}) || !slices.Equal(p.absent, []int{0}) {
		t.Errorf("imputed %v, absent %v", x, p.absent)
	}
	aside := &Row{hasMissing: true, excluded: outlier, X: []float64{nan, 1}}
	if p := newImputer([]*Row{row(false, 1, 2), aside}, nil); p.mean != nil {
		t.Errorf("means %v without a missing feature", p.mean)
	}
}
