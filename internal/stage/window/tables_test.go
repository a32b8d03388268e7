package window

import (
	"crypto/sha256"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestStretchesOfMessages: a stretch has about 16 rows: several messages of fewer, or a piece of a message of more. Its
// neighbourhood is from the beginning of the stretch before it to the end of the one after it.
func TestStretchesOfMessages(t *testing.T) {
	for _, c := range []struct {
		rows   int
		pieces uint64
		size   int // rows of a piece
		shift  int
	}{
		{0, 0, 0, 4}, {1, 0, 0, 4}, {2, 0, 0, 3}, {3, 0, 0, 2}, {4, 0, 0, 2}, {5, 0, 0, 1}, {8, 0, 0, 1}, {9, 0, 0, 0},
		{15, 0, 0, 0}, {16, 1, 16, 0}, {23, 1, 23, 0}, {24, 2, 12, 0}, {39, 2, 20, 0}, {40, 3, 14, 0}, {100, 6, 17, 0},
	} {
		s := stretchAt(Position{Seq: 100}, c.rows)
		if s.pieces != c.pieces || s.rows != c.size || s.shift != c.shift {
			t.Errorf("messages of %d rows: %+v", c.rows, s)
		}
	}
	at := func(seq uint64, row int) Position { return Position{Created: 7, Seq: seq, Row: row} }
	for _, c := range []struct {
		p        Position
		rows     int
		index    uint64
		from, to Position
	}{
		{at(1, 0), 1, 0, at(0, 0), at(32, 0)}, {at(15, 0), 1, 0, at(0, 0), at(32, 0)}, {at(16, 0), 1, 1, at(0, 0), at(48, 0)},
		{at(40, 0), 1, 2, at(16, 0), at(64, 0)}, {at(9, 3), 5, 4, at(6, 0), at(12, 0)},
		{at(9, 3), 12, 9, at(8, 0), at(11, 0)},
		{at(0, 3), 16, 0, at(0, 0), at(1, 16)}, {at(5, 3), 16, 5, at(4, 0), at(6, 16)},
		{at(5, 13), 40, 15, at(4, 28), at(5, 28)}, {at(5, 14), 40, 16, at(5, 0), at(5, 42)},
		{at(5, 39), 40, 17, at(5, 14), at(6, 14)}, {at(5, 99), 40, 17, at(5, 14), at(6, 14)},
		{at(0, 0), 40, 0, at(0, 0), at(0, 28)},
	} {
		s := stretchAt(c.p, c.rows)
		if from, to := s.neighbourhood(c.p); s.index != c.index || from != c.from || to != c.to {
			t.Errorf("%+v of messages of %d rows: stretch %d from %+v to %+v", c.p, c.rows, s.index, from, to)
		}
	}
	if share(0) != 0 || share(0.5) != 1<<63 || share(0.25) != 1<<62 || share(1) != math.MaxUint64 ||
		share(2) != math.MaxUint64 {
		t.Error("shares of the line")
	}
}

// TestPositionsInOrder: positions are ordered by the creation of their stream, then by message, then by row.
func TestPositionsInOrder(t *testing.T) {
	ordered := []Position{{0, 9, 9}, {1, 0, 9}, {1, 1, 0}, {1, 1, 1}, {1, 2, 0}, {2, 0, 0}}
	for i, p := range ordered {
		for k, q := range ordered {
			if got := p.Compare(q); got < 0 != (i < k) || got > 0 != (i > k) {
				t.Errorf("%+v with %+v: %d", p, q, got)
			}
		}
	}
}

// TestCountsOfClasses: classes are counted by their rows, and their names are sorted without those of no rows.
func TestCountsOfClasses(t *testing.T) {
	c := classesOfSizes(3, 10, 2, 4)
	c.summedRows = make([]int, 4)
	if c.below(4) != 5 || c.below(3) != 2 || c.ofAtLeast(4) != 2 || c.ofAtLeast(2) != 4 || c.nonEmpty != 4 {
		t.Errorf("below 4: %d, of at least 4: %d", c.below(4), c.ofAtLeast(4))
	}
	names, to := c.sorted([]int{2, 0, 1, 0})
	if !slices.Equal(names, []string{"class 0", "class 2"}) || !slices.Equal(to, []int{0, -1, 1, -1}) {
		t.Errorf("classes %v at %v", names, to)
	}
}

// TestReadSummaryOfMessages: the rows of a summary count as those of messages of its mean size, and a text that is too
// short for a header is damaged, also with a valid digest.
func TestReadSummaryOfMessages(t *testing.T) {
	rows := messages(5, 1, 60)[0]
	s, err := ReadSummary(bytesOf(t, t.Context(), summed, rows))
	if err != nil {
		t.Fatal(err)
	}
	want := s.Read.Rows / int(s.Last-s.First+1)
	for i := range s.Rows {
		if got := s.Rows[i].MessageRows; got != want || want < 4 || want > 15 {
			t.Fatalf("row %d is of a message of %d rows, want %d", i, got, want)
		}
	}
	for n := range 8 {
		body := append([]byte(summaryMagic), make([]byte, n)...)
		sum := sha256.Sum256(body)
		_, err := ReadSummary(append(body, sum[:]...))
		if !errors.Is(err, errDamaged) || !strings.HasSuffix(err.Error(), "it does not begin with the magic bytes") {
			t.Errorf("%d bytes after the magic ones: %v", n, err)
		}
	}
}

// TestLentRows: fits see the rows of a class that are held out while fewer than half of its rows, and than ten, are
// not; then they are held out again.
func TestLentRows(t *testing.T) {
	for _, c := range []struct {
		fitted, heldOut int
		lent            bool
	}{{0, 1, true}, {1, 1, false}, {1, 2, true}, {4, 6, true}, {5, 6, true}, {5, 5, false}, {9, 30, true}, {10, 30, false},
		{10, 9, false}} {
		k := classesOfSizes(c.fitted + c.heldOut)
		k.summedRows = make([]int, 1)
		for i, r := range k.rows[0] {
			r.heldOut = i >= c.fitted
		}
		changed := 0
		of := []tally{{fitted: int32(c.fitted), heldOut: int32(c.heldOut)}}
		k.lend(of, func(*Row) { changed++ })
		if want := map[bool]int{true: c.heldOut}[c.lent]; changed != want || k.lent[0] != c.lent {
			t.Errorf("%+v: %d rows are lent", c, changed)
		}
		if k.lend(of, func(*Row) { changed = -1 }); changed < 0 {
			t.Errorf("%+v: rows change again", c)
		}
		changed = 0
		k.lend([]tally{{fitted: 20, heldOut: int32(c.heldOut)}}, func(*Row) { changed++ })
		if want := map[bool]int{true: c.heldOut}[c.lent]; changed != want || k.lent[0] || k.rows[0][len(k.rows[0])-1].lent {
			t.Errorf("%+v: %d rows are held out again", c, changed)
		}
	}
}

// TestImputer: missing features get the mean of the rows that enter fits, or of other rows of their block; without any
// nothing is imputed.
func TestImputer(t *testing.T) {
	nan := math.NaN()
	row := func(isMissing bool, x ...float64) *Row { return &Row{missing: isMissing, X: x} }
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
	aside := &Row{missing: true, excluded: outlier, X: []float64{nan, 1}}
	if p := newImputer([]*Row{row(false, 1, 2), aside}, nil); p.mean != nil {
		t.Errorf("means %v without a missing feature", p.mean)
	}
}
