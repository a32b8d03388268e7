package pencil

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// pivoted factors a by its upper triangle, in its memory, the largest remaining pivot first, as long as pivots are
// above least: the first rank rows of a become U with U'U = P'AP, where column i of U is column order[i] of a. ctx only
// limits the goroutines.
func pivoted(ctx context.Context, a *mat.SymDense, least float64) (order []int, rank int) {
	raw := a.RawSymmetric()
	n, stride := raw.N, raw.Stride
	row := func(i int) []float64 { return raw.Data[i*stride:][:n] }
	order = linalg.Range(n)
	left := make([]float64, n) // diagonal that remains
	for i := range n {
		left[i] = row(i)[i]
	}
	var swaps [][2]int // of each step
	for from := 0; from < n && rank == from; from += triangleBlock {
		end := min(from+triangleBlock, n)
		for ; rank < end; rank++ {
			j, best := rank, rank
			for i := j + 1; i < n; i++ {
				if left[i] > left[best] {
					best = i
				}
			}
			if !(left[best] > least) { // also NaN
				break
			}
			swaps = append(swaps, [2]int{j, best})
			swapSym(raw, j, best, from)
			left[j], left[best] = left[best], left[j]
			order[j], order[best] = order[best], order[j]
			own := row(j)
			own[j] = math.Sqrt(left[j])
			if rest := n - j - 1; rest > 0 {
				to := blas64.Vector{N: rest, Data: own[j+1:], Inc: 1}
				if j > from {
					above := blas64.General{Rows: j - from, Cols: rest, Stride: stride, Data: raw.Data[from*stride+j+1:]}
					blas64.Gemv(blas.Trans, -1, above, blas64.Vector{N: j - from, Data: raw.Data[from*stride+j:], Inc: stride},
						1, to)
				}
				blas64.Scal(1/own[j], to)
				for i, v := range own[j+1:] {
					left[j+1+i] -= v * v
				}
			}
		}
		if rank == end && end < n {
			panel := tile.Dense(raw.Data[from*stride+end:], end-from, n-end, stride)
			fail.Check(tile.Add(ctx, tile.Sum{C: raw.Data[end*(stride+1):], Stride: stride, Alpha: -1, A: panel, B: panel,
				Upper: true}))
			for i := end; i < n; i++ {
				left[i] = row(i)[i]
			}
		}
	}
	swapLater(raw, swaps, order)
	return order, rank
}

// swapSym exchanges rows and columns i and j >= i of a symmetric matrix, in its upper triangle from row from on.
func swapSym(a blas64.Symmetric, i, j, from int) {
	if i == j {
		return
	}
	at := func(i, j int) *float64 { return &a.Data[i*a.Stride+j] }
	swap := func(x, y *float64) { *x, *y = *y, *x }
	swap(at(i, i), at(j, j))
	for k := from; k < i; k++ {
		swap(at(k, i), at(k, j))
	}
	for k := i + 1; k < j; k++ {
		swap(at(i, k), at(k, j))
	}
	for k := j + 1; k < a.N; k++ {
		swap(at(i, k), at(j, k))
	}
}

// swapLater exchanges the columns of each finished row as the blocks after its own did. order is that of all swaps.
func swapLater(a blas64.Symmetric, swaps [][2]int, order []int) {
	before, at, buffer := slices.Clone(order), make([]int, a.N), make([]float64, a.N)
	for end := (len(swaps) - 1) / triangleBlock * triangleBlock; end > 0; end -= triangleBlock {
		for _, s := range slices.Backward(swaps[end:min(end+triangleBlock, len(swaps))]) {
			before[s[0]], before[s[1]] = before[s[1]], before[s[0]]
		}
		for i, column := range before {
			at[column] = i
		}
		for i := end - triangleBlock; i < end; i++ {
			row := a.Data[i*a.Stride:][:a.N]
			copy(buffer, row)
			for k := end; k < a.N; k++ {
				row[k] = buffer[at[order[k]]]
			}
		}
	}
}
