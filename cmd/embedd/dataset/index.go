package dataset

import (
	"math"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// minIndexRows is the number of rows from which a column may count as an index by its values: in a few rows, counts and
// codes ascend by chance.
const minIndexRows = 20

// dropIndexes removes columns that number the rows: integers that ascend or descend strictly, or are as good as all
// numbers of a range. Files are often sorted by class, and then the number of a row reveals its class. The index that
// pandas stored is no feature of "*" at all, here and in messages.
func (r *Rows) dropIndexes(e *cli.Env) error {
	single := r.columns.single()
	numbering, err := r.numbering(single)
	if err != nil {
		return err
	}
	r.keep(func(j int) bool {
		if name := r.Features[j]; single[name] && numbering[j] {
			r.columns.index[name] = "integers that number the rows"
			e.Notef("%s: %q is left out: %s; to learn from it, name the features with --features", r.Name, name,
				r.columns.index[name])
			return false
		}
		return true
	})
	return nil
}

// numbering reports which of the single columns have integers that ascend or descend strictly, or n different ones in
// a range of 2n.
func (r *Rows) numbering(single map[string]bool) (found []bool, err error) {
	found = make([]bool, r.M)
	if r.N < minIndexRows {
		return found, nil
	}
	columns := map[int]*numbers{}
	for j, name := range r.Features {
		if single[name] {
			columns[j] = &numbers{seen: map[float64]bool{}, up: true, down: true, low: math.Inf(1), high: math.Inf(-1)}
		}
	}
	const block = 1024 // rows read at a time
	for from := 0; from < r.N && len(columns) > 0; from += block {
		rows := min(block, r.N-from)
		var x []float64
		if r.Stored == nil {
			x = r.X[from*r.M : (from+rows)*r.M]
		} else {
			x = make([]float64, rows*r.M)
			if err := r.Stored.ReadRows(x, from); err != nil {
				return nil, err
			}
		}
		for j, c := range columns {
			for i := range rows {
				if !c.add(x[i*r.M+j]) {
					delete(columns, j)
					break
				}
			}
		}
	}
	for j, c := range columns {
		found[j] = c.up || c.down || c.high-c.low < 2*float64(r.N)
	}
	return found, nil
}

// numbers are the integers of a column, each once.
type numbers struct {
	seen      map[float64]bool
	last      float64
	up, down  bool
	low, high float64
}

// add reports whether a value is an integer that is new.
func (c *numbers) add(v float64) bool {
	if v != math.Trunc(v) || c.seen[v] { // NaN differs from itself
		return false
	}
	if len(c.seen) > 0 {
		c.up, c.down = c.up && v > c.last, c.down && v < c.last
	}
	c.seen[v], c.last = true, v
	c.low, c.high = min(c.low, v), max(c.high, v)
	return true
}
