package window

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/moments"
)

// stream returns n rows of m features in messages of up to 9 rows, with the given frequencies of classes.
func stream(seed uint64, n, m int, share ...float64) []Row {
	r := rand.New(rand.NewPCG(seed, 1))
	var rows []Row
	for seq := uint64(1); len(rows) < n; seq++ {
		for i := range 1 + r.IntN(9) {
			c, u := 0, r.Float64()
			for u > share[c] && c < len(share)-1 {
				u -= share[c]
				c++
			}
			x := make([]float64, m)
			for j := range x {
				x[j] = r.NormFloat64() + float64(c*(j%3))
			}
			rows = append(rows, Row{Position: Position{Created: 7, Seq: seq, Row: i},
				Time: int64(seq) * int64(time.Second), Label: fmt.Sprint("class ", c), X: x})
		}
	}
	return rows[:n]
}

func fill(c Config, rows []Row) *Window {
	w := New(c)
	for _, r := range rows {
		w.Add(r)
	}
	return w
}

// look returns all observable state of a window: rows, hold-out, blocks and the bits of the moments of several
// suffixes.
func look(t *testing.T, w *Window) string {
	t.Helper()
	text := ""
	for _, b := range w.blocks {
		text += "|"
		for _, r := range b.rows {
			text += fmt.Sprint(" ", r.Seq, ".", r.Row, r.Label, r.isHeldOut)
		}
	}
	for _, n := range []int{50, 500, 5000, 1 << 30} {
		s, err := w.Newest(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if s.Rows == 0 {
			continue
		}
		sum, err := s.Moments.Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("\n%v %v %d %v %x %x", s.First, s.Last, s.Rows, s.Classes, sum.Mean,
			sum.Total.RawSymmetric().Data)
	}
	return text
}

var config = Config{Features: 3, Rows: 6000, Classes: 10, Holdout: 0.2, Balance: true, Labelled: true, Moments: true}

// TestOrderOfArrival: the window is a function of the rows, not of their order of arrival or repetitions.
func TestOrderOfArrival(t *testing.T) {
	for _, c := range []Config{config, {Features: 3, Rows: 6000, Classes: 10, Holdout: 0.2, Labelled: true,
		Moments: true}} {
		rows := stream(1, 12000, 3, 0.6, 0.3, 0.095, 0.005)
		want := look(t, fill(c, rows))
		r := rand.New(rand.NewPCG(2, 2))
		for try := range testsize.Of(1, 3) {
			late := slices.Clone(rows)
			for i := range late { // each up to 10,000 rows late
				j := min(i+r.IntN(10000), len(late)-1)
				late[i], late[j] = late[j], late[i]
			}
			w := New(c)
			for i, row := range late {
				w.Add(row)
				if i%7 == 0 {
					w.Add(late[r.IntN(i+1)])
				}
				if i == 5000 {
					look(t, w) // computing sums in between changes nothing
				}
			}
			if look(t, w) != want {
				t.Errorf("balance %v, try %d: another window", c.Balance, try)
			}
		}
	}
}

// TestRestart: a window that is filled again from its oldest row, with its quotas, is the same.
func TestRestart(t *testing.T) {
	rows := stream(3, 10000, 3, 0.6, 0.3, 0.095, 0.005)
	c := config
	c.Age = 3000 * time.Second
	for _, at := range []int{40, 900, 9000} {
		before := fill(c, rows[:at])
		oldest, _ := before.Oldest()
		again := New(c)
		again.LowerQuota(before.quota)
		for _, r := range rows[:at] {
			if r.Seq >= oldest.Seq {
				again.Add(r)
			}
		}
		// Rows of the oldest row's message before it have left the window; only the quota excludes them again.
		if look(t, before) != look(t, again) {
			t.Errorf("after %d rows: another window", at)
		}
		for _, r := range rows[at:] {
			before.Add(r)
			again.Add(r)
		}
		if look(t, before) != look(t, again) {
			t.Errorf("after %d rows and the rest: another window", at)
		}
	}
}

// TestRelabel: after changes of labels the window is that of the rows with the last labels.
func TestRelabel(t *testing.T) {
	rows := stream(4, 4000, 3, 0.5, 0.3, 0.2)
	w := fill(config, rows)
	r := rand.New(rand.NewPCG(5, 5))
	for range 500 {
		i := r.IntN(len(rows))
		label := fmt.Sprint("class ", r.IntN(5))
		if (w.Relabel(rows[i].Position, label) == Added) != (rows[i].Label != label) {
			t.Fatalf("row %v from %s to %s", rows[i].Position, rows[i].Label, label)
		}
		rows[i].Label = label
	}
	if w.Relabel(Position{Seq: 1 << 40}, "x") == Added {
		t.Error("a row that is not there was relabelled")
	}
	if look(t, w) != look(t, fill(config, rows)) {
		t.Error("another window")
	}
}

// TestBounds: the limits on rows, classes, bytes and age hold, for any classes; the oldest of a class are evicted; a
// rare class keeps no memory of evicted rows of others.
func TestBounds(t *testing.T) {
	rows := stream(6, 60000, 3, 0.995, 0.005)
	c := config
	c.Rows = 2000
	w := fill(c, rows)
	if w.Len() > 2000 || w.Classes() != 2 || w.Largest() < 1600 {
		t.Errorf("%d rows of %d classes, the largest of %d", w.Len(), w.Classes(), w.Largest())
	}
	alive, mean := 0, w.Len()/len(w.blocks)
	for _, b := range w.blocks {
		alive += len(b.rows)
	}
	if alive != w.Len() || mean < 300 {
		t.Errorf("%d rows in blocks, %d in the window; %d a block", alive, w.Len(), mean)
	}
	last := map[string]int{}
	w.All(func(r *Row) bool { last[r.Label]++; return true })
	for i := len(rows) - 1; i >= 0; i-- {
		_, _, there := w.find(rows[i].Position)
		if want := last[rows[i].Label] > 0; there != want {
			t.Fatalf("row %v of %s is in: %v", rows[i].Position, rows[i].Label, there)
		}
		last[rows[i].Label]--
	}
	c.Bytes = 100 << 10
	if w := fill(c, rows); w.Bytes() > c.Bytes || w.Len() < 100 {
		t.Errorf("%d rows of %d bytes", w.Len(), w.Bytes())
	}
	c.Bytes, c.Age = 0, 100*time.Second
	w = fill(c, rows)
	newest := rows[len(rows)-1].Time
	w.All(func(r *Row) bool {
		if newest-r.Time > int64(c.Age) {
			t.Fatalf("row %v is %s old", r.Position, time.Duration(newest-r.Time))
		}
		return true
	})
	c.Age, c.Classes = 0, 3
	w = New(c)
	for i := range 100000 { // labels that occur once replace each other
		w.Add(Row{Position: Position{Seq: uint64(i)}, Label: fmt.Sprint(i), X: []float64{1, 2, 3}})
	}
	for i := range 200 { // and for classes, which do not
		w.Add(Row{Position: Position{Seq: uint64(200000 + i)}, Label: fmt.Sprint("class ", i%5), X: []float64{1, 2, 3}})
	}
	if w.Classes() != 3 || w.Largest() < 30 || !w.Trainable() {
		t.Errorf("%d classes, the largest of %d rows", w.Classes(), w.Largest())
	}
	if len(w.classes.names) > 4 {
		t.Errorf("%d names of 3 classes", len(w.classes.names))
	}
}

// TestJunk: with more labels that occur once than the window has rows, the classes keep most of the window.
func TestJunk(t *testing.T) {
	c := config
	c.Rows, c.Classes = 1000, 1000
	w := New(c)
	for i := range 5000 {
		w.Add(Row{Position: Position{Seq: uint64(i)}, Label: fmt.Sprint("junk", i), X: []float64{1, 2, 3}})
	}
	for i := range 5000 {
		w.Add(Row{Position: Position{Seq: uint64(10000 + i)}, Label: fmt.Sprint("class", i%3), X: []float64{1, 2, 3}})
	}
	if w.Largest() < 290 || w.Len() > 1000 {
		t.Errorf("the largest class has %d of %d rows", w.Largest(), w.Len())
	}
}

// TestJunkTakesATenth: classes of few rows take up to a tenth of a full window.
func TestJunkTakesATenth(t *testing.T) {
	c := config
	c.Rows, c.Classes = 1000, 1000
	w := New(c)
	for i := range 3000 {
		label := fmt.Sprint("class", i%3)
		if i >= 2000 && i%2 == 0 {
			label = fmt.Sprint("junk", i)
		}
		w.Add(Row{Position: Position{Seq: uint64(i)}, Label: label, X: []float64{1, 2, 3}})
	}
	if n := w.SparseRows(); n < 80 || n > 100 {
		t.Errorf("classes of few rows have %d of %d rows", n, w.Len())
	}
}

// TestLongSources: a source of more than 64 bytes is shortened, and differs from others.
func TestLongSources(t *testing.T) {
	var n sourceName
	short := strings.Repeat("s", 64)
	if got := n.intern(short); got != short {
		t.Errorf("64 bytes became %q", got)
	}
	a, b := n.intern(short+"a"), n.intern(short+"b")
	if len(a) != 64 || len(b) != 64 || a == b || a != n.intern(short+"a") || a[:40] != short[:40] {
		t.Errorf("65 bytes became %q and %q", a, b)
	}
}

// TestMemoryOfRows: rows take about the memory that a window counts for them.
func TestMemoryOfRows(t *testing.T) {
	const rows = 20_000
	c := Config{Features: 2, Rows: rows, Classes: 10, Labelled: true}
	heap := func() int64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := heap()
	w := New(c)
	for i := range rows {
		w.Add(Row{Position: Position{Seq: uint64(i + 1)}, Label: "class", X: make([]float64, 2),
			Source: fmt.Sprintf("%064d", i)})
	}
	perRow := (heap() - before) / rows
	runtime.KeepAlive(w)
	if most := c.RowBytes(); perRow > most || perRow < most/2 {
		t.Errorf("a row takes %d bytes, and %d are counted", perRow, most)
	}
}

// TestCut: earlier rows are removed and stay out, and quotas start again.
func TestCut(t *testing.T) {
	rows := stream(8, 9000, 3, 0.7, 0.3)
	w := fill(config, rows)
	cut := w.Back(1000)
	w.Cut(cut)
	if w.Len() != 1000 || w.Add(rows[0]) != Old || w.start != cut {
		t.Errorf("%d rows after the cut", w.Len())
	}
	var after []Row
	for _, r := range rows {
		if r.Compare(cut) >= 0 {
			after = append(after, r)
		}
	}
	if look(t, w) != look(t, fill(config, after)) {
		t.Error("another window than that of the rows after the cut")
	}
}

// TestBlocksOfManyColumns: a block has about four rows for each column of its moments, which are smaller than its rows.
func TestBlocksOfManyColumns(t *testing.T) {
	c := Config{Features: 1, MappedColumns: 1000, Rows: 40000}
	w := fill(c, stream(8, 40000, 1, 1))
	if n := len(w.blocks); n < 5 || n > 20 {
		t.Errorf("%d rows are in %d blocks, want about 10", w.Len(), n)
	}
}

// TestMoments: merged blocks are the moments of the rows that are not held out, and about a fifth is.
func TestMoments(t *testing.T) {
	rows := stream(9, 8000, 3, 0.5, 0.5)
	w := fill(config, rows)
	s, err := w.Newest(t.Context(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	want := moments.New(3, false)
	n, held := 0, 0
	w.All(func(r *Row) bool {
		if r.Compare(s.First) >= 0 {
			n++
			if r.IsHeldOut() {
				held++
			} else if err := want.Add(t.Context(), r.X, []int{int(r.Label[6] - '0')}); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	if n < 5000 || n > 8000 || s.Rows != n-held || held < n/6 || held > n/4 {
		t.Errorf("%d rows, %d of them held out, %d learned", n, held, s.Rows)
	}
	a, err := s.Moments.Summary(true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.Summary(true)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range a.Total.RawSymmetric().Data {
		if d := math.Abs(v - b.Total.RawSymmetric().Data[i]); !(d <= 1e-12) {
			t.Errorf("entry %d of the scatter is off by %g", i, d)
		}
	}
	c := config
	c.Moments = false
	w = fill(c, rows)
	if s := w.NewestRows(300); len(s.X) != 3*s.Rows || len(s.Y) != s.Rows || s.Rows < 200 {
		t.Errorf("%d numbers, %d labels of %d rows", len(s.X), len(s.Y), s.Rows)
	}
}

// TestClassesWithoutRows: a class whose rows have left the window is no class of it.
func TestClassesWithoutRows(t *testing.T) {
	w := New(config)
	for i, label := range []string{"a", "b", "a"} {
		w.Add(Row{Position: Position{Seq: uint64(i + 1)}, Label: label, X: []float64{1, 2, 3}})
	}
	w.Remove(Position{Seq: 2})
	var classes []string
	w.EachClass(func(label string, rows []*Row) { classes = append(classes, fmt.Sprint(label, len(rows))) })
	if !slices.Equal(classes, []string{"a2"}) {
		t.Errorf("classes and their rows: %q", classes)
	}
}

// TestSumsEndWithTheContext: sums of rows that are interrupted are an error.
func TestSumsEndWithTheContext(t *testing.T) {
	w := fill(config, stream(8, 3000, 3, 1))
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := w.Newest(ctx, 2000); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	s := accumulator{features: 3}
	if _, err := s.sum(ctx, w.blocks[0].rows, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a block after the end: %v", err)
	}
}
