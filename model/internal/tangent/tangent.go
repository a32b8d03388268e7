package tangent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

// Spaces are the tangent spaces of a manifold: one for each patch of rows, or
// for each row.
type Spaces struct {
	Of     []int            // patch of each row
	Spaces []*graph.Tangent // T_p of each patch, m x m_p with orthonormal columns; m_p may be 0
}

// EveryRow is the patch of each of n rows where every row has its own.
func EveryRow(n int) []int {
	of := make([]int, n)
	for i := range of {
		of[i] = i
	}
	return of
}

// PatchOf is the patch of each of n rows.
func PatchOf(patches [][]int, n int) []int {
	of := make([]int, n)
	for p, rows := range patches {
		for _, r := range rows {
			of[r] = p
		}
	}
	return of
}

// Form is the quadratic form that MPDA, TSIMR and their kin share, over
// values f_j at the rows and tangent vectors v_p at the patches:
//
//	sum_ij W_ij (f_i - f_j - v_p(j)' T_p(j)' (x_i - x_j))^2
//	  + gamma sum_ij W_ij |v_p(i) - T_p(i)' T_p(j) v_p(j)|^2
//	= f' S1 f + 2 f' S2 v + v' S3 v,  S1 = 2L.
//
// Linear methods have f = X t, and with it X' S1 X and X' S2. With B_ji =
// T_p(j)' (x_i - x_j) and A_ij = T_p(i)' T_p(j),
//
//	S2[:,p]  = sum_{j in p} sum_i W_ij (e_j - e_i) B_ji'
//	S3[p,p]  = sum_{j in p} sum_i W_ij B_ji B_ji' + gamma sum_{j in p} (D_jj I + sum_i W_ij A_ij' A_ij)
//	S3[p,q] -= gamma sum_{i in p, j in q} 2 W_ij A_ij
//
// (Zhou and Sun 2017, supplement, with its slips mended: its S2 has x_i for x_j
// in the patch, which would make S2 vanish, and T_i T_j' for T_i' T_j.) It is
// kept by patches: S2 touches the rows of a patch and their neighbours, S3 the
// patches that share an edge of W.
type Form struct {
	W     *graph.Matrix
	Start []int           // of the coordinates of patch p among those of v; P+1
	Rows  [][]int         // rows that S2[:,p] touches, ascending
	S2    []*mat.Dense    // len(rows[p]) x m_p, nil for m_p = 0
	S3    []*mat.SymDense // S3[p,p]
	Links []Link
}

// Link is S3[p,q], p < q.
type Link struct {
	P, Q int
	S3   *mat.Dense
}

// New builds the form of symmetric weights w over the rows of x. It
// takes Stored(w) m_p m multiply-adds, and as many again for gamma > 0.
func New(ctx context.Context, x *mat.Dense, w *graph.Matrix, tan *Spaces, gamma float64) (*Form, error) {
	f := Empty(w, tan)
	members := make([][]int, len(tan.Spaces))
	for j, p := range tan.Of {
		members[p] = append(members[p], j)
	}
	for p, space := range tan.Spaces {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if space.Dim() > 0 {
			f.addPatch(x, p, members[p], space.Basis)
		}
	}
	return f, f.AddConnection(ctx, tan, gamma)
}

// Empty is the form without its terms in v.
func Empty(w *graph.Matrix, tan *Spaces) *Form {
	patches := len(tan.Spaces)
	f := &Form{W: w, Start: make([]int, patches+1), Rows: make([][]int, patches),
		S2: make([]*mat.Dense, patches), S3: make([]*mat.SymDense, patches)}
	for p, space := range tan.Spaces {
		f.Start[p+1] = f.Start[p] + space.Dim()
		if space.Dim() > 0 {
			f.S3[p] = mat.NewSymDense(space.Dim(), nil)
		}
	}
	return f
}

