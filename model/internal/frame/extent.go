package frame

import (
	"math"
	"strconv"

	"github.com/embedd/embedd/model/pencil"
)

// Extent is what a fit has to do with: it decides how much memory the fit holds beside its rows.
type Extent struct {
	Rows     int
	Largest  int // rows of the class that has most; all, where that is not known
	Features int
	Dim      int // outputs
	Params   map[string]string
}

// Int is a parameter that is a number; or stands for one that the fit settles.
func (e Extent) Int(name string, or int) int {
	n, err := strconv.Atoi(e.Params[name])
	if err != nil {
		return or
	}
	return n
}

// Copies are so many of the rows, and as many bytes more of each row.
func (e Extent) Copies(count, each int) int64 {
	return int64(e.Rows) * (8*int64(count)*int64(e.Features) + int64(each))
}

// Lists are lists of k neighbours of each row, and the graph that is made of them, beside what any fit holds that looks
// at rows.
func (e Extent) Lists(k int) int64 { return e.Copies(3, 1000+80*k) + e.folds() }

// folds is what cross-validation of a parameter holds: copies of the rows that it looks at, whatever else there is.
func (e Extent) folds() int64 {
	e.Rows = min(e.Rows, MaxValidated)
	return e.Copies(8, 0)
}

// Factor is that of a sparse matrix of rows x rows, which joins each row with so many others. It has as much of a row as
// lies between two fronts that go through all rows: a surface of n^(1-1/m) rows where they fill m dimensions, as thick as
// far as a row is joined. Six bytes for each of these were measured, of uniform and of normal rows of 1 to 16 features;
// rows that lie along fewer dimensions than they have features take less.
func (e Extent) Factor(joined int) int64 {
	n := float64(e.Rows)
	bytes := 6 * n * n * math.Pow(float64(max(joined, 1))/n, 1/float64(max(e.Features, 1)))
	return int64(min(bytes, float64(Pairs(e.Rows, 4)), pencil.FactorBytes))
}

// Pairs is so many bytes for each pair of n.
func Pairs(n int, bytes int64) int64 { return bytes * int64(n) * int64(n) }

// Affinities are what the scatters of lfda hold: rows of a class beside all others of it.
func (e Extent) Affinities(k int) int64 { return e.Copies(6, 2500+50*k) + e.folds() }

// HeldBytes is the most memory that a fit of the method holds in addition to its rows.
func (m *Method) HeldBytes(e Extent) int64 {
	if m.Held == nil {
		return 0
	}
	return m.Held(e)
}
