package pencil

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// square is the order of the square blocks of an envelope.
const square = tile.Square

const (
	// cheapFactor is the work, in flops, below which a factor is made at the small end without trying products first.
	cheapFactor = 4e9
	// FactorBytes is the maximum memory of the factor of a sparse matrix.
	FactorBytes = 1 << 30
)

// envelope is the Cholesky factor L L' = P (M + shift I) P' in the envelope of an order by levels or by fronts (George
// and Liu 1981, chapter 4), stored by square blocks without those that are zero, as far as the blocks of M and their
// fill-in show. A band costs n bandwidth^2, and a full matrix no more than a dense factor.
type envelope struct {
	n     int
	order []int // order[i] is the row of M at position i
	place []int // the inverse
	// For each block row, the columns of the nonzero blocks before the diagonal, ascending; for each block column, the
	// rows of those after it.
	columns, below [][]int
	squares        [][]tile.PackedSquare // of columns
	diagonal       []blas64.Triangular
}

// newEnvelope orders m and finds its envelope, without values. If ctx ends, it returns the best one found until then.
func newEnvelope(ctx context.Context, m Entries) *envelope {
	order := cuthillMcKee(m)
	best := envelopeOf(m, order)
	// If much can be saved and the matrix is not dense, try the order of King from either end.
	if entries := entriesOf(m); best.flops() > cheapFactor/8 && float64(entries) <= float64(best.n)*float64(best.n)/4 {
		slices.Reverse(order) // starts at an end of each component
		order = frontOrder(m, order)
		for range 2 {
			if ctx.Err() != nil {
				return best
			}
			if e := envelopeOf(m, order); e.flops() < best.flops() {
				best = e
			}
			slices.Reverse(order)
		}
		order = best.order
		for _, squares := range []int{1, 2, 4, 8} {
			if ctx.Err() != nil {
				return best
			}
			if e := envelopeOf(m, bordered(m, order, squares*square)); e.flops() < best.flops() {
				best = e
			}
		}
	}
	return best
}

// bordered moves count rows behind all others: those that reach back farthest. A few edges join clusters, and the row
// of such an edge fills everything between its ends, and so do the rows in its block; behind all others it fills only
// itself.
func bordered(m Entries, order []int, count int) []int {
	n := len(order)
	place, back := make([]int, n), make([]int, n)
	for i, at := range order {
		place[at] = i
	}
	for i, at := range order {
		columns, _ := m.Row(at)
		for _, c := range columns {
			back[i] = max(back[i], i-place[c])
		}
	}
	far := linalg.Range(n)
	slices.SortStableFunc(far, func(a, b int) int { return back[b] - back[a] })
	border := make([]bool, n)
	for _, i := range far[:min(count, n)] {
		border[i] = true
	}
	out := make([]int, 0, n)
	for _, last := range []bool{false, true} {
		for i, at := range order {
			if border[i] == last {
				out = append(out, at)
			}
		}
	}
	return out
}

// envelopeOf is the envelope in this order.
func envelopeOf(m Entries, order []int) *envelope {
	n := m.Order()
	e := &envelope{n: n, order: slices.Clone(order), place: make([]int, n)}
	for i, at := range e.order {
		e.place[at] = i
	}
	tiles := (n + square - 1) / square
	words := (tiles + 63) / 64
	touched := make([]uint64, tiles*words) // for each block column, a bit for each row
	for i, at := range e.order {
		columns, _ := m.Row(at)
		for _, c := range columns {
			touched[e.place[c]/square*words+i/square/64] |= 1 << (i / square % 64)
		}
	}
	e.columns, e.below = make([][]int, tiles), make([][]int, tiles)
	for j := range tiles {
		own := touched[j*words:][:words]
		for i := j + 1; i < tiles; i++ {
			if own[i/64]>>(i%64)&1 != 0 {
				e.below[j], e.columns[i] = append(e.below[j], i), append(e.columns[i], j)
			}
		}
		if len(e.below[j]) > 0 { // rows after this column also fill in the first of these
			for w, bits := range touched[e.below[j][0]*words:][:words] {
				touched[e.below[j][0]*words+w] = bits | own[w]
			}
		}
	}
	return e
}

