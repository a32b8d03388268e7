package model

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/pencil"
)

// isomap: classical scaling of the geodesics G of the graph of the k nearest
// rows: the largest eigenpairs of B = -H G^2 H/2 (squares of entries), Y =
// V Lambda^1/2. Tenenbaum, de Silva and Langford, Science 290, 2000. It holds the
// geodesics, 8 n^2 bytes.
var isomap = Method{
	Name: "isomap", Title: "ISOMAP",
	Paper: "Tenenbaum, de Silva and Langford, A global geometric framework for nonlinear dimensionality reduction, Science 2000",
	Map:   "extension", Streaming: "window",
	Params: []Param{
		intParam("k", "10", "nearest rows that each row is joined with", 1).tried(neighbourCounts...),
		componentsParam,
	},
	dim:     twoColumns,
	bound:   rowsLessOne,
	samples: true,
	fit:     fitIsomap,
}

// maxGeodesics is the most rows whose n x n geodesics are held: 3.2 GB.
const maxGeodesics = 20000

// geodesics are those of the graph of the k nearest rows, with the lengths of its
// edges, and k as it was clamped to the rows there are. repair is for a graph that
// falls apart.
func (t *task) geodesics(ctx context.Context, repair graph.Repair) (g *mat.SymDense, lengths *graph.Matrix, k int, err error) {
	lists, err := t.nearest(ctx, "k")
	if err != nil {
		return nil, nil, 0, err
	}
	first, _ := lists.Of(0)
	lists, edges, err := lists.Connect(ctx, t.x, repair)
	if err != nil {
		return nil, nil, 0, err
	}
	t.noteEdges(edges)
	if lengths, err = lists.Weights(graph.Union, graph.Length); err != nil {
		return nil, nil, 0, err
	}
	t.say("geodesics", 0)
	g, err = graph.Geodesics(ctx, lengths)
	return g, lengths, len(first), err
}

func fitIsomap(ctx context.Context, t *task) (*solution, error) {
	if n := t.rows.n; n > maxGeodesics {
		return nil, fmt.Errorf("%d rows need %.0f GB for the geodesics between them; give at most %d", n, 8e-9*float64(n)*float64(n), maxGeodesics)
	}
	g, lengths, k, err := t.geodesics(ctx, graph.Repair(t.params["components"]))
	if err != nil {
		return nil, err
	}
	b := newScaling(g)
	t.say("eigenvectors", 0)
	part, err := pencil.Partial(ctx, b, pencil.Max, t.d, constant(t.rows.n))
	if err != nil {
		return nil, err
	}
	t.found(part)
	for c, l := range part.Values {
		if !(l > float64(t.rows.n)*0x1p-52*part.Largest) {
			return nil, &pencil.RankError{Asked: t.d, Max: c}
		}
	}
	if least := b.least(); least < -1e-6*part.Largest {
		t.report.note(fmt.Sprintf("the geodesics are not those of a Euclidean space: an eigenvalue is %.3g of the largest, or less; negative ones are left out", least/part.Largest))
	}
	y := part.Vectors
	for i := range t.rows.n {
		row := y.RawRowView(i)
		for c, l := range part.Values {
			row[c] *= math.Sqrt(l)
		}
	}
	e := &geodesic{training: t.training(nil, y.RawMatrix().Data, t.d), lambda: part.Values, mean: b.mean, k: k}
	for i := range t.rows.n {
		index, value := lengths.Row(i)
		for p, j := range index {
			if i < j {
				e.edge, e.length = append(e.edge, float64(i), float64(j)), append(e.length, value[p])
			}
		}
	}
	return &solution{d: t.d, eigenvalues: part.Values, informative: t.d, mapping: e}, nil
}

// scaling is B = -H S H/2 of squared distances S, as an operator: S is held,
// and centring is done on the vectors.
type scaling struct {
	n       int
	squared []float64 // n x n
	mean    []float64 // of the columns of S
}

// newScaling squares the distances in their own memory, which it takes.
func newScaling(distances *mat.SymDense) *scaling {
	raw := distances.RawSymmetric()
	s := &scaling{n: raw.N, squared: raw.Data, mean: make([]float64, raw.N)}
	for i := range s.n {
		row := s.squared[i*s.n : (i+1)*s.n]
		for j := i; j < s.n; j++ {
			row[j] *= row[j]
			s.squared[j*s.n+i] = row[j]
		}
	}
	for i := range s.n {
		for j, v := range s.squared[i*s.n : (i+1)*s.n] {
			s.mean[j] += v / float64(s.n)
		}
	}
	return s
}

func (s *scaling) Order() int { return s.n }

// Apply sets dst to B x.
func (s *scaling) Apply(dst, x *mat.Dense) {
	_, b := x.Dims()
	columns := mat.DenseCopyOf(x.T())
	for c := range b {
		centreVector(columns.RawRowView(c))
	}
	out := mat.NewDense(b, s.n, nil)
	err := parallel.Each(context.Background(), s.n, func(i int) {
		row := s.squared[i*s.n : (i+1)*s.n]
		for c := range b {
			out.Set(c, i, -dot(row, columns.RawRowView(c))/2)
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
func (s *scaling) least() float64 {
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
		s.Apply(v, q)
		for j, p := range basis {
			h.SetSym(j, k, mat.Dot(p.ColView(0), v.ColView(0)))
		}
	}
	// With vectors, which nobody needs: for values alone gonum's Dsterf panics
	// where the entries are below 1e-122.
	var eig mat.EigenSym
	if !eig.Factorize(h.SliceSym(0, len(basis)), true) {
		return 0
	}
	return eig.Values(nil)[0]
}
