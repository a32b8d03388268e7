package pencil

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/tile"
)

// square is the order of the square blocks of an envelope: gonum's own block.
const square = 64

// envelope is the Cholesky factor L L' = P (M + shift I) P' in the envelope of
// an order by levels or by fronts (George and Liu 1981, chapter 4), kept by rows
// of squares: row i of them holds columns from first[i] squares on to the diagonal.
// A band costs n bandwidth^2, and a full matrix no more than a dense factor.
type envelope struct {
	n     int
	order []int // order[i] is the row of M at place i
	place []int // the inverse
	first []int
	rows  []blas64.General
}

// newEnvelope orders m and finds its envelope. It holds no numbers yet.
func newEnvelope(m Entries) *envelope {
	order := cuthillMcKee(m)
	best := envelopeOf(m, order)
	// Where there is much to be saved, and the matrix is not full, the order of King is tried from either end.
	if entries := entriesOf(m); best.flops() > cheapFactor/8 && float64(entries) <= float64(best.n)*float64(best.n)/4 {
		slices.Reverse(order) // begins at an end of each component
		order = frontOrder(m, order)
		for range 2 {
			if e := envelopeOf(m, order); e.flops() < best.flops() {
				best = e
			}
			slices.Reverse(order)
		}
	}
	return best
}

// envelopeOf is the envelope in that order.
func envelopeOf(m Entries, order []int) *envelope {
	n := m.Order()
	e := &envelope{n: n, order: slices.Clone(order), place: make([]int, n)}
	for i, at := range e.order {
		e.place[at] = i
	}
	e.first = make([]int, (n+square-1)/square)
	for i := range e.first {
		e.first[i] = i
	}
	for i, at := range e.order {
		columns, _ := m.Row(at)
		for _, c := range columns {
			e.first[i/square] = min(e.first[i/square], e.place[c]/square)
		}
	}
	return e
}

// entriesOf is how many entries the rows of m have.
func entriesOf(m Entries) (sum int) {
	for i := range m.Order() {
		columns, _ := m.Row(i)
		sum += len(columns)
	}
	return sum
}

// bytes is the memory the factor takes, flops the work to make it.
func (e *envelope) bytes() (sum float64) {
	for i, f := range e.first {
		sum += 8 * square * square * float64(i+1-f)
	}
	return sum
}

func (e *envelope) flops() (sum float64) {
	for i, f := range e.first {
		for j := f; j <= i; j++ {
			sum += 2 * square * square * square * (float64(j-max(f, e.first[j])) + 0.5)
		}
	}
	return sum
}

// factor fills the envelope with the factor of M + shift I.
func (e *envelope) factor(ctx context.Context, m Entries, shift float64) error {
	tiles := len(e.first)
	e.rows = make([]blas64.General, tiles)
	for i, f := range e.first {
		rows := min(square, e.n-i*square)
		width := i*square + rows - f*square
		g := blas64.General{Rows: rows, Cols: width, Stride: width, Data: make([]float64, rows*width)}
		for r := range rows {
			at := i*square + r
			columns, values := m.Row(e.order[at])
			for p, c := range columns {
				if j := e.place[c]; j <= at {
					g.Data[r*width+j-f*square] += values[p]
				}
			}
			g.Data[r*width+at-f*square] += shift
		}
		e.rows[i] = g
	}
	for j := range tiles {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.update(j, j)
		d := e.block(j, j)
		t, ok := lapack64.Potrf(blas64.Symmetric{N: d.Rows, Stride: d.Stride, Data: d.Data, Uplo: blas.Lower})
		if !ok || !finiteDiagonal(t) {
			return fmt.Errorf("%w: order %d, shift %.4g, at row %d of the factor", ErrNotDefinite, e.n, shift, j*square)
		}
		var below []int
		for i := j + 1; i < tiles; i++ {
			if e.first[i] <= j {
				below = append(below, i)
			}
		}
		split(ctx, len(below), len(below)*square*square*square*(j+1-e.first[j]), func(p int) {
			i := below[p]
			e.update(i, j)
			blas64.Trsm(blas.Right, blas.Trans, 1, t, e.block(i, j))
		})
	}
	return nil
}

// block is square j of row i.
func (e *envelope) block(i, j int) blas64.General {
	g := e.rows[i]
	from := (j - e.first[i]) * square
	return blas64.General{Rows: g.Rows, Cols: min(square, g.Cols-from), Stride: g.Stride, Data: g.Data[from:]}
}

// update takes L_ik L_jk' of all k < j from square (i, j).
func (e *envelope) update(i, j int) {
	from := max(e.first[i], e.first[j])
	if from >= j {
		return
	}
	part := func(r int) blas64.General {
		g := e.rows[r]
		return blas64.General{Rows: g.Rows, Cols: (j - from) * square, Stride: g.Stride,
			Data: g.Data[(from-e.first[r])*square:]}
	}
	a, b, c := part(i), part(j), e.block(i, j)
	multiply(alone, tile.Sum{C: c.Data, Stride: c.Stride, Alpha: -1, A: tile.Columns(a.Data, a.Cols, a.Rows, a.Stride),
		B: tile.Columns(b.Data, b.Cols, b.Rows, b.Stride)})
}