// entriesOf is the number of entries in the rows of m.
func entriesOf(m Entries) (sum int) {
	for i := range m.Order() {
		columns, _ := m.Row(i)
		sum += len(columns)
	}
	return sum
}

// bytes is the memory of the factor.
func (e *envelope) bytes() (sum float64) {
	for _, columns := range e.columns {
		sum += 8 * square * square * float64(len(columns)+1)
	}
	return sum
}

// flops is the number of operations to compute the factor.
func (e *envelope) flops() (sum float64) {
	const cube = 2 * square * square * square // of a product of two squares
	// One product for each pair, and for each with itself.
	for _, rows := range e.below {
		count := float64(len(rows))
		sum += cube * (count*(count+1)/2 + (count+1)/2)
	}
	return sum
}

// factor fills the envelope with the factor of M + shift I.
func (e *envelope) factor(ctx context.Context, m Entries, shift float64) {
	tiles, count := len(e.columns), 0
	for _, columns := range e.columns {
		count += len(columns)
	}
	// Two allocations: many small ones would be rounded up by a sixth.
	all, triangles := make([]tile.PackedSquare, count), make([]float64, tiles*square*square)
	e.squares, e.diagonal = make([][]tile.PackedSquare, tiles), make([]blas64.Triangular, tiles)
	for i, columns := range e.columns {
		e.squares[i], all = all[:len(columns):len(columns)], all[len(columns):]
		e.fill(i, triangles[i*square*square:][:square*square], m, shift)
	}
	var own tile.PackedSquare // on the diagonal
	for j := range tiles {
		fail.Check(ctx.Err())
		t := blas64.Symmetric{N: square, Stride: square, Data: triangles[j*square*square:][:square*square],
			Uplo: blas.Lower}
		own = tile.PackedSquare{}
		for r := range square {
			for c := range r + 1 {
				own[own.At(r, c)] = t.Data[r*square+c]
			}
		}
		e.update(&own, j, j)
		for r := range square {
			for c := range r + 1 {
				t.Data[r*square+c] = own[own.At(r, c)]
			}
		}
		var ok bool
		if e.diagonal[j], ok = lapack64.Potrf(t); !ok || !finiteDiagonal(e.diagonal[j]) {
			panic(fail.With(fmt.Errorf("%w: order %d, shift %.4g, at row %d of the factor", ErrNotDefinite, e.n, shift,
				j*square)))
		}
		for r := range square {
			for c := range r + 1 {
				own[own.At(r, c)] = t.Data[r*square+c]
			}
		}
		below := e.below[j]
		split(ctx, len(below), len(below)*square*square*square*(len(e.columns[j])+1), func(p int) {
			s := e.square(below[p], j)
			e.update(s, below[p], j)
			s.Divide(&own, e.diagonal[j])
		})
	}
}

// fill copies row i of the blocks of M + shift I into the envelope, and the lower triangle of the one on the diagonal
// into own, row-major.
func (e *envelope) fill(i int, own []float64, m Entries, shift float64) {
	for r := range square {
		at := i*square + r
		if at >= e.n {
			own[r*square+r] = 1 // padding after the last row
			continue
		}
		entries, values := m.Row(e.order[at])
		for p, c := range entries {
			switch j := e.place[c]; {
			case j > at:
			case j/square < i:
				to := e.square(i, j/square)
				to[to.At(r, j%square)] += values[p]
			default:
				own[r*square+j%square] += values[p]
			}
		}
		own[r*square+r] += shift
	}
}

// square is block (i, j), which is not zero.
func (e *envelope) square(i, j int) *tile.PackedSquare {
	p, _ := slices.BinarySearch(e.columns[i], j)
	return &e.squares[i][p]
}

