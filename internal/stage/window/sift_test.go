package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSift: which rows enter fits is a function of the rows, not of the time of the check; enormous rows and rows of
// labels that occurred a few times are in the window, and in no sum of moments.
func TestSift(t *testing.T) {
	rows := stream(21, 6000, 3, 0.6, 0.3, 0.1)
	var want []Row
	for i := range rows {
		switch {
		case i%50 == 3:
			rows[i].X[i%3] = []float64{1e160, math.MaxFloat64, -1e300}[i/50%3]
		case i%50 == 9:
			rows[i].Label = fmt.Sprint("junk", i/150)
		case i%50 == 12:
			rows[i].X = []float64{5e-324, 0, -5e-324}
			want = append(want, rows[i])
		default:
			want = append(want, rows[i])
		}
	}
	c := config
	c.Rows, c.Classes = 6000, 1000
	w := fill(c, rows)
	s, err := w.Newest(t.Context(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	clean, _ := fill(c, want).Newest(t.Context(), 1<<30)
	a, err := s.Moments.Summary(true)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := clean.Moments.Summary(true)
	if s.Rows != clean.Rows || !slices.Equal(s.Classes, clean.Classes) {
		t.Errorf("%d rows of %v, and %d of %v without the others", s.Rows, s.Classes, clean.Rows, clean.Classes)
	}
	for i, v := range a.Total.RawSymmetric().Data {
		if d := math.Abs(v - b.Total.RawSymmetric().Data[i]); !(d <= 1e-12) {
			t.Errorf("entry %d of the scatter is off by %g", i, d)
		}
	}
	if f := w.Outliers(); f.Rows != 120 || f.Newest.Seq < rows[5900].Seq {
		t.Errorf("%d rows are set aside, the newest %v", f.Rows, f.Newest.Position)
	}
	isTheSameWhenLookedAt(t, c, rows)
}

// isTheSameWhenLookedAt checks that a window in which outliers were determined on the way is the same.
func isTheSameWhenLookedAt(t *testing.T, c Config, rows []Row) {
	t.Helper()
	looked, r := New(c), rand.New(rand.NewPCG(1, 1))
	for _, row := range rows {
		looked.Add(row)
		if r.IntN(50) == 0 {
			looked.Sift()
		}
	}
	if look(t, fill(c, rows)) != look(t, looked) {
		t.Error("another window where it was looked at on the way")
	}
}

// TestLimits: however many rows have values far away, at most 1 % of a window, and 5 % of each class, enter no fit, and
// no value decides a fit; the counts by class say what became of which rows. It is the same whenever it is checked.
func TestLimits(t *testing.T) {
	clean := stream(22, 6000, 3, 0.6, 0.3, 0.1)
	scatter := func(w *Window) []float64 {
		s, err := w.Newest(t.Context(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := s.Moments.Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		return sum.Total.RawSymmetric().Data
	}
	c := config
	want := scatter(fill(c, clean))
	for _, every := range []int{400, 100, 40} {
		for _, class := range []string{"", "class 0", "class 2"} {
			rows, far := stream(22, 6000, 3, 0.6, 0.3, 0.1), map[string]int{}
			for i := 0; i < len(rows); i += every {
				if r := &rows[i]; class == "" || r.Label == class {
					r.X[i/every%3] = []float64{1e4, -1e9, 3e38, 1e130}[i/every%4]
					far[r.Label]++
				}
			}
			w := fill(c, rows)
			if got := scatter(w); got[0] > 4*want[0] || got[4] > 4*want[4] || got[8] > 4*want[8] {
				t.Errorf("one in %d of %q: the scatter is %.3g, without them %.3g", every, class, got, want)
			}
			o := w.Outliers()
			aside := 0
			for _, of := range o.Classes {
				if aside += of.SetAside; of.SetAside > of.Rows/20 || of.SetAside+of.Limited != far[of.Label] {
					t.Errorf("one in %d of %q: %+v, %d are far", every, class, of, far[of.Label])
				}
			}
			if aside > w.Len()/100 {
				t.Errorf("one in %d of %q: %d of %d rows are set aside", every, class, aside, w.Len())
			}
			if every == 40 && class == "" {
				isTheSameWhenLookedAt(t, c, rows)
			}
		}
	}
}

// TestHeavyTails: of features with few values, of many orders of magnitude, or that are nearly always the same, few
// values or none are limited, and at most one row in a hundred enters no fit.
func TestHeavyTails(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for _, c := range []struct {
		name string
		most int // of 5,000 rows
		draw func() float64
	}{
		{"normal, far from zero", 0, func() float64 { return 1e9 + r.NormFloat64() }},
		{"constant", 0, func() float64 { return 7 }},
		{"zero or one, a thousandth one", 0, func() float64 { return float64(1 - min(r.IntN(1000), 1)) }},
		{"counts, mostly zero", 0, func() float64 { return math.Floor(max(r.NormFloat64()-2, 0) * 1000) }},
		{"log-normal", 100, func() float64 { return math.Exp(2 * r.NormFloat64()) }},
		{"Pareto, 1.5", 50, func() float64 { return math.Pow(r.Float64(), -1/1.5) }},
		{"Cauchy", 100, func() float64 { return r.NormFloat64() / r.NormFloat64() }},
		{"of all magnitudes", 1250, func() float64 { return math.Exp(200 * r.NormFloat64()) }},
	} {
		w := New(Config{Features: 1, Rows: 5000, Classes: 1})
		for i := range 5000 {
			w.Add(Row{Position: Position{Seq: uint64(i + 1)}, X: []float64{c.draw()}})
		}
		w.Sift()
		enormous := 0
		w.All(func(r *Row) bool {
			if math.Abs(r.X[0]) > Enormous {
				enormous++
			}
			return true
		})
		if o := w.Outliers(); o.Limited+o.Rows > c.most || o.Rows-enormous > 50 {
			t.Errorf("%s: %d rows are limited, %d set aside", c.name, o.Limited, o.Rows)
		}
	}
}

// TestSiftRests: training can pause after each 8 features, and after each 512 rows, of a check.
func TestSiftRests(t *testing.T) {
	const m, n = 64, 2048
	rests := 0
	w := New(Config{Features: m, Rows: n, Classes: 10, Pause: func() { rests++ }})
	for i := range n {
		x := make([]float64, m)
		for j := range x {
			x[j] = float64((i*31 + j*17) % 101)
		}
		w.Add(Row{Position: Position{Seq: uint64(i + 1)}, X: x})
	}
	w.Sift()
	if want := m/8 + n/512; rests < want {
		t.Errorf("%d rests, want %d", rests, want)
	}
	rests = 0
	if limitsOf([][]float64{make([]float64, m)}, m, func() { rests++ }); rests != m/8 {
		t.Errorf("%d rests of %d features", rests, m)
	}
}

// TestSparseFeatures: features that are nearly always 0, such as the pixels at the border of an image, limit no usual
// value, whatever their unit; a value far beyond all features is limited in each of them.
func TestSparseFeatures(t *testing.T) {
	const n, m = 3000, 40
	for _, unit := range []float64{1e-6, 1, 1e9} {
		r := rand.New(rand.NewPCG(4, 5))
		rows := make([]Row, n)
		for i := range rows {
			x := make([]float64, m)
			for j := range x {
				switch kind := j % 4; {
				case kind == 0:
					x[j] = r.Float64()
				case kind == 1 && r.IntN(300) == 0, kind == 2 && r.IntN(30) == 0: // rarely a usual value, else 0
					x[j] = 0.5 + r.Float64()
				case kind == 3 && r.IntN(30) == 0:
					x[j] = 0.5 + r.Float64()
				case kind == 3 && r.IntN(5) == 0: // often a tiny one
					x[j] = 0.002 * r.Float64()
				}
				x[j] *= unit
			}
			rows[i] = Row{Position: Position{Seq: uint64(i + 1)}, X: x}
		}
		c := Config{Features: m, Rows: n, Classes: 1}
		w := fill(c, rows)
		w.Sift()
		if o := w.Outliers(); o.Limited+o.Rows > 0 {
			t.Errorf("in units of %g %d rows are limited, %d set aside", unit, o.Limited, o.Rows)
		}
		for j := range 4 {
			rows[700+j].X[j] = 1e3 * unit
		}
		w = fill(c, rows)
		w.Sift()
		if o := w.Outliers(); o.Limited != 4 || o.Rows > 0 || o.Newest.Seq != 704 {
			t.Errorf("in units of %g %d rows are limited, %d set aside, the newest %v", unit, o.Limited, o.Rows,
				o.Newest.Position)
		}
	}
}

// TestSiftsWhatHasChanged: the limits of each block are those of its sample after any changes of the rows, and each row
// is judged by them.
func TestSiftsWhatHasChanged(t *testing.T) {
	c, r := config, rand.New(rand.NewPCG(31, 32))
	c.Rows = 1500
	w := New(c)
	w.border = drawLimit(1.0 / 60)
	rows := stream(33, 4000, 3, 0.6, 0.3, 0.1)
	r.Shuffle(len(rows), func(i, k int) {
		if max(i, k)-min(i, k) < 500 {
			rows[i], rows[k] = rows[k], rows[i]
		}
	})
	for i, row := range rows {
		for j := range row.X {
			if r.IntN(20+i/2000*400) == 0 { // later few blocks have a value beyond the limits
				row.X[j] *= 1000
			}
		}
		w.Add(row)
		switch past := rows[r.IntN(i+1)].Position; r.IntN(10) {
		case 0:
			w.Remove(past)
		case 1:
			w.Relabel(past, rows[0].Label)
		}
		if r.IntN(100) == 0 { // without its first row the rows of a block belong to the one before
			w.Remove(w.blocks[r.IntN(len(w.blocks))].rows[0].Position)
		}
		if r.IntN(50) > 0 {
			continue
		}
		w.Sift()
		for at, b := range w.blocks {
			if !b.limits.isEqual(limitsOf(w.sampleOf(at), c.Features, func() {})) {
				t.Fatalf("after %d rows the limits of block %d are not those of its sample", i, at)
			}
			for _, row := range b.rows {
				if g := b.limits.judge(row.X); g.isLimited != (row.limits != nil) || row.limits != nil && row.limits != b.limits {
					t.Fatalf("after %d rows a row of block %d was judged by other limits", i, at)
				}
			}
			counted, want := make([]int, len(w.classes.names)), make([]int, len(w.classes.names))
			n := b.countFitted(w.classes.lent, 0, counted)
			for _, row := range b.rows {
				if row.isFitted() {
					want[row.class]++
					n--
				}
			}
			if n != 0 || !slices.Equal(counted, want) {
				t.Fatalf("after %d rows %v rows by class of block %d are fitted, want %v", i, counted, at, want)
			}
		}
	}
}

// TestSiftsByExtremeValues: if only the distance of extreme values changes, because half of the values are equal no
// more, the rows of a block are judged again.
func TestSiftsByExtremeValues(t *testing.T) {
	c := Config{Features: 1, Rows: 200, Classes: 1}
	w := New(c)
	w.border = drawLimit(1.0 / 50)
	p := Position{}
	next := func(begins bool) Position {
		for p.Seq++; (p.draw(drawBorder) < w.border) != begins; p.Seq++ {
		}
		return p
	}
	var all []Position
	for i := range 100 { // 51 zeros, 48 ones and a value that is far away, in two blocks
		x := float64(i % 2)
		switch i {
		case 1:
			x = 1000
		case 99:
			x = 0
		}
		all = append(all, next(i == 60))
		w.Add(Row{Position: p, X: []float64{x}})
	}
	w.Sift()
	if x := w.At(all[1]).fitted()[0]; len(w.blocks) != 2 || x != 10 {
		t.Fatalf("with %d blocks the far value enters fits as %g, want two and 10", len(w.blocks), x)
	}
	w.Remove(all[99])
	w.Add(Row{Position: next(false), X: []float64{1}})
	w.Sift()
	if x := w.At(all[1]).fitted()[0]; x != 0 {
		t.Errorf("the extreme value enters fits as %g, want the median", x)
	}
}

// TestOutliersAreSetAside: a row that is far from the others in each feature enters no fit.
func TestOutliersAreSetAside(t *testing.T) {
	rows := stream(31, 3000, 4, 1)
	for _, i := range []int{700, 1500, 2900} {
		rows[i].X = []float64{1e4, -1e4, 1e5, 1e6}
	}
	c := config
	c.Features = 4
	w := fill(c, rows)
	w.Sift()
	if n := w.Outliers().Rows; n != 3 {
		t.Errorf("%d outliers are set aside, want 3", n)
	}
	for i := range rows {
		if isOutlier, r := rows[i].X[3] == 1e6, w.At(rows[i].Position); r == nil || r.IsIncluded() == isOutlier {
			t.Errorf("row %d, an outlier %v, enters fits: %v", i, isOutlier, !isOutlier)
		}
	}
}

// TestSamplesForLimits: the limits of a block of few rows are from about 256 rows, of it and of blocks next to it, each
// once.
func TestSamplesForLimits(t *testing.T) {
	c, short := config, 0
	c.Rows = 30_000
	w := fill(c, stream(33, c.Rows, 3, 1))
	for at, b := range w.blocks {
		if len(b.rows) < 256 {
			short++
		}
		seen := map[*float64]bool{}
		for _, x := range w.sampleOf(at) {
			if seen[&x[0]] {
				t.Fatalf("block %d of %d: a row is in the sample twice", at, len(w.blocks))
			}
			seen[&x[0]] = true
		}
		if n := len(seen); n < 150 || n > 400 {
			t.Errorf("block %d of %d rows: a sample of %d rows", at, len(b.rows), n)
		}
	}
	if short < 2 {
		t.Errorf("%d of %d blocks have few rows", short, len(w.blocks))
	}
}
