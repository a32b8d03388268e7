package manifold

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// isomap: classical scaling of the geodesics G of the graph of the k nearest rows: the largest eigenpairs of B = -H G^2
// H/2 (squares of entries), Y = V Lambda^1/2. Tenenbaum, de Silva and Langford, Science 290, 2000. It holds the
// geodesics in memory, 8 n^2 bytes.
var Isomap = frame.Method{
	Name: "isomap", Title: "ISOMAP",
	Paper: "Tenenbaum, de Silva and Langford, A global geometric framework for nonlinear dimensionality reduction, " +
		"Science 2000",
	Map: "extension", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "10", "nearest rows that each row is joined with", 1).WithGrid(frame.NeighbourCounts...),
		frame.ComponentsParam,
	},
	Bound: frame.RowsLessOne,
	Memory: func(e frame.Extent) int64 {
		kept := 2 * min(frame.Pairs(e.Rows, 8), mapping.MaxPaths) // by a candidate and the model that it may replace
		return e.Lists(e.Int("k", 0)) + e.Copies(0, 1500) + frame.Pairs(e.Rows, 8) + kept
	},
	MaxRows: maxGeodesics,
	Fit:     fitIsomap,
	Nested:  true,
}

// maxGeodesics is the maximum number of rows whose n x n geodesics are held in memory: 3.2 GB.
const maxGeodesics = 20000

func fitIsomap(ctx context.Context, t *frame.Task) *frame.Solution {
	if n := t.Rows.N; n > maxGeodesics {
		panic(fail.With(fmt.Errorf("%d rows need %.0f GB for the geodesics between them; give at most %d", n,
			8e-9*float64(n)*float64(n), maxGeodesics)))
	}
	g, lengths, k := frame.Geodesics(ctx, t, graph.Repair(t.Params["components"]))
	b := NewScaling(ctx, g)
	t.ReportProgress("eigenvectors", 0)
	part := fail.Must(pencil.Partial(ctx, b, pencil.Max, t.D, linalg.Constant(t.Rows.N)))
	t.Found(part)
	for c, l := range part.Values {
		if !(l > float64(t.Rows.N)*0x1p-52*part.Largest) {
			panic(fail.With(&pencil.RankError{Asked: t.D, Max: c}))
		}
	}
	if least := part.SmallestBound(); least < -1e-6*part.Largest {
		t.Report.Note(fmt.Sprintf("the geodesics are not Euclidean: an eigenvalue is %.3g of the largest, or less; "+
			"negative ones are left out", least/part.Largest))
	}
	y := part.Vectors
	for i := range t.Rows.N {
		row := y.RawRowView(i)
		for c, l := range part.Values {
			row[c] *= math.Sqrt(l)
		}
	}
	e := &mapping.Geodesic{Training: t.Training(nil, y.RawMatrix().Data, t.D), Lambda: part.Values, Square: b.mean, K: k}
	for i := range t.Rows.N {
		index, value := lengths.Row(i)
		for p, j := range index {
			if i < j {
				e.Edge, e.Length = append(e.Edge, float64(i), float64(j)), append(e.Length, value[p])
			}
		}
	}
	return t.Mapped(e, part.Values, t.D)
}

// scaling is B = -H S H/2 of squared distances S, as an operator: it stores S, and centres the vectors. Only its upper
// triangle counts, and the squares of scalingRows rows on the diagonal.
type scaling struct {
	n       int
	Squared []float64 // n x n
	mean    []float64 // of the columns of S
}

const (
	scalingRows  = 64  // rows in one unit of work
	scalingSpan  = 512 // columns of them that stay in a cache
	scalingParts = 8   // separate partial sums, whatever the number of cores
)

// NewScaling squares the distances in place and takes ownership of them.
func NewScaling(ctx context.Context, distances *mat.SymDense) *scaling {
	raw := distances.RawSymmetric()
	s := &scaling{n: raw.N, Squared: raw.Data, mean: make([]float64, raw.N)}
	fail.Check(parallel.Each(ctx, (s.n+scalingRows-1)/scalingRows, func(b int) {
		to := min(s.n, (b+1)*scalingRows)
		for i := b * scalingRows; i < to; i++ {
			row := s.Squared[i*s.n : (i+1)*s.n]
			for j := i; j < s.n; j++ {
				row[j] *= row[j]
			}
			for j := i + 1; j < to; j++ {
				s.Squared[j*s.n+i] = row[j]
			}
		}
	}))
	x, y := make([]float64, s.n*tile.Thin), make([]float64, s.n*tile.Thin)
	for i := range s.n {
		x[i*tile.Thin] = 1 / float64(s.n)
	}
	s.product(ctx, y, x)
	for i := range s.mean {
		s.mean[i] = y[i*tile.Thin]
	}
	return s
}

func (s *scaling) Order() int { return s.n }

// Apply sets dst to B x.
func (s *scaling) Apply(ctx context.Context, dst, x *mat.Dense) {
	_, b := x.Dims()
	column := make([]float64, s.n)
	in, out := make([]float64, s.n*tile.Thin), make([]float64, s.n*tile.Thin)
	for from := 0; from < b; from += tile.Thin {
		clear(in)
		to := min(b, from+tile.Thin)
		for c := from; c < to; c++ {
			centreVector(mat.Col(column, c, x))
			for i, v := range column {
				in[i*tile.Thin+c-from] = v
			}
		}
		s.product(context.WithoutCancel(ctx), out, in)
		for c := from; c < to; c++ {
			for i := range column {
				column[i] = -out[i*tile.Thin+c-from] / 2
			}
			centreVector(column)
			dst.SetCol(c, column)
		}
	}
}

// product sets y to S x, for tile.Thin vectors side by side. Each number of S is read once for both of its entries.
func (s *scaling) product(ctx context.Context, y, x []float64) {
	parts := make([][]float64, scalingParts)
	fail.Check(parallel.Each(ctx, len(parts), func(p int) {
		sum := make([]float64, len(y))
		parts[p] = sum
		for from := p * scalingRows; from < s.n; from += len(parts) * scalingRows {
			to := min(s.n, from+scalingRows)
			rows, own := s.Squared[from*s.n:to*s.n], sum[from*tile.Thin:]
			tile.Along(own, rows[from:], to-from, to-from, s.n, x[from*tile.Thin:], 1)
			for j := to; j < s.n; j += scalingSpan {
				span := min(s.n-j, scalingSpan)
				tile.Along(own, rows[j:], to-from, span, s.n, x[j*tile.Thin:], 1)
				tile.Across(sum[j*tile.Thin:], rows[j:], to-from, span, s.n, x[from*tile.Thin:])
			}
		}
	}))
	clear(y)
	for _, sum := range parts {
		for i, v := range sum {
			y[i] += v
		}
	}
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
