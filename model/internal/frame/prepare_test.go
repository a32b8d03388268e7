package frame

import (
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestBadDataIsRefused: data that cannot be fitted are an error with the numbers that are wrong.
func TestBadDataIsRefused(t *testing.T) {
	two := func(change func(d *model.Data)) *model.Data {
		d := &model.Data{N: 2, M: 2, X: []float64{1, 2, 3, 4}, Y: []int{0, 1}, Classes: []string{"a", "b"}}
		change(d)
		return d
	}
	nan := math.NaN()
	for _, c := range []struct {
		data       *model.Data
		supervised bool
		want       string
	}{
		{nil, false, "data: none given"},
		{two(func(d *model.Data) { d.N = -1 }), false, "data: 4 values are not -1 rows x 2 features"},
		{two(func(d *model.Data) { d.N, d.M = 4, 0 }), false, "data: 4 values are not 4 rows x 0 features"},
		{two(func(d *model.Data) { d.M = 1 }), false, "data: 4 values are not 2 rows x 1 features"},
		{two(func(d *model.Data) { d.Y = d.Y[:1] }), false, "data: 1 labels for 2 rows"},
		{two(func(d *model.Data) { d.Groups = []int{1} }), false, "data: 1 groups for 2 rows"},
		{two(func(d *model.Data) { d.Features = []string{"x"} }), false, "data: 1 feature names for 2 features"},
		{two(func(d *model.Data) { d.Features = []string{"x", "x"} }), false,
			`data: two features are named "x"; rename one`},
		{two(func(d *model.Data) { d.Classes = []string{"a", "a"} }), true, `data: two classes are named "a"; rename one`},
		{two(func(d *model.Data) { d.Y[1] = 2 }), false, "data: row 1 has class 2 of 2"},
		{two(func(d *model.Data) { d.Y[0] = -2 }), true, "data: row 0 has class -2 of 2"},
		{two(func(d *model.Data) { d.Y[0] = -1 }), true,
			"data: 1 labelled rows (of 2 rows); a fit needs at least 2: give more"},
		{two(func(d *model.Data) { d.N, d.X, d.Y = 1, d.X[:2], nil }), false,
			"data: 1 rows (of 1 rows); a fit needs at least 2: give more"},
		{two(func(d *model.Data) { d.X[1], d.X[3] = nan, math.Inf(1) }), false,
			"data: feature 1 is missing, infinite or beyond float32 in each of 2 rows; leave it out"},
		{two(func(d *model.Data) { d.X[1], d.X[3], d.Features = nan, nan, []string{"x", "y"} }), false,
			`data: feature "y" is missing, infinite or beyond float32 in each of 2 rows; leave it out`},
	} {
		if _, err := Prepare(t.Context(), c.data, c.supervised, false, &model.Report{}); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestPreparedRows: rows without a label are left out, infinite values count as missing, and missing ones are replaced
// by the mean of the others. Rows that need no change are not copied.
func TestPreparedRows(t *testing.T) {
	d := &model.Data{N: 4, M: 2, X: []float64{1, math.NaN(), 3, 5, 100, 100, math.Inf(-1), 9}, Y: []int{0, 1, -1, 0},
		Classes: []string{"a", "b"}, Groups: []int{7, 8, 9, 7}}
	report := &model.Report{}
	p, err := Prepare(t.Context(), d, true, false, report)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{1, 7, 3, 5, 2, 9}; !slices.Equal(p.X, want) || !slices.Equal(p.Y, []int{0, 1, 0}) ||
		!slices.Equal(p.Index, []int{0, 1, 3}) || !slices.Equal(p.Groups, []int{7, 8, 7}) || p.N != 3 {
		t.Errorf("%+v", p)
	}
	notes := []string{"1 infinite values count as missing", "2 missing values were replaced by the mean of their feature"}
	if !slices.Equal(report.Notes, notes) || report.Imputed != 2 || report.Unlabelled != 1 {
		t.Errorf("%+v", report)
	}
	plain := &model.Data{N: 2, M: 2, X: []float64{3, 4, 0, 2}}
	if p, err := Prepare(t.Context(), plain, false, false, &model.Report{}); err != nil || &p.X[0] != &plain.X[0] {
		t.Errorf("rows that need no change are copied, %v", err)
	}
	if p, err := Prepare(t.Context(), plain, false, true, &model.Report{}); err != nil ||
		!slices.Equal(p.X, []float64{0.6, 0.8, 0, 1}) {
		t.Errorf("rows of norm 1: %v, %v", p, err)
	}
	mean, variance := p.Spread()
	if !slices.Equal(mean, []float64{2, 7}) || !(math.Abs(variance[0]-2./3) <= 1e-15) ||
		!(math.Abs(variance[1]-8./3) <= 1e-15) {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}

// stored is rows of one number, their index, that count how often they are read.
type stored struct{ reads int }

func (s *stored) ReadRows(dst []float64, from int) error {
	s.reads++
	for i := range dst {
		dst[i] = float64(from + i)
	}
	return nil
}

// TestStoredRowsAreReadInRuns of consecutive indices.
func TestStoredRowsAreReadInRuns(t *testing.T) {
	rows := &stored{}
	p := &Rows{N: 7, M: 1, Data: &model.Data{M: 1, Stored: rows}, Index: []int{0, 1, 3, 4, 5, 9, 8}}
	if got := p.read(make([]float64, 6), 1); !slices.Equal(got, []float64{1, 3, 4, 5, 9, 8}) || rows.reads != 4 {
		t.Errorf("%v in %d reads", got, rows.reads)
	}
	if got := p.Subset([]int{5, 2}); !slices.Equal(got.X, []float64{9, 3}) || !slices.Equal(got.Index, []int{9, 3}) {
		t.Errorf("%+v", got)
	}
}
