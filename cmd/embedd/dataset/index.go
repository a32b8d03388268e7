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
	if err := r.scan(columns, (*numbers).add); err != nil {
		return nil, err
	}
	dense := map[int]*numbers{} // that may have a number twice
	for j, c := range columns {
		isDense := c.high-c.low < 2*float64(r.N)
		if found[j] = c.up || c.down || isDense; !c.up && !c.down && isDense && c.seen == nil {
			dense[j] = c
			c.bits = make([]uint64, int(c.high-c.low)/64+1)
		}
	}
	err = r.scan(dense, (*numbers).mark)
	for j, c := range columns {
		if c.bits != nil {
			found[j] = dense[j] != nil
		}
	}
	return found, err
}

// scan passes the values of some columns to see, and removes a column when see returns false for it.
func (r *Rows) scan(columns map[int]*numbers, see func(*numbers, float64) bool) error {
	const block = 1024 // rows read at a time
	for from := 0; from < r.N && len(columns) > 0; from += block {
		rows := min(block, r.N-from)
		var x []float64
		if r.Stored == nil {
			x = r.X[from*r.M : (from+rows)*r.M]
		} else {
			x = make([]float64, rows*r.M)
			if err := r.Stored.ReadRows(x, from); err != nil {
				return err
			}
		}
		for j, c := range columns {
			for i := range rows {
				if !see(c, x[i*r.M+j]) {
					delete(columns, j)
					break
				}
			}
		}
	}
	return nil
}

// numbers are the integers of a column, each once.
type numbers struct {
	seen      map[float64]bool // the first ones; nil if there are more than maxSeen
	bits      []uint64         // those that a second pass has seen, from low on
	count     int
	last      float64
	up, down  bool
	low, high float64
}

// maxSeen is the number of integers of a column that are remembered one by one: few columns with a number twice have
// none among so many, and rows that do not fit into memory have more.
const maxSeen = 1 << 16

// add adds a value, and reports whether it is a new integer, as far as that is known.
func (c *numbers) add(v float64) bool {
	if v != math.Trunc(v) || c.seen[v] { // NaN differs from itself
		return false
	}
	if c.count++; c.count > 1 {
		c.up, c.down = c.up && v > c.last, c.down && v < c.last
	}
	if c.seen != nil {
		c.seen[v] = true
	}
	if c.count == maxSeen {
		c.seen = nil
	}
	c.last = v
	c.low, c.high = min(c.low, v), max(c.high, v)
	return true
}

// mark reports whether the second pass sees a value for the first time.
func (c *numbers) mark(v float64) bool {
	at := int(v - c.low)
	word, bit := &c.bits[at/64], uint64(1)<<(at%64)
	isNew := *word&bit == 0
	*word |= bit
	return isNew
}
