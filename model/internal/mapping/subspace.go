package mapping

import (
	"math"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// MaxRank is the largest rank at which other rows are compared with n rows of m numbers in coordinates of the subspace
// that these span. At this rank it halves the time, if a kernel costs as much as eight multiplications.
func MaxRank(n, m int) int { return max(0, min(n*(m-8)/(2*(n+m)), 96)) }

// subspace is an orthonormal basis of the subspace that the rows span, r x m; nil if r is above MaxRank, or 0.
func subspace(rows []float64, m int) []float64 {
	most := MaxRank(len(rows)/m, m)
	if most == 0 || span(rows[:(most+1)*m], m, most) == nil { // decides for most models, in less time
		return nil
	}
	return span(rows, m, most)
}

// rankTolerance is the part of a row that is taken as rounding error.
const rankTolerance = 1e-12

// span is a basis by the modified Gram-Schmidt process, which takes the row next that has the largest part outside of
// the basis; nil if it has more than most vectors, or a row exceeds what float64 can square.
func span(rows []float64, m, most int) (basis []float64) {
	outside, sizes := make([]float64, len(rows)), make([]float64, len(rows)/m)
	for i := range sizes {
		row := rows[i*m : (i+1)*m]
		size := linalg.Dot(row, row)
		if size == 0 {
			for _, v := range row {
				if v != 0 {
					return nil
				}
			}
			continue
		}
		if !(size >= 1e-300 && size <= math.MaxFloat64) {
			return nil
		}
		subtract(outside[i*m:(i+1)*m], row, -1/math.Sqrt(size))
		sizes[i] = 1
	}
	for {
		pivot := 0
		for i, size := range sizes {
			if size > sizes[pivot] {
				pivot = i
			}
		}
		if sizes[pivot] <= rankTolerance*rankTolerance {
			return basis
		}
		if len(basis) == most*m {
			return nil
		}
		basis = append(basis, outside[pivot*m:(pivot+1)*m]...)
		next := basis[len(basis)-m:]
		for from := 0; from < len(basis)-m; from += m { // again: the first time left rounding errors
			subtract(next, basis[from:from+m], linalg.Dot(next, basis[from:from+m]))
		}
		size := math.Sqrt(linalg.Dot(next, next))
		for j := range next {
			next[j] /= size
		}
		for i := range sizes {
			row := outside[i*m : (i+1)*m]
			subtract(row, next, linalg.Dot(row, next))
			sizes[i] = linalg.Dot(row, row)
		}
		sizes[pivot] = 0
	}
}

// subtract subtracts x times factor from dst.
func subtract(dst, x []float64, factor float64) {
	for j, v := range x {
		dst[j] -= factor * v
	}
}

// coordinates are those of rows in a basis, n x r.
func coordinates(rows []float64, m int, basis *tile.Table) []float64 {
	r := basis.Len()
	at, row := make([]float64, len(rows)/m*r), make([]float64, basis.Width())
	for i := range len(rows) / m {
		basis.Row(row, rows[i*m:(i+1)*m])
		copy(at[i*r:], row[:r])
	}
	return at
}
