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
	single := r.columns.numberColumns()
	isIndex, err := r.findIndexes(single)
	if err != nil {
		return err
	}
	r.keepColumns(func(j int) bool {
		if name := r.Features[j]; single[name] && isIndex[j] {
			r.columns.index[name] = "integers that number the rows"
			e.Notef("%s: %q is left out: %s; to learn from it, name the features with --features", r.Name, name,
				r.columns.index[name])
			return false
		}
		return true
	})
	return nil
}

// findIndexes reports which of the single columns are indexes. The integers of an index ascend or descend strictly, or
// the n of them are all different and lie within a range of 2n.
func (r *Rows) findIndexes(single map[string]bool) (found []bool, err error) {
	found = make([]bool, r.M)
	if r.N < minIndexRows {
		return found, nil
	}
	columns := map[int]*integerColumn{}
	for j, name := range r.Features {
		if single[name] {
			columns[j] = &integerColumn{first: map[float64]bool{}, up: true, down: true, low: math.Inf(1), high: math.Inf(-1)}
		}
	}
	if err := r.eachValue(columns, (*integerColumn).add); err != nil {
		return nil, err
	}
	dense := map[int]*integerColumn{} // that may have a number twice
	for j, c := range columns {
		isDense := c.high-c.low < 2*float64(r.N)
		if found[j] = c.up || c.down || isDense; !c.up && !c.down && isDense && c.first == nil {
			dense[j] = c
			c.marks = make([]uint64, int(c.high-c.low)/64+1)
		}
	}
	err = r.eachValue(dense, (*integerColumn).mark)
	for j, c := range columns {
		if c.marks != nil {
			found[j] = dense[j] != nil
		}
	}
	return found, err
}

// eachValue calls see with the values of some columns, and removes a column for which see returns false.
func (r *Rows) eachValue(columns map[int]*integerColumn, see func(*integerColumn, float64) bool) error {
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

// integerColumn is what two passes find out about the integers of a column.
type integerColumn struct {
	first     map[float64]bool // the first ones; nil if there are more than maxSeen
	marks     []uint64         // those that a second pass has seen, from low on
	count     int
	last      float64
	up, down  bool
	low, high float64
}

// maxSeen is the number of integers of a column that are remembered one by one: few columns with a number twice have
// none among so many, and rows that do not fit into memory have more.
const maxSeen = 1 << 16

// add adds a value, and reports whether it is a new integer, as far as that is known.
func (c *integerColumn) add(v float64) bool {
	if v != math.Trunc(v) || c.first[v] { // NaN differs from itself
		return false
	}
	if c.count++; c.count > 1 {
		c.up, c.down = c.up && v > c.last, c.down && v < c.last
	}
	if c.first != nil {
		c.first[v] = true
	}
	if c.count == maxSeen {
		c.first = nil
	}
	c.last = v
	c.low, c.high = min(c.low, v), max(c.high, v)
	return true
}

// mark reports whether the second pass sees a value for the first time.
func (c *integerColumn) mark(v float64) bool {
	at := int(v - c.low)
	word, bit := &c.marks[at/64], uint64(1)<<(at%64)
	isNew := *word&bit == 0
	*word |= bit
	return isNew
}