// addPatch adds the data term of patch p.
func (f *Form) addPatch(x *mat.Dense, p int, members []int, basis *mat.Dense) {
	_, m := x.Dims()
	_, k := basis.Dims()
	touched := slices.Clone(members)
	for _, j := range members {
		index, _ := f.W.Row(j)
		touched = append(touched, index...)
	}
	slices.Sort(touched)
	touched = slices.Compact(touched)
	at := make(map[int]int, len(touched))
	local := mat.NewDense(len(touched), m, nil)
	for i, r := range touched {
		at[r] = i
		local.SetRow(i, x.RawRowView(r))
	}
	y := mat.NewDense(len(touched), k, nil) // coordinates in the tangent space
	y.Mul(local, basis)
	s2, s3 := mat.NewDense(len(touched), k, nil), f.S3[p]
	b := make([]float64, k)
	for _, j := range members {
		yj, s2j := y.RawRowView(at[j]), s2.RawRowView(at[j])
		index, weight := f.W.Row(j)
		for e, i := range index {
			v := weight[e]
			yi, s2i := y.RawRowView(at[i]), s2.RawRowView(at[i])
			for c := range b {
				b[c] = yi[c] - yj[c]
				s2j[c] += v * b[c]
				s2i[c] -= v * b[c]
			}
			for c := range b {
				for d := c; d < k; d++ {
					s3.SetSym(c, d, s3.At(c, d)+v*b[c]*b[d])
				}
			}
		}
	}
	f.Rows[p], f.S2[p] = touched, s2
}

// AddConnection adds the term of gamma to S3: how far tangent vectors of
// neighbours are from being parallel.
func (f *Form) AddConnection(ctx context.Context, tan *Spaces, gamma float64) error {
	if gamma == 0 {
		return nil
	}
	patches := len(tan.Spaces)
	degree := make([]float64, patches)
	between := make([]map[int]float64, patches) // weight between p and the other patches
	for j, p := range tan.Of {
		index, weight := f.W.Row(j)
		for e, i := range index {
			q := tan.Of[i]
			if q == p {
				continue // parallel to itself
			}
			if between[p] == nil {
				between[p] = map[int]float64{}
			}
			degree[p] += weight[e]
			between[p][q] += weight[e]
		}
	}
	for p := range patches {
		k := tan.Spaces[p].Dim()
		if k == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for c := range k {
			f.S3[p].SetSym(c, c, f.S3[p].At(c, c)+gamma*degree[p])
		}
		for _, q := range slices.Sorted(maps.Keys(between[p])) {
			if tan.Spaces[q].Dim() == 0 {
				continue
			}
			v := between[p][q]
			var a mat.Dense // T_q' T_p
			a.Mul(tan.Spaces[q].Basis.T(), tan.Spaces[p].Basis)
			f.S3[p].SymRankK(f.S3[p], gamma*v, a.T())
			if p < q {
				link := mat.DenseCopyOf(a.T())
				link.Scale(-2*gamma*v, link)
				f.Links = append(f.Links, Link{p, q, link})
			}
		}
	}
	return nil
}

// Dim is the number of tangent coordinates, the sum of the m_p.
func (f *Form) Dim() int { return f.Start[len(f.Start)-1] }

// Trace is tr S3.
func (f *Form) Trace() float64 {
	sum := 0.0
	for _, s := range f.S3 {
		if s != nil {
			sum += mat.Trace(s)
		}
	}
	return sum
}

// parts are the groups of patches that links join: S3 is block diagonal in them.
func (f *Form) parts() [][]int {
	root := make([]int, len(f.S3))
	for p := range root {
		root[p] = p
	}
	find := func(p int) int {
		for root[p] != p {
			root[p] = root[root[p]]
			p = root[p]
		}
		return p
	}
	for _, l := range f.Links {
		a, b := find(l.P), find(l.Q)
		root[max(a, b)] = min(a, b)
	}
	members := make([][]int, len(root))
	for p, s := range f.S3 {
		if s != nil {
			members[find(p)] = append(members[find(p)], p)
		}
	}
	return slices.DeleteFunc(members, func(g []int) bool { return len(g) == 0 })
}

// Connection is S3 as one sparse matrix, over the coordinates of v.
func (f *Form) Connection() (*graph.Matrix, error) {
	return graph.Align(f.Dim(), func(yield func(graph.Patch) bool) {
		for p, s := range f.S3 {
			if s != nil && !yield(graph.Patch{Rows: f.coordinates(p), L: s}) {
				return
			}
		}
		for _, l := range f.Links {
			r, c := l.S3.Dims()
			s := mat.NewSymDense(r+c, nil)
			for i := range r {
				for j := range c {
					s.SetSym(i, r+j, l.S3.At(i, j))
				}
			}
			if !yield(graph.Patch{Rows: append(f.coordinates(l.P), f.coordinates(l.Q)...), L: s}) {
				return
			}
		}
	})
}

