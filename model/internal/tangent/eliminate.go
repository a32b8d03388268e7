package tangent

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
)

// order is the number of tangent coordinates of a part.
func (f *Form) order(part *Part) int {
	size := 0
	for _, p := range part.patches {
		size += f.Start[p+1] - f.Start[p]
	}
	return size
}

// coupling is S2'g of the part, N x c: its tangent coordinates for values g (n x c) at the rows.
func (f *Form) coupling(part *Part, g *mat.Dense) *mat.Dense {
	_, c := g.Dims()
	out := mat.NewDense(f.order(part), c, nil)
	at := 0
	for _, p := range part.patches {
		local := mat.NewDense(len(f.Rows[p]), c, nil)
		for i, r := range f.Rows[p] {
			local.SetRow(i, g.RawRowView(r))
		}
		k := f.Start[p+1] - f.Start[p]
		out.Slice(at, at+k, 0, c).(*mat.Dense).Mul(f.S2[p].T(), local)
		at += k
	}
	return out
}

// EliminateLinear is the form in t alone, with f = X t and v at its minimum: X'(S1 - S2 (S3 + a I)^-1 S2')X, m x m.
func (f *Form) EliminateLinear(ctx context.Context, x *mat.Dense, parts []Part) *mat.SymDense {
	s := fail.Must(graph.LaplacianForm(ctx, x, f.W))
	s.ScaleSym(2, s)
	for i := range parts {
		if h := parts[i].Half(f.coupling(&parts[i], x)); h != nil {
			s.SymRankK(s, -1, h.T())
		}
	}
	return s
}

// Eliminate is the form in f alone, S1 - S2 S3^+ S2', n x n: sparse if S3 is block diagonal (gamma = 0).
func (f *Form) Eliminate(parts []Part) *graph.Matrix {
	n := f.W.Order()
	return fail.Must(graph.Align(n, func(yield func(graph.Patch) bool) {
		laplacian := f.W.Laplacian()
		for i := range n {
			index, value := laplacian.Row(i)
			for e, j := range index {
				// Each pair once: Align adds both triangles.
				if j == i && !yield(graph.Patch{Rows: []int{i}, L: mat.NewSymDense(1, []float64{2 * value[e]})}) {
					return
				}
				if j > i && !yield(graph.Patch{Rows: []int{i, j},
					L: mat.NewSymDense(2, []float64{0, 2 * value[e], 2 * value[e], 0})}) {
					return
				}
			}
		}
		for i := range parts {
			if p, some := f.explained(&parts[i]); some && !yield(p) {
				return
			}
		}
	}))
}

// explained is what the tangent vectors of a part explain, -S2 S3^+ S2', over the rows of the part.
func (f *Form) explained(part *Part) (graph.Patch, bool) {
	var rows []int
	for _, p := range part.patches {
		rows = append(rows, f.Rows[p]...)
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	at := make(map[int]int, len(rows))
	for i, r := range rows {
		at[r] = i
	}
	s2 := mat.NewDense(f.order(part), len(rows), nil)
	from := 0
	for _, p := range part.patches {
		r, k := f.S2[p].Dims()
		for i := range r {
			for c := range k {
				s2.Set(from+c, at[f.Rows[p][i]], f.S2[p].At(i, c))
			}
		}
		from += k
	}
	h := part.Half(s2)
	if h == nil {
		return graph.Patch{}, false
	}
	l := mat.NewSymDense(len(rows), nil)
	l.SymRankK(l, -1, h.T())
	return graph.Patch{Rows: rows, L: l}, true
}

// Vectors are the tangent vectors that minimise the form at values g (n x c),
// v = -S3^+ S2'g: for each patch m_p x c, nil for m_p = 0.
func (f *Form) Vectors(parts []Part, g *mat.Dense) []*mat.Dense {
	_, c := g.Dims()
	out := make([]*mat.Dense, len(f.S3))
	for i := range parts {
		v := parts[i].Solve(f.coupling(&parts[i], g))
		v.Scale(-1, v)
		at := 0
		for _, p := range parts[i].patches {
			k := f.Start[p+1] - f.Start[p]
			out[p] = mat.DenseCopyOf(v.Slice(at, at+k, 0, c))
			at += k
		}
	}
	return out
}
