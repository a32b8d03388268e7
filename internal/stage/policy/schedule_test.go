package policy

import (
	"fmt"
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
				p.Learn(n, false, time.Unix(0, 0))
				rows = min(rows+n, c.MaxRows)
			}
			learn(p.FirstRows())
			p.Fit([]int{0}, rows)
			p.Save()
			fits := 0
			for range 12_000 {
				before := p.RowsUntilDue(rows)
				due := p.Due(rows)
				if isDue := len(due) > 0 || p.CheckpointDue(); isDue != (before == 0) {
					t.Fatalf("after %d rows %d rows until a fit, due are %v", p.Learned, before, due)
				}
				if before == 0 {
					p.Fit(due, rows)
					if fits++; p.CheckpointDue() {
						p.Save()
					}
					continue
				}
				learn(1)
				if after := p.RowsUntilDue(rows); after > before && rows < c.MaxRows {
					t.Fatalf("after %d rows %d rows until a fit, before the last row %d", p.Learned, after, before)
				}
			}
			if fits < 3 && (c.Nested || c.Every.Rows > 0) {
				t.Errorf("%d fits", fits)
			}
		})
	}
}
