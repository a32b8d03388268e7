package frame

import (
	"math"
	"strconv"

	"github.com/embedd/embedd/model/pencil"
)

// Extent is the size of a fit's input, which decides how much memory the fit holds.
type Extent struct {
	Rows     int
	Largest  int // rows of the largest class; all, if not known
	Features int
	Dim      int // outputs
	Params   map[string]string
}

// Int is a parameter that is a number; or is the value if it is not one.
func (e Extent) Int(name string, or int) int {
	n, err := strconv.Atoi(e.Params[name])
	if err != nil {
		return or
	}
	return n
}

// Copies is the memory of count copies of the rows, plus each bytes per row.
func (e Extent) Copies(count, each int) int64 {
	return int64(e.Rows) * (8*int64(count)*int64(e.Features) + int64(each))
}

// Lists is the memory of lists of k neighbours of each row, and of the graph made of them, in addition to that of any
// method that uses rows.
func (e Extent) Lists(k int) int64 { return e.Copies(3, 1000+80*k) + e.folds() }

// folds is what cross-validation of a parameter holds: copies of the rows that it uses.
func (e Extent) folds() int64 {
	e.Rows = min(e.Rows, MaxValidated)
	return e.Copies(8, 0)
}

// Factor is the memory of the factor of a sparse matrix of rows x rows, which joins each row with this many others.
// Each row of the factor spans two fronts through all rows: a surface of n^(1-1/m) rows if the rows fill m dimensions,
// as thick as a row's edges are long. Six bytes for each of these were measured for uniform and normal rows of 1 to 16
// features; rows that lie along fewer dimensions than they have features take less.
func (e Extent) Factor(joined int) int64 {
	n := float64(e.Rows)
	bytes := 6 * n * n * math.Pow(float64(max(joined, 1))/n, 1/float64(max(e.Features, 1)))
	return int64(min(bytes, float64(Pairs(e.Rows, 4)), pencil.FactorBytes))
}

// Pairs is this many bytes for each pair of n.
func Pairs(n int, bytes int64) int64 { return bytes * int64(n) * int64(n) }

// Affinities is the memory of the scatters of lfda: the rows of a class with all others of the class.
func (e Extent) Affinities(k int) int64 { return e.Copies(6, 2500+50*k) + e.folds() }

// Partitioned is the memory of a partition of n rows: geodesics and their ratios to distances or, afterwards, the
// tangent vectors of the patches and their factor.
func Partitioned(n int) int64 { return Pairs(n, 18) }

// Alignment is the memory of patches of k rows, where each row is in k of them, and of their matrix.
func (e Extent) Alignment(k int) int64 { return e.Lists(k) + e.Copies(0, 40*k*k) }
