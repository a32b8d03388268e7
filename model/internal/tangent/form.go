package tangent

import (
	"context"
	"maps"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// Form is the quadratic form that MPDA, TSIMR and related methods share, over
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
// (Zhou and Sun 2017, supplement, with two corrections: its S2 has x_i for x_j in the patch, which would make S2 zero,
// and T_i T_j' for T_i' T_j.) It is stored by patches: S2 has the rows of a patch and their neighbours, S3 the patches
// that share an edge of W.
type Form struct {
	W     *graph.Matrix
	Start []int           // of the coordinates of patch p in v; P+1
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

// New builds the form of symmetric weights w over the rows of x. It takes Stored(w) m_p m multiply-adds, and twice
// that for gamma > 0.
func New(ctx context.Context, x *mat.Dense, w *graph.Matrix, tan *Spaces, gamma float64) *Form {
	f := Empty(w, tan)
	members := make([][]int, len(tan.Spaces))
	for j, p := range tan.Patch {
		members[p] = append(members[p], j)
	}
	for p, space := range tan.Spaces {
		fail.Check(ctx.Err())
		if space.Dim() > 0 {
			f.addPatch(x, p, members[p], space.Basis)
		}
	}
	f.AddConnection(ctx, tan, gamma)
	return f
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

// AddConnection adds the term of gamma to S3, which penalises tangent vectors of neighbours that are not parallel.
func (f *Form) AddConnection(ctx context.Context, tan *Spaces, gamma float64) {
	if gamma == 0 {
		return
	}
	patches := len(tan.Spaces)
	degree := make([]float64, patches)
	between := make([]map[int]float64, patches) // weight between p and the other patches
	for j, p := range tan.Patch {
		index, weight := f.W.Row(j)
		for e, i := range index {
			q := tan.Patch[i]
			if q == p {
				continue // always parallel to itself
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
		fail.Check(ctx.Err())
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
	part := linalg.Sets(len(f.S3), func(join func(p, q int)) {
		for _, l := range f.Links {
			join(l.P, l.Q)
		}
	})
	members := make([][]int, len(f.S3))
	for p, s := range f.S3 {
		if s != nil {
			members[part[p]] = append(members[part[p]], p)
		}
	}
	return slices.DeleteFunc(members, func(g []int) bool { return len(g) == 0 })
}

// Connection is S3 as one sparse matrix, over the coordinates of v.
func (f *Form) Connection() *graph.Matrix {
	return fail.Must(graph.Align(f.Dim(), func(yield func(graph.Patch) bool) {
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
	}))
}

// coordinates are the indices of the coordinates of patch p in v.
func (f *Form) coordinates(p int) []int {
	out := make([]int, 0, f.Start[p+1]-f.Start[p])
	for i := f.Start[p]; i < f.Start[p+1]; i++ {
		out = append(out, i)
	}
	return out
}