// coordinates are those of patch p among those of v.
func (f *Form) coordinates(p int) []int {
	out := make([]int, 0, f.Start[p+1]-f.Start[p])
	for i := f.Start[p]; i < f.Start[p+1]; i++ {
		out = append(out, i)
	}
	return out
}

// Part is one diagonal block of S3, factored: Z Z' is the inverse of
// S3 + a I, or the pseudo-inverse of S3.
type Part struct {
	patches []int
	Metric  *pencil.Metric // Z by Cholesky; nil where S3 is zero
	Null    *mat.Dense     // orthonormal columns that Z Z' is to be zero on, or nil
}

// outside is b without its part in the null columns.
func (p *Part) outside(b *mat.Dense) *mat.Dense {
	if p.Null == nil {
		return b
	}
	var inner, out mat.Dense
	inner.Mul(p.Null.T(), b)
	out.Mul(p.Null, &inner)
	out.Sub(b, &out)
	return &out
}

// Half is Z'b.
func (p *Part) Half(b *mat.Dense) *mat.Dense {
	if p.Metric == nil {
		return nil
	}
	return p.Metric.Whiten(p.outside(b))
}

// Solve is Z Z'b.
func (p *Part) Solve(b *mat.Dense) *mat.Dense {
	if p.Metric == nil {
		r, c := b.Dims()
		return mat.NewDense(r, c, nil)
	}
	return p.outside(p.Metric.Solve(p.outside(b)))
}

