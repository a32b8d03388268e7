package dataset

import (
	"math"
	"slices"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
)

// minIndexRows is the number of rows from which a column may count as an index by its values: in a few rows, counts and
// codes ascend by chance.
const minIndexRows = 20

// dropIndexes removes columns that number the rows: those that pandas stored as an index, and columns of integers that
// ascend or descend strictly, or whose values are as good as all numbers of a range. Files are often sorted by class,
// and then the number of a row tells its class.
func (r *Rows) dropIndexes(e *cli.Env, in *file.Reader) {
	single := map[string]bool{}
	for _, f := range r.columns.fields {
		single[f.Name] = f.Feature && f.Holds == "number"
	}
	stored := in.Indexes()
	r.keep(func(j int) bool {
		name := r.Features[j]
		switch {
		case !single[name]:
			return true
		case slices.Contains(stored, name):
			r.columns.index[name] = "the index that pandas stored"
		case r.numbersRows(j):
			r.columns.index[name] = "integers that number the rows"
		default:
			return true
		}
		e.Notef("%s: %q is left out: %s; to learn from it, name the features with --features", r.Name, name,
			r.columns.index[name])
		return false
	})
}

// numbersRows reports whether column j has integers that ascend or descend strictly, or n different ones in a range of
// 2n.
func (r *Rows) numbersRows(j int) bool {
	if r.N < minIndexRows {
		return false
	}
	seen := make(map[float64]bool, r.N)
	up, down, low, high := true, true, math.Inf(1), math.Inf(-1)
	for i := range r.N {
		v := r.X[i*r.M+j]
		if v != math.Trunc(v) || seen[v] { // NaN differs from itself
			return false
		}
		if i > 0 {
			before := r.X[(i-1)*r.M+j]
			up, down = up && v > before, down && v < before
		}
		seen[v] = true
		low, high = min(low, v), max(high, v)
	}
	return up || down || high-low < 2*float64(r.N)
}
