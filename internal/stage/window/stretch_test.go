package window

import (
	"math"
	"testing"
)

// TestHoldOutByStretch: for any size of messages the share of held-out rows is that of the configuration, also of few
// rows, and held-out rows are together; a recreated stream holds out the same ones.
func TestHoldOutByStretch(t *testing.T) {
	for _, rows := range []int{1, 2, 5, 9, 15, 16, 17, 40, 250, 1000} {
		for _, holdout := range []float64{0.05, 0.2, 0.3, 0.5} {
			var held []bool
			for seq := uint64(1); len(held) < 50000; seq++ {
				for i := range rows {
					r := Row{Position: Position{Seq: seq, Row: i}, MessageRows: rows}
					again := Row{Position: Position{Created: 99, Seq: seq, Row: i}, MessageRows: rows}
					held = append(held, r.stretch().isHeldOut(drawLimit(holdout)))
					if again.stretch().isHeldOut(drawLimit(holdout)) != held[len(held)-1] {
						t.Fatal("the creation time of the stream decides")
					}
				}
			}
			all, runs, least, most := 0, 0, 1000, 0
			for i, h := range held {
				if h {
					all++
				}
				if h && (i == 0 || !held[i-1]) {
					runs++
				}
				if i%1000 == 999 {
					n := 0
					for _, h := range held[i-999 : i+1] {
						if h {
							n++
						}
					}
					least, most = min(least, n), max(most, n)
				}
			}
			if s := float64(all) / float64(len(held)); !(math.Abs(s-holdout) <= holdout/20) {
				t.Errorf("messages of %d rows: a share of %.3f is held out, not %g", rows, s, holdout)
			}
			if mean := float64(all) / float64(runs); mean < 8 || mean > 64 {
				t.Errorf("messages of %d rows, %g: held-out rows are %.1f in a row", rows, holdout, mean)
			}
			if want := 1000 * holdout; float64(least) < want-64 || float64(most) > want+64 {
				t.Errorf("messages of %d rows: %d to %d of 1,000 rows are held out, not %g", rows, least, most, want)
			}
		}
	}
}

// TestNeighbourhood: the neighbourhood of a row has at least a stretch of rows before and after its own, and at most
// four in all.
func TestNeighbourhood(t *testing.T) {
	for _, rows := range []int{1, 2, 5, 9, 15, 16, 17, 40, 250, 1000} {
		var all []Row
		for seq := uint64(1); len(all) < 4000; seq++ {
			for i := range rows {
				all = append(all, Row{Position: Position{Created: 5, Seq: seq, Row: i}, MessageRows: rows})
			}
		}
		for at := 100; at < len(all)-100; at++ {
			from, to := all[at].Neighbourhood()
			before, after := 0, 0
			for i := at - 1; i >= 0 && all[i].Compare(from) >= 0; i-- {
				before++
			}
			for i := at + 1; i < len(all) && all[i].Compare(to) < 0; i++ {
				after++
			}
			if from.Created != 5 || to.Created != 5 || min(before, after) < 8 || before+after >= 64 {
				t.Fatalf("messages of %d rows, row %d of %d: %d rows before it and %d after it are near", rows, all[at].Row,
					all[at].Seq, before, after)
			}
		}
	}
	first := Row{MessageRows: 1}
	if from, to := first.Neighbourhood(); from != (Position{}) || to.Seq != 32 {
		t.Errorf("the first row is near %v to %v", from, to)
	}
}

// TestAbsentClasses: a suffix has the newest rows of classes that are absent in it, and a cut keeps them until newer
// ones replace them; the window is the same if it is filled again.
func TestAbsentClasses(t *testing.T) {
	c := config
	c.Rows, c.Age = 6000, 0
	var rows []Row
	for i := range 3000 { // classes in runs of 1,000 rows
		rows = append(rows, Row{Position: Position{Created: 1, Seq: uint64(i/10 + 1), Row: i % 10}, MessageRows: 10,
			Label: string(rune('a' + i/1000)), X: []float64{float64(i), float64(i % 7), 1}})
	}
	w := fill(c, rows)
	w.Sift()
	summed, err := w.Newest(t.Context(), 500)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Suffix{"rows": w.NewestRows(500), "moments": summed} {
		if len(s.Classes) != 3 || s.Counts[0] != 30 || s.Counts[1] != 30 || s.Counts[2] < 300 ||
			s.Rows != s.Counts[0]+s.Counts[1]+s.Counts[2] {
			t.Errorf("%s: a suffix in a run of one class has %d rows of %v: %v", name, s.Rows, s.Classes, s.Counts)
		}
	}
	cut := rows[2500].Position
	w.Cut(cut)
	again := New(c)
	again.Cut(cut)
	for _, r := range rows {
		again.Add(r)
	}
	for _, x := range []*Window{w, again} {
		x.Sift()
		if n := x.Len(); n != 560 || x.Classes() != 3 {
			t.Errorf("%d rows of %d classes after a cut", n, x.Classes())
		}
	}
	if look(t, w) != look(t, again) {
		t.Error("the window is another one if it is filled again")
	}
	for i := range 90 { // class a comes again
		w.Add(Row{Position: Position{Created: 1, Seq: uint64(400 + i)}, MessageRows: 1, Label: "a", X: []float64{1, 2, 3}})
	}
	if w.Sift(); w.Len() != 620 {
		t.Errorf("%d rows after the kept ones of a class were replaced", w.Len())
	}
}

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
	if drawLimit(0) != 0 || drawLimit(0.5) != 1<<63 || drawLimit(0.25) != 1<<62 || drawLimit(1) != math.MaxUint64 ||
		drawLimit(2) != math.MaxUint64 {
		t.Error("shares of the line")
	}
}
