package frame

import (
	"testing"

	"github.com/embedd/embedd/model/pencil"
)

// TestExtents compares estimates of memory with bytes computed by hand, for 2,000 rows of 10 features, of which cross-
// validation uses 1,500.
func TestExtents(t *testing.T) {
	e := Extent{Rows: 2000, Features: 10, Params: map[string]string{"k": "7", "t": "auto"}}
	const folds = 1500 * 8 * 8 * 10
	flat, none := e, e
	flat.Features, none.Features = 2, 0
	few := Extent{Rows: 100, Features: 10}
	large := Extent{Rows: 1_000_000, Features: 10}
	for what, c := range map[string][2]int64{
		"a number":             {int64(e.Int("k", 3)), 7},
		"no number":            {int64(e.Int("t", 3)), 3},
		"copies":               {e.Copies(3, 500), 2000 * (3*8*10 + 500)},
		"lists":                {e.Lists(7), 2000*(3*8*10+1000+80*7) + folds},
		"lists of few":         {few.Lists(7), 100*(3*8*10+1000+80*7) + 100*8*8*10},
		"affinities":           {e.Affinities(7), 2000*(6*8*10+2500+50*7) + folds},
		"patches":              {e.Alignment(7), e.Lists(7) + 2000*40*7*7},
		"pairs":                {Pairs(2000, 3), 3 * 4_000_000},
		"a partition":          {Partitioned(2000), 18 * 4_000_000},
		"a factor":             {flat.Factor(20), 6 * 4_000_000 / 10}, // the square root of 20 in 2,000
		"a factor of no edges": {none.Factor(0), 6 * 4_000_000 / 2000},
		"a full factor":        {e.Factor(2000), 4 * 4_000_000},
		"the largest factor":   {large.Factor(20), pencil.FactorBytes},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", what, c[0], c[1])
		}
	}
}