// solve sets each row of dst to (M + shift I)^-1 times that row of x. The right sides share each read of the factor.
func (e *envelope) solve(ctx context.Context, dst, x *mat.Dense) {
	b, _ := x.Dims()
	split(ctx, (b+tile.Thin-1)/tile.Thin, 2*b*int(e.bytes()/8), func(p int) {
		from, to := p*tile.Thin, min(b, (p+1)*tile.Thin)
		y := make([]float64, e.n*tile.Thin) // beside each other
		for r := from; r < to; r++ {
			src := x.RawRowView(r)
			for i, at := range e.order {
				y[i*tile.Thin+r-from] = src[at]
			}
		}
		for i := range e.first {
			e.forward(i, y)
		}
		for i := len(e.first) - 1; i >= 0; i-- {
			e.backward(i, y)
		}
		for r := from; r < to; r++ {
			row := dst.RawRowView(r)
			for i, at := range e.order {
				row[at] = y[i*tile.Thin+r-from]
			}
		}
	})
}

// step is how many rows of a triangle are solved between two products.
const step = 8

// forward solves L y = x for the rows of square row i, in place: those before are solved.
func (e *envelope) forward(i int, y []float64) {
	const thin = tile.Thin
	g, before, own := e.rows[i], (i-e.first[i])*square, y[i*square*thin:]
	tile.Along(own, g.Data, g.Rows, before, g.Stride, y[e.first[i]*square*thin:], -1)
	for r := 0; r < g.Rows; r += step {
		lower := g.Data[r*g.Stride+before:]
		rows := min(step, g.Rows-r)
		tile.Along(own[r*thin:], lower, rows, r, g.Stride, own, -1)
		for k := range rows {
			row, l := own[(r+k)*thin:][:thin], lower[k*g.Stride+r:][:k+1]
			for j, v := range l[:k] {
				for c, w := range own[(r+j)*thin:][:thin] {
					row[c] -= v * w
				}
			}
			for c := range row {
				row[c] /= l[k]
			}
		}
	}
}

// backward solves L'y = x for the rows of square row i, those behind being solved, and takes their part from all before.
func (e *envelope) backward(i int, y []float64) {
	const thin = tile.Thin
	g, before, own := e.rows[i], (i-e.first[i])*square, y[i*square*thin:]
	var negative [square * thin]float64
	for r := (g.Rows - 1) / step * step; r >= 0; r -= step {
		lower := g.Data[r*g.Stride+before:]
		rows := min(step, g.Rows-r)
		for k := rows - 1; k >= 0; k-- {
			row, l := own[(r+k)*thin:][:thin], lower[k*g.Stride+r:][:k+1]
			for c := range row {
				row[c] /= l[k]
				negative[(r+k)*thin+c] = -row[c]
			}
			for j, v := range l[:k] {
				other := own[(r+j)*thin:][:thin]
				for c, w := range row {
					other[c] -= v * w
				}
			}
		}
		tile.Across(own, lower, rows, r, g.Stride, negative[r*thin:])
	}
	tile.Across(y[e.first[i]*square*thin:], g.Data, g.Rows, before, g.Stride, negative[:])
}

// cuthillMcKee is the reverse Cuthill-McKee order of m, each component begun at
// an end of it (George and Liu 1979). Ties go to the lower index.
func cuthillMcKee(m Entries) []int {
	n := m.Order()
	degree := make([]int, n)
	sum := 0
	for i := range n {
		columns, _ := m.Row(i)
		degree[i] = len(columns)
		sum += len(columns)
	}
	order := make([]int, 0, n)
	if float64(sum) > float64(n)*float64(n)/4 { // no order makes such a matrix sparse
		for i := range n {
			order = append(order, i)
		}
		return order
	}
	mark := make([]int, n) // the pass that saw the node last
	pass := 0
	done := make([]bool, n)
	// levels appends the nodes around root to out by levels and returns them, with
	// the place where the last level begins and the number of levels.
	levels := func(root int, out []int, sorted bool) (nodes []int, last, depth int) {
		pass++
		out = append(out, root)
		mark[root] = pass
		begin := len(out) - 1
		last = begin
		for from := begin; from < len(out); depth++ {
			last = from
			to := len(out)
			for at := from; at < to; at++ {
				columns, _ := m.Row(out[at])
				start := len(out)
				for _, c := range columns {
					if mark[c] != pass && !done[c] {
						mark[c] = pass
						out = append(out, c)
					}
				}
				if sorted {
					slices.SortFunc(out[start:], func(a, b int) int {
						if degree[a] != degree[b] {
							return degree[a] - degree[b]
						}
						return a - b
					})
				}
			}
			from = to
		}
		return out, last, depth
	}
	var scratch []int
	for seed := range n {
		if done[seed] {
			continue
		}
		root, depth := seed, 0
		for {
			nodes, last, d := levels(root, scratch[:0], false)
			scratch = nodes
			if d <= depth {
				break
			}
			depth = d
			end := nodes[last]
			for _, v := range nodes[last:] {
				if degree[v] < degree[end] || degree[v] == degree[end] && v < end {
					end = v
				}
			}
			root = end
		}
		from := len(order)
		order, _, _ = levels(root, order, true)
		for _, v := range order[from:] {
			done[v] = true
		}
	}
	slices.Reverse(order)
	return order
}
