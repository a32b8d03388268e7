package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/embedd/embedd/plugin/spec"
)

// TestRowsUntilDue: the number of rows until the next fit is 0 exactly when a fit is due, and does not rise
// while rows arrive.
func TestRowsUntilDue(t *testing.T) {
	for _, c := range []Config{
		{Features: 4, Nested: true, MaxRows: 6000},
		{Features: 40, Nested: true, MaxRows: 20_000, Every: spec.Every{Rows: 700}},
		{Features: 4, MaxRows: 6000, Every: spec.Every{Rows: 1000}},
		{Features: 100, MaxRows: 3000},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			p, rows := Schedule{Config: c}, 0
			learn := func(n int) {
				p.RecordRows(n, false, time.Unix(0, 0))
				rows = min(rows+n, c.MaxRows)
			}
			learn(p.FirstRows())
			p.RecordFits([]int{0}, rows)
			p.RecordCheckpoint()
			fits := 0
			for range 12_000 {
				before := p.RowsUntilDue(rows, 0)
				due := p.Due(rows, 0)
				if isDue := len(due) > 0 || p.CheckpointDue(); isDue != (before == 0) {
					t.Fatalf("after %d rows %d rows until a fit, due are %v", p.Learned, before, due)
				}
				if before == 0 {
					p.RecordFits(due, rows)
					if fits++; p.CheckpointDue() {
						p.RecordCheckpoint()
					}
					continue
				}
				learn(1)
				if after := p.RowsUntilDue(rows, 0); after > before && rows < c.MaxRows {
					t.Fatalf("after %d rows %d rows until a fit, before the last row %d", p.Learned, after, before)
				}
			}
			if fits < 3 && (c.Nested || c.Every.Rows > 0) {
				t.Errorf("%d fits", fits)
			}
			if until := p.RowsUntilDue(rows, 0); !c.Nested && c.Every.Rows == 0 && until != math.MaxInt {
				t.Errorf("a full window is fitted again after %d rows", until)
			}
			p.RecordFits([]int{0}, rows)
			if fresh, never := p.IsFresh(0), p.IsFresh(17); !fresh || never {
				t.Errorf("after a fit the window is fresh: %v; a suffix that was never fitted: %v", fresh, never)
			}
			if learn(1); p.IsFresh(0) {
				t.Error("a row after the fit the window is fresh")
			}
		})
	}
}

// TestClassDue: the whole window is fitted again for a new class when the rows since have doubled, from as many as a
// fit costs to a quarter of the window, and never without a new class.
func TestClassDue(t *testing.T) {
	for _, c := range []struct {
		name               string
		class, since, last int // last: rows since the class at the last fit
		features, rows     int
		nested, want       bool
	}{
		{"none", 0, 100, 0, 10, 1000, true, false},
		{"63 rows", 500, 63, 0, 10, 1000, true, false}, {"64 rows", 500, 64, 0, 10, 1000, true, true},
		{"fewer than columns", 500, 99, 0, 100, 1000, true, false},
		{"as many as columns", 500, 100, 0, 100, 1000, true, true},
		{"a quarter", 500, 250, 0, 10, 1000, true, true}, {"more", 500, 251, 0, 10, 1000, true, false},
		{"doubled", 500, 200, 100, 10, 1000, true, true}, {"not yet", 500, 199, 100, 10, 1000, true, false},
		{"a sixteenth of rows", 500, 62, 0, 10, 1000, false, true}, {"less", 500, 61, 0, 10, 1000, false, false},
	} {
		p := &Schedule{Config: Config{Features: c.features, Nested: c.nested}, NewestClassAt: c.class,
			Learned: c.class + c.since}
		if got := p.classDue(SuffixFit{At: c.class + c.last}, c.rows); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
