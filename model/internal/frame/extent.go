package frame

import (
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
func (e Extent) Lists(k int) int64 { return e.Copies(4, 1000+80*k) }

// Factor is that of a sparse matrix of rows x rows, which fills in where the rows do not lie along a few dimensions.
func (e Extent) Factor() int64 { return min(Pairs(e.Rows, 4), pencil.FactorBytes) }

// Pairs is so many bytes for each pair of n.
func Pairs(n int, bytes int64) int64 { return bytes * int64(n) * int64(n) }

// Affinities are what the scatters of lfda hold: rows of a class beside all others of it.
func (e Extent) Affinities(k int) int64 { return e.Copies(9, 2500+50*k) }
