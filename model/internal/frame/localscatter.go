package frame

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// LocalScatters are S_b and S_w, with the scale of a row from as many neighbours
// as the parameter says.
func LocalScatters(ctx context.Context, t *Task, parameter string) (n, d *mat.SymDense, err error) {
	k := t.Int(parameter)
	t.NoteShort(parameter, k, func(rows int) int { return rows - 1 })
	t.ReportProgress("neighbours", 0)
	own, _, err := graph.NearestByClass(ctx, t.X, t.Rows.Y, k, 0)
	if err != nil {
		return nil, nil, err
	}
	sigma := own.LocalScale(t.Rows.Y)
	rows := t.Rows.ByClass()
	share := make([]float64, t.Rows.N) // 1 - n_c/n of each row
	d = mat.NewSymDense(t.M, nil)
	n = mat.NewSymDense(t.M, nil)
	for i, c := range t.Stat.Class {
		t.ReportProgress("affinities", float64(i)/float64(t.Stat.Classes()))
		size := t.Stat.Counts[i]
		for _, r := range rows[c] {
			share[r] = 1 - size/t.Stat.N
		}
		g, err := t.localScatter(ctx, rows[c], t.Stat.Means.RowView(i), sigma)
		if err != nil {
			return nil, nil, err
		}
		// g is G_c; what S_b takes of it is G_c/n - G_c/n_c.
		var both mat.SymDense
		both.ScaleSym(1/t.Stat.N-1/size, g)
		n.AddSym(n, &both)
		n.SymRankOne(n, size*size/t.Stat.N, t.Stat.Means.RowView(i))
		g.ScaleSym(1/size, g)
		d.AddSym(d, g)
	}
	pairs, err := graph.DegreeForm(ctx, t.X, share)
	if err != nil {
		return nil, nil, err
	}
	n.AddSym(n, pairs)
	return n, d, nil
}

// AffinityRows is the number of rows of A that are held at a time.
const AffinityRows = 256

// localScatter is G_c = sum_ij A_ij (x_i - x_j)(x_i - x_j)'/2 of the rows of a
// class. A is full, but only a block of rows of its upper half U is ever held:
// X A X' = X U X' + (X U X')', the diagonal blocks halved. Squared distances come
// from products of rows about the class mean.
func (t *Task) localScatter(ctx context.Context, rows []int, mean mat.Vector, sigma []float64) (*mat.SymDense, error) {
	n := len(rows)
	x := mat.NewDense(n, t.M, nil)
	flat := x.RawMatrix().Data
	norm, degree := make([]float64, n), make([]float64, n)
	for i, r := range rows {
		dst := x.RawRowView(i)
		for j, v := range t.X.RawRowView(r) {
			dst[j] = v - mean.AtVec(j)
			norm[i] += dst[j] * dst[j]
		}
	}
	ux := mat.NewDense(n, t.M, nil)
	block := make([]float64, min(n, AffinityRows)*n)
	for from := 0; from < n; from += AffinityRows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := min(from+AffinityRows, n)
		later, count := flat[from*t.M:], n-from
		a := block[:(to-from)*count]
		clear(a)
		if err := tile.Add(ctx, tile.Sum{C: a, Stride: count, Alpha: 1, A: tile.Columns(later, t.M, to-from, t.M),
			B: tile.Columns(later, t.M, count, t.M)}); err != nil {
			return nil, err
		}
		for i := from; i < to; i++ {
			row := a[(i-from)*count:][:count]
			for k, product := range row {
				// Where a scale is 0 rows are equal or infinitely far: either way
				// the pair adds nothing.
				j, v := from+k, 0.0
				if s := sigma[rows[i]] * sigma[rows[j]]; s > 0 && j != i {
					v = math.Exp(-max(0, norm[i]+norm[j]-2*product) / s)
				}
				degree[i] += v
				if j < to {
					v /= 2
				} else {
					degree[j] += v
				}
				row[k] = v
			}
		}
		if err := tile.Add(ctx, tile.Sum{C: ux.RawMatrix().Data[from*t.M:], Stride: t.M, Alpha: 1,
			A: tile.Columns(a, count, to-from, count), B: tile.Dense(later, count, t.M, t.M)}); err != nil {
			return nil, err
		}
	}
	for i, v := range degree {
		row := ux.RawRowView(i)
		for j, u := range x.RawRowView(i) {
			row[j] = v*u - 2*row[j]
		}
	}
	g := mat.NewDense(t.M, t.M, nil) // not symmetric, as U is not
	if err := tile.Add(ctx, tile.Sum{C: g.RawMatrix().Data, Stride: t.M, Alpha: 1, A: tile.Dense(flat, n, t.M, t.M),
		B: tile.Dense(ux.RawMatrix().Data, n, t.M, t.M)}); err != nil {
		return nil, err
	}
	return linalg.Symmetric(g), nil
}
