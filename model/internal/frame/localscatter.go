package frame

import (
	"context"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
)

// LocalScatters are S_b and S_w, with the scale of a row from as many neighbours as the parameter. X the rows of a
// class about their mean, U the upper half of A and T = (diag(A 1) - 2U)X, its G_c is the symmetric part of X'T. So
//
//	S_w = sum_c X'T/n_c
//	S_b = sum_c X'((1/n - 1/n_c)T + (1 - n_c/n)X) + n_c mu_c mu_c'
//
// are one product of all rows, or of some classes at a time.
func LocalScatters(ctx context.Context, t *Task, parameter string) (n, d *mat.SymDense) {
	k := t.Int(parameter)
	NoteFewRows(t, parameter, k, func(rows int) int { return rows - 1 })
	t.ReportProgress("neighbours", 0)
	sigma, both := localScale(ctx, t, k), mat.NewDense(t.M, 2*t.M, Grown(&ScratchOf(t).Squares, 2*t.M*t.M))
	both.Zero()
	for from := 0; from < len(t.Basis.Class); {
		to := chunkEnd(t.Basis.Counts, from)
		addScatters(ctx, both, t, sigma, from, to)
		from = to
	}
	side := func(from int) *mat.SymDense {
		return linalg.Symmetric(both.Slice(0, t.M, from, from+t.M).(*mat.Dense))
	}
	n, d = side(0), side(t.M)
	for i, size := range t.Basis.Counts {
		n.SymRankOne(n, size, t.Basis.Means.RowView(i))
	}
	return n, d
}

// maxCopies is about how often a row may come in a class until its scale is that of its copies.
const maxCopies = 32

// localScale returns the scale of each row, its distance to the k-th nearest of its class. In a class of copies, whose
// scales would be 0, it is that to the 2k-th, and so on: all affinities would be 0 otherwise.
func localScale(ctx context.Context, t *Task, k int) []float64 {
	near, _ := nearestByClass(ctx, t, k, 0)
	scale := near.LocalScale(t.Rows.Y)
	for _, rows := range t.Rows.ByClass() {
		isZero := func(i int) bool { return scale[i] == 0 }
		for k := k; k <= maxCopies && k < len(rows) && slices.ContainsFunc(rows, isZero); k *= 2 {
			scaleCopies(ctx, t, scale, rows, 2*k)
		}
	}
	return scale
}

// scaledRows is the number of rows whose neighbours are searched together. The neighbours of all rows would need more
// memory than the rest of a fit.
const scaledRows = 1024

// scaleCopies sets the scales of the rows of a class to their distances to the k-th nearest other one.
func scaleCopies(ctx context.Context, t *Task, scale []float64, rows []int, k int) {
	x, found := mat.NewDense(len(rows), t.M, nil), make([]float64, len(rows))
	for p, r := range rows {
		x.SetRow(p, t.X.RawRowView(r))
	}
	for from := 0; from < len(rows); from += scaledRows {
		some := x.Slice(from, min(from+scaledRows, len(rows)), 0, t.M).(*mat.Dense)
		near := fail.Must(graph.NearestTo(ctx, x, some, k+1)) // and the row itself
		for p := range near.Len() {
			_, d := near.Row(p)
			found[from+p] = math.Sqrt(d[len(d)-1])
		}
	}
	for p, r := range rows {
		scale[r] = found[p]
	}
	least := 1e-3 * linalg.Select(found, len(found)/2)
	for _, r := range rows {
		scale[r] = max(scale[r], least)
	}
}

// scatterRows is the number of rows that are centred and held at once: those of several classes, or of one larger
// class.
const scatterRows = 1 << 14

// chunkEnd is the end of the classes, starting with from, whose rows are held at once.
func chunkEnd(counts []float64, from int) int {
	to, rows := from+1, counts[from]
	for ; to < len(counts) && rows+counts[to] <= scatterRows; to++ {
		rows += counts[to]
	}
	return to
}