// update subtracts L_ik L_jk' for all k < j from block (i, j).
func (e *envelope) update(s *tile.PackedSquare, i, j int) {
	left, right := e.columns[i], e.columns[j]
	for p, q := 0, 0; p < len(left) && q < len(right); {
		switch {
		case left[p] < right[q]:
			p++
		case left[p] > right[q]:
			q++
		default:
			s.SubtractProduct(&e.squares[i][p], &e.squares[j][q])
			p, q = p+1, q+1
		}
	}
}

// solve sets each row of dst to (M + shift I)^-1 times that row of x. The right-hand sides share each read of the
// factor.
func (e *envelope) solve(ctx context.Context, dst, x *mat.Dense) {
	b, _ := x.Dims()
	split(ctx, (b+tile.Thin-1)/tile.Thin, 2*b*int(e.bytes()/8), func(p int) {
		from, to := p*tile.Thin, min(b, (p+1)*tile.Thin)
		y := make([]float64, len(e.columns)*square*tile.Thin) // side by side
		for r := from; r < to; r++ {
			src := x.RawRowView(r)
			for i, at := range e.order {
				y[i*tile.Thin+r-from] = src[at]
			}
		}
		for i := range e.columns {
			e.forward(i, y)
		}
		for i := len(e.columns) - 1; i >= 0; i-- {
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

const (
	step = 8                  // rows of a triangle solved between two products
	side = square * tile.Thin // numbers in a block row of right-hand sides
)

// forward solves L y = x for block row i, in place, and subtracts its part from all later rows.
func (e *envelope) forward(i int, y []float64) {
	const thin = tile.Thin // right-hand sides
	own, lower := y[i*side:][:side], e.diagonal[i].Data
	var negative [side]float64
	for r := 0; r < square; r += step {
		tile.Along(own[r*thin:], lower[r*square:], step, r, square, own, -1)
		for k := r; k < r+step; k++ {
			row, l := own[k*thin:][:thin], lower[k*square:][:k+1]
			for j := r; j < k; j++ {
				for c, w := range own[j*thin:][:thin] {
					row[c] -= l[j] * w
				}
			}
			for c := range row {
				row[c] /= l[k]
				negative[k*thin+c] = -row[c]
			}
		}
	}
	for _, b := range e.below[i] {
		for p, rows := range e.square(b, i).Panels() {
			width := len(rows) / square
			tile.Across(y[b*side+p*width*thin:], rows, square, width, width, negative[:])
		}
	}
}

// backward solves L'y = x for block row i, with the later rows solved, and subtracts its part from all earlier rows.
func (e *envelope) backward(i int, y []float64) {
	const thin = tile.Thin // right-hand sides
	own, lower := y[i*side:][:side], e.diagonal[i].Data
	var negative [side]float64
	for r := square - step; r >= 0; r -= step {
		for k := r + step - 1; k >= r; k-- {
			row, l := own[k*thin:][:thin], lower[k*square:][:k+1]
			for c := range row {
				row[c] /= l[k]
				negative[k*thin+c] = -row[c]
			}
			for j := r; j < k; j++ {
				other := own[j*thin:][:thin]
				for c, w := range row {
					other[c] -= l[j] * w
				}
			}
		}
		tile.Across(own, lower[r*square:], step, r, square, negative[r*thin:])
	}
	for p, j := range e.columns[i] {
		for q, rows := range e.squares[i][p].Panels() {
			width := len(rows) / square
			tile.Along(y[j*side:], rows, square, width, width, own[q*width*thin:], -1)
		}
	}
}

// cuthillMcKee is the reverse Cuthill-McKee order of m, with each component started at an end of it (George and Liu
// 1979). Ties go to the lower index.
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
	if float64(sum) > float64(n)*float64(n)/4 { // no order helps for such a matrix
		return linalg.Range(n)
	}
	mark := make([]int, n) // the last pass that visited the node
	pass := 0
	done := make([]bool, n)
	// levels appends the nodes around root to out by levels and returns them, with the position where the last level
	// starts and the number of levels.
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
						return cmp.Or(degree[a]-degree[b], a-b)
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