// Factor factors S3 + ridge I, or for ridge 0 the pseudo-inverse of S3, part by
// part.
func (f *Form) Factor(ctx context.Context, ridge float64) ([]Part, error) {
	position := make([]int, len(f.S3))
	linked := make([][]Link, len(f.S3))
	for _, l := range f.Links {
		linked[l.P] = append(linked[l.P], l)
	}
	var parts []Part
	for _, patches := range f.parts() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		size := 0
		for _, p := range patches {
			position[p] = size
			size += f.Start[p+1] - f.Start[p]
		}
		s := mat.NewSymDense(size, nil)
		for _, p := range patches {
			for a := range f.S3[p].SymmetricDim() {
				for b := a; b < f.S3[p].SymmetricDim(); b++ {
					s.SetSym(position[p]+a, position[p]+b, f.S3[p].At(a, b))
				}
			}
			for _, l := range linked[p] {
				r, c := l.S3.Dims()
				for a := range r {
					for b := range c {
						s.SetSym(position[p]+a, position[l.Q]+b, l.S3.At(a, b))
					}
				}
			}
		}
		part := Part{patches: patches}
		var err error
		if ridge > 0 {
			part.Metric, err = pencil.Ridge(s, ridge)
		} else {
			part.Metric, part.Null, err = PseudoInverse(ctx, s)
		}
		if err != nil {
			return nil, fmt.Errorf("tangent vectors: %w", err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// tangentCut is the share of the largest eigenvalue of S3 at or below which an
// eigenvalue is taken for zero.
const tangentCut = 1e-10

// PseudoInverse factors the pseudo-inverse of S3: a Cholesky factor and, where
// there are any, the eigenvectors of values under the cut. S3 has few of those, and
// they are the leading ones of its inverse.
func PseudoInverse(ctx context.Context, s *mat.SymDense) (*pencil.Metric, *mat.Dense, error) {
	n := s.SymmetricDim()
	bound := 0.0 // the largest row sum is no less than the largest eigenvalue
	for i := range n {
		sum := 0.0
		for j := range n {
			sum += math.Abs(s.At(i, j))
		}
		bound = max(bound, sum)
	}
	if bound == 0 {
		return nil, nil, nil
	}
	if n > 300 {
		q, null, err := deflated(ctx, s, bound)
		if err == nil || ctx.Err() != nil {
			return q, null, err
		}
	}
	all, err := pencil.Solve(s, pencil.Identity(n), pencil.Min, n)
	if err != nil {
		return nil, nil, err
	}
	cut := tangentCut * all.Values[n-1]
	from := 0
	for from < n && all.Values[from] <= cut {
		from++
	}
	if from == 0 {
		q, err := pencil.Ridge(s, 0)
		return q, nil, err
	}
	// 1 on the null space, which is taken out, makes the rest of it a definite one.
	null := mat.DenseCopyOf(all.Vectors.Slice(0, n, 0, from))
	whole := mat.NewSymDense(n, nil)
	whole.SymOuterK(all.Values[n-1], null)
	whole.AddSym(whole, s)
	q, err := pencil.Ridge(whole, 0)
	return q, null, err
}

// deflated is pseudoInverse for large S3: the small eigenvalues are the largest of
// its inverse, with a shift far below the cut where that is singular.
func deflated(ctx context.Context, s *mat.SymDense, bound float64) (*pencil.Metric, *mat.Dense, error) {
	n := s.SymmetricDim()
	shift := 0.0
	q, err := pencil.Ridge(s, 0)
	if errors.Is(err, pencil.ErrNotDefinite) {
		shift = 1e-4 * tangentCut * bound
		q, err = pencil.Ridge(s, shift)
	}
	if err != nil {
		return nil, nil, err
	}
	for d := 1; ; d = min(4*d, n) {
		part, err := pencil.Partial(ctx, inverse{q}, pencil.Max, d, nil)
		if err != nil {
			return nil, nil, err
		}
		cut := tangentCut * bound
		from := 0
		for from < d && 1/part.Values[from]-shift <= cut {
			from++
		}
		switch {
		case from == 0:
			return q, nil, nil
		case from < d:
			return q, mat.DenseCopyOf(part.Vectors.Slice(0, n, 0, from)), nil
		case d >= n/8:
			return nil, nil, fmt.Errorf("more than %d of %d eigenvalues are zero", d, n)
		}
	}
}

// inverse is the operator of a factored matrix's inverse.
type inverse struct{ q *pencil.Metric }

func (o inverse) Order() int { return o.q.Columns() }

func (o inverse) Apply(dst, x *mat.Dense) { dst.Copy(o.q.Solve(x)) }

// order is the number of tangent coordinates of a part.
func (f *Form) order(part *Part) int {
	size := 0
	for _, p := range part.patches {
		size += f.Start[p+1] - f.Start[p]
	}
	return size
}

// coupling is S2'g of the part, N x c: its tangent coordinates against values g
// (n x c) at the rows.
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

// EliminateLinear is the form in t alone, f = X t and v at its minimum:
// X'(S1 - S2 (S3 + a I)^-1 S2')X, m x m.
func (f *Form) EliminateLinear(x *mat.Dense, parts []Part) (*mat.SymDense, error) {
	s, err := graph.LaplacianForm(x, f.W)
	if err != nil {
		return nil, err
	}
	s.ScaleSym(2, s)
	for i := range parts {
		if h := parts[i].Half(f.coupling(&parts[i], x)); h != nil {
			s.SymRankK(s, -1, h.T())
		}
	}
	return s, nil
}

// Eliminate is the form in f alone, S1 - S2 S3^+ S2', n x n: sparse where S3 is
// block diagonal (gamma = 0).
func (f *Form) Eliminate(parts []Part) (*graph.Matrix, error) {
	n := f.W.Order()
	return graph.Align(n, func(yield func(graph.Patch) bool) {
		laplacian := f.W.Laplacian()
		for i := range n {
			index, value := laplacian.Row(i)
			for e, j := range index {
				// Each pair once: Align makes both triangles of it.
				if j == i && !yield(graph.Patch{Rows: []int{i}, L: mat.NewSymDense(1, []float64{2 * value[e]})}) {
					return
				}
				if j > i && !yield(graph.Patch{Rows: []int{i, j}, L: mat.NewSymDense(2, []float64{0, 2 * value[e], 2 * value[e], 0})}) {
					return
				}
			}
		}
		for i := range parts {
			if p, some := f.explained(&parts[i]); some && !yield(p) {
				return
			}
		}
	})
}

// explained is what the tangent vectors of a part explain, -S2 S3^+ S2', over
// the rows that the part touches.
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