// addScatters adds the share of the classes [from, to) to S_b and S_w, which are side by side in both, except for the
// means; sigma is the scale of each row.
func addScatters(ctx context.Context, both *mat.Dense, t *Task, sigma []float64, from, to int) {
	byClass := t.Rows.ByClass()
	var row, class []int // the rows, class by class, and the class of each
	begin := make([]int, to-from)
	for i := range begin {
		begin[i] = len(row)
		row = append(row, byClass[t.Basis.Class[from+i]]...)
		class = append(class, slices.Repeat([]int{from + i}, len(row)-begin[i])...)
	}
	centred := func(dst []float64, r int) {
		floats.SubTo(dst, t.X.RawRowView(row[r]), t.Basis.Means.RawRowView(class[r]))
	}
	pulled := Grown(&ScratchOf(t).large, len(row)*t.M)
	fail.Check(parallel.EachProgress(ctx, len(begin), func(i int) {
		scale := make([]float64, len(byClass[t.Basis.Class[from+i]]))
		room := takeRoom()
		defer releaseRoom(room, len(scale))
		own := Grown(room, len(scale)*t.M)
		for p := range scale {
			scale[p] = sigma[row[begin[i]+p]]
			centred(own[p*t.M:][:t.M], begin[i]+p)
		}
		dst := pulled[begin[i]*t.M:][:len(own)]
		clear(dst)
		addPull(ctx, dst, own, scale)
	}, func(done int) { t.ReportProgress("affinities", float64(from+done)/float64(len(t.Basis.Class))) }))
	sides := &tile.Operand{K: len(row), M: 2 * t.M, Row: func(dst []float64, r int) {
		size := t.Basis.Counts[class[r]]
		between, share, own := 1/t.Basis.N-1/size, 1-size/t.Basis.N, dst[t.M:]
		centred(own, r)
		for j, v := range pulled[r*t.M:][:t.M] {
			dst[j], own[j] = between*v+share*own[j], v/size
		}
	}}
	fail.Check(tile.Add(ctx, tile.Sum{C: both.RawMatrix().Data, Stride: 2 * t.M, Alpha: 1,
		A: &tile.Operand{K: len(row), M: t.M, Row: centred}, B: sides}))
}

var rooms sync.Pool // of *[]float64, for the rows of a class, and for a part of its pairs

func takeRoom() *[]float64 {
	if room, ok := rooms.Get().(*[]float64); ok {
		return room
	}
	return new([]float64)
}

// releaseRoom returns memory for a class of n rows to the pool, unless the class is large.
func releaseRoom(room *[]float64, n int) {
	if n <= 2*PairRows {
		rooms.Put(room)
	}
}

// PairRows is the number of rows of a matrix of all pairs of a class that are held at once.
const PairRows = 256

// addPull adds T, see LocalScatters, to dst for the rows x of a class and their scales. A_ij is exp(-|x_i -
// x_j|^2/(s_i s_j)); squared distances are computed from dot products.
func addPull(ctx context.Context, dst, x, scale []float64) {
	n := len(scale)
	m := len(x) / n
	norm, degree := make([]float64, n), make([]float64, n)
	for i := range norm {
		for _, v := range x[i*m : (i+1)*m] {
			norm[i] += v * v
		}
	}
	room := takeRoom()
	defer releaseRoom(room, n)
	block := Grown(room, min(n, PairRows)*(n+tile.Lanes))
	for from := 0; from < n; from += PairRows {
		fail.Check(ctx.Err())
		to := min(from+PairRows, n)
		later, count := x[from*m:], n-from
		stride := (count + tile.Lanes - 1) / tile.Lanes * tile.Lanes
		a := block[:(to-from)*stride]
		clear(a)
		fail.Check(tile.Add(ctx, tile.Sum{C: a, Stride: stride, Alpha: -2, A: tile.Columns(later, m, to-from, m),
			B: tile.Columns(later, m, count, m)}))
		for i := from; i < to; i++ {
			row, norms, scales := a[(i-from)*stride:][:stride], norm[from:], scale[from:]
			for k, product := range row[:count] {
				d, s := norm[i]+norms[k]+product, scale[i]*scales[k]
				if d < 0 { // faster than max, which also checks for NaN
					d = 0
				}
				// If a scale is 0, rows are equal or infinitely far apart: either way the pair adds nothing.
				if row[k] = -d / s; !(s > 0) {
					row[k] = math.Inf(-1)
				}
			}
			row[i-from] = math.Inf(-1)
			tile.Exp(row)
			sum := 0.0
			for k, v := range row[:to-from] { // the block has both halves of these
				sum += v
				row[k] = v / 2
			}
			after := degree[to:]
			for k, v := range row[to-from : count] {
				sum += v
				after[k] += v
			}
			degree[i] += sum
		}
		fail.Check(tile.Add(ctx, tile.Sum{C: dst[from*m:], Stride: m, Alpha: -2, A: tile.Columns(a, count, to-from, stride),
			B: tile.Dense(later, count, m, m)}))
	}
	for i, v := range degree {
		row := dst[i*m:][:m]
		for j, u := range x[i*m:][:m] {
			row[j] += v * u
		}
	}
}
