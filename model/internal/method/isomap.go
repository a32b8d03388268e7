package method

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/pencil"
)

// isomap: classical scaling of the geodesics G of the graph of the k nearest
// rows: the largest eigenpairs of B = -H G^2 H/2 (squares of entries), Y =
// V Lambda^1/2. Tenenbaum, de Silva and Langford, Science 290, 2000. It holds the
// geodesics, 8 n^2 bytes.
var isomap = frame.Method{
	Name: "isomap", Title: "ISOMAP",
	Paper: "Tenenbaum, de Silva and Langford, A global geometric framework for nonlinear dimensionality reduction, Science 2000",
	Map:   "extension", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "10", "nearest rows that each row is joined with", 1).WithGrid(frame.NeighbourCounts...),
		frame.ComponentsParam,
	},
	Dim:     frame.TwoColumns,
	Bound:   frame.RowsLessOne,
	Samples: true,
	Fit:     fitIsomap,
	Nested:  true,
}

// maxGeodesics is the most rows whose n x n geodesics are held: 3.2 GB.
const maxGeodesics = 20000

func fitIsomap(ctx context.Context, t *frame.Task) (*frame.Solution, error) {
	if n := t.Rows.N; n > maxGeodesics {
		return nil, fmt.Errorf("%d rows need %.0f GB for the geodesics between them; give at most %d", n,
			8e-9*float64(n)*float64(n), maxGeodesics)
	}
	g, lengths, k, err := t.Geodesics(ctx, graph.Repair(t.Params["components"]))
	if err != nil {
		return nil, err
	}
	b := NewScaling(g)
	t.ReportProgress("eigenvectors", 0)
	part, err := pencil.Partial(ctx, b, pencil.Max, t.D, linalg.Constant(t.Rows.N))
	if err != nil {
		return nil, err
	}
	t.Found(part)
	for c, l := range part.Values {
		if !(l > float64(t.Rows.N)*0x1p-52*part.Largest) {
			return nil, &pencil.RankError{Asked: t.D, Max: c}
		}
	}
	if least := b.least(ctx); least < -1e-6*part.Largest {
		t.Report.Note(fmt.Sprintf("the geodesics are not those of a Euclidean space: an eigenvalue is %.3g of the largest, or less; negative ones are left out", least/part.Largest))
	}
	y := part.Vectors
	for i := range t.Rows.N {
		row := y.RawRowView(i)
		for c, l := range part.Values {
			row[c] *= math.Sqrt(l)
		}
	}
	e := &mapping.Geodesic{Training: t.Training(nil, y.RawMatrix().Data, t.D), Lambda: part.Values, Mean: b.mean, K: k}
	for i := range t.Rows.N {
		index, value := lengths.Row(i)
		for p, j := range index {
			if i < j {
				e.Edge, e.Length = append(e.Edge, float64(i), float64(j)), append(e.Length, value[p])
			}
		}
	}
	return &frame.Solution{Dim: t.D, Eigenvalues: part.Values, Informative: t.D, Mapping: e}, nil
}

// scaling is B = -H S H/2 of squared distances S, as an operator: S is held,
// and centring is done on the vectors.
type scaling struct {
	n       int
	Squared []float64 // n x n
	mean    []float64 // of the columns of S
}

// NewScaling squares the distances in their own memory, which it takes.
func NewScaling(distances *mat.SymDense) *scaling {
	raw := distances.RawSymmetric()
	s := &scaling{n: raw.N, Squared: raw.Data, mean: make([]float64, raw.N)}
	for i := range s.n {
		row := s.Squared[i*s.n : (i+1)*s.n]
		for j := i; j < s.n; j++ {
			row[j] *= row[j]
			s.Squared[j*s.n+i] = row[j]
		}
	}
	for i := range s.n {
		for j, v := range s.Squared[i*s.n : (i+1)*s.n] {
			s.mean[j] += v / float64(s.n)
		}
	}
	return s
}

func (s *scaling) Order() int { return s.n }

// Apply sets dst to B x.
func (s *scaling) Apply(ctx context.Context, dst, x *mat.Dense) {
	_, b := x.Dims()
	columns := mat.DenseCopyOf(x.T())
	for c := range b {
		centreVector(columns.RawRowView(c))
	}
	out := mat.NewDense(b, s.n, nil)
	err := parallel.Each(context.WithoutCancel(ctx), s.n, func(i int) {
		row := s.Squared[i*s.n : (i+1)*s.n]
		for c := range b {
			out.Set(c, i, -linalg.Dot(row, columns.RawRowView(c))/2)
		}
	})
	if err != nil {
		panic(err) // an operator has no error; whoever applies it recovers
	}
	for c := range b {
		centreVector(out.RawRowView(c))
	}
	dst.Copy(out.T())
}

func centreVector(v []float64) {
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for i := range v {
		v[i] -= mean
	}
}

// least is a bound for the smallest eigenvalue from above, near it: the
// smallest Ritz value of a short Krylov space.
func (s *scaling) least(ctx context.Context) float64 {
	steps := min(20, s.n-1)
	basis := make([]*mat.Dense, 0, steps)
	h := mat.NewSymDense(steps, nil)
	v := mat.NewDense(s.n, 1, nil)
	for i := range s.n { // nothing is special about it
		v.Set(i, 0, math.Sin(float64(i*i+1)))
	}
	next := mat.NewDense(s.n, 1, nil)
	for k := range steps {
		for range 2 { // twice is enough (Kahan and Parlett)
			for _, q := range basis {
				projection := mat.Dot(q.ColView(0), v.ColView(0))
				next.Scale(projection, q)
				v.Sub(v, next)
			}
		}
		norm := mat.Norm(v, 2)
		if norm == 0 {
			break
		}
		q := mat.NewDense(s.n, 1, nil)
		q.Scale(1/norm, v)
		basis = append(basis, q)
		s.Apply(ctx, v, q)
		for j, p := range basis {
			h.SetSym(j, k, mat.Dot(p.ColView(0), v.ColView(0)))
		}
	}
	// With vectors, though none are used: for values alone gonum's Dsterf panics
	// where the entries are below 1e-122.
	var eig mat.EigenSym
	if !eig.Factorize(h.SliceSym(0, len(basis)), true) {
		return 0
	}
	return eig.Values(nil)[0]
}
