package tile

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Square is the order of blocks that stay packed between products.
const Square = 3 * panel

// PackedSquare is a block as panels: 24 of its rows side by side, column after column; then the next 24.
type PackedSquare [Square * Square]float64

// At is the index of an entry.
func (*PackedSquare) At(row, column int) int {
	return row/panel*panel*Square + column*panel + row%panel
}

// Panels are its panels of 24 rows each, column after column.
func (s *PackedSquare) Panels() [3][]float64 {
	const size = Square * panel // numbers of a panel
	return [3][]float64{s[:size:size], s[size : 2*size : 2*size], s[2*size:]}
}

// SubtractProduct computes c -= A B'. An entry of A B' is summed by one fused multiply-add per column, in order, from
// zero, and then subtracted.
func (s *PackedSquare) SubtractProduct(a, b *PackedSquare) {
	left, right, own := a.Panels(), b.Panels(), s.Panels()
	for p, rows := range left {
		for i := 0; i < Square; i += blockRows {
			update(Square, right[i/panel][i%panel:], rows, own[p][i*panel:], panel, -1, rows)
		}
	}
}

// Divide computes s = S L'^-1 for a lower triangle, which is given in both forms.
func (s *PackedSquare) Divide(l *PackedSquare, t blas64.Triangular) {
	left := l.Panels()
	for _, own := range s.Panels() {
		for p, rows := range left {
			first := p * panel
			for i := first; i < first+panel && p > 0; i += blockRows {
				update(first, rows[i-first:], own, own[i*panel:], panel, -1, own)
			}
			part := t
			part.N, part.Data = panel, t.Data[first*(t.Stride+1):]
			blas64.Trsm(blas.Left, blas.NoTrans, 1, part, blas64.General{Rows: panel, Cols: panel, Stride: panel,
				Data: own[first*panel:]})
		}
	}
}
