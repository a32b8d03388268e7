package margin

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/pencil"
)

// lsmpa: max (X L_D X', X L_S X' + rho I) of the (D, S) metric framework, with g
// the geodesics of the neighbourhood graph of all rows over the largest of them:
//
//	D_ij = l1 g_ij in one class, l2 / g_ij between classes
//	S_ij = l3 / g_ij in one class, 0 between classes
//
// Rows of one class that are near on the manifold stay together, and near rows of different classes are separated.
// Sub-manifold preserving analysis, linear form.
var LSMPA = frame.Method{
	Name: "lsmpa", Title: "linear sub-manifold preserving analysis",
	Paper:      "Sub-manifold preserving analysis (SMPA) and its metric framework of dissimilarity and similarity",
	Supervised: true, Map: "linear", Streaming: "window",
	Params: append(smpaParams(), frame.RidgeParam("auto",
		"relative ridge of the similarity form: auto (cross-validation), oas, or a number; 0 is the literal form", true)),
	Ridge: &frame.RidgeRule{Scatter: frame.WithinScatter, Grid: []float64{0.1, 1}},
	Memory: func(e frame.Extent) int64 {
		return e.Copies(3, 1000+80*e.Int("k", 0)) + frame.Pairs(min(e.Rows, smpaRows), 36)
	},
	Fit:    frame.Maximize(lsmpaRatio, pencil.Max),
	Nested: true,
	Auto:   &frame.Candidate{Rank: 5, OneScale: true},
}

// smpaRows limits the rows: geodesics, D and S are n x n.
const smpaRows = 2000

func smpaParams() []frame.Param {
	return []frame.Param{
		frame.IntParam("k", "5", "nearest rows that each row is joined with in the graph of the geodesics",
			1).WithGrid("5", "10", "20"),
		frame.FloatParam("l1", "1", "weight of dissimilarity in a class", 0, 1e6),
		frame.FloatParam("l2", "1", "weight of dissimilarity between classes", 0, 1e6),
		frame.FloatParam("l3", "1", "weight of similarity in a class", 1e-6, 1e6),
	}
}

func lsmpaRatio(ctx context.Context, t *frame.Task) *frame.Ratio {
	t = t.Capped(smpaRows)
	dissimilar, similar := smpaWeights(ctx, t)
	n, d := fail.Must2(graph.FromDS(ctx, t.X, dissimilar, similar))
	return &frame.Ratio{N: n, D: d}
}

// smpaWeights are D and S, n x n.
func smpaWeights(ctx context.Context, t *frame.Task) (dissimilar, similar *pairs) {
	g, n, y := nearness(ctx, t), t.Rows.N, t.Rows.Y
	l1, l2, l3 := t.Float("l1"), t.Float("l2"), t.Float("l3")
	return &pairs{g, n, y, l1, l2, false}, &pairs{g, n, y, l3, 0, true}
}

// pairs is a matrix of weights of pairs of rows, n x n. The weight of a pair with nearness g is between/g if the rows
// are of different classes; if they are of one class, it is within/g if isInverse, and otherwise within times g. The
// diagonal is 0.
type pairs struct {
	nearness        []float64
	n               int
	y               []int // class of each row
	within, between float64
	isInverse       bool
}

func (w *pairs) weight(i, j int, g float64) float64 {
	switch {
	case w.y[i] != w.y[j]:
		return w.between / g
	case w.isInverse:
		return w.within / g
	}
	return w.within * g
}

// Dims, At and T make it a mat.Matrix.
func (w *pairs) Dims() (rows, cols int) { return w.n, w.n }

// At is the weight of a pair.
func (w *pairs) At(i, j int) float64 {
	if i == j {
		return 0
	}
	return w.weight(i, j, w.nearness[i*w.n+j])
}

// T is the matrix itself.
func (w *pairs) T() mat.Matrix { return w }

// RowTo writes row i to dst.
func (w *pairs) RowTo(dst []float64, i int) {
	for j, g := range w.nearness[i*w.n:][:len(dst)] {
		dst[j] = w.weight(i, j, g)
	}
	dst[i] = 0
}

// nearness is the geodesics over the largest, n x n, so that they are in (0, 1] and a near pair is more similar than
// dissimilar. Equal rows have distance 0, which would make their weights infinite: the minimum is 1e-3 of the median.
func nearness(ctx context.Context, t *frame.Task) []float64 {
	lengths, _, _ := frame.Geodesics(ctx, t, graph.Connect)
	n, g := lengths.SymmetricDim(), lengths.RawSymmetric().Data
	largest := 0.0
	for i := range n {
		for _, v := range g[i*n+i+1 : (i+1)*n] {
			if v > largest { // faster than max, which also checks for NaN
				largest = v
			}
		}
	}
	if largest == 0 {
		panic(fail.With(fmt.Errorf("all %d rows are equal: there are no geodesics", n)))
	}
	least := 1e-3 * medianPositive(g, n, largest)
	linalg.AboveDiagonal(n, func(i, from, to int) {
		for j := from; j < to; j++ {
			v := g[i*n+j]
			if v < least {
				v = least
			}
			v /= largest
			g[i*n+j], g[j*n+i] = v, v
		}
	})
	return g
}

// medianPositive is the median of the positive numbers above the diagonal of g, n x n, whose maximum is largest. It
// counts them in equal parts of the range and copies only those of the part with the median, to save memory.
func medianPositive(g []float64, n int, largest float64) float64 {
	const sizes = 1 << 12 // equal parts of the range: a median is among a few thousandths of the numbers
	size := func(v float64) int { return int(v / largest * (sizes - 1)) }
	each := func(f func(v float64)) {
		for i := range n {
			for _, v := range g[i*n+i+1 : (i+1)*n] {
				if v > 0 {
					f(v)
				}
			}
		}
	}
	total, count := 0, make([]int, sizes)
	each(func(v float64) {
		total++
		count[size(v)]++
	})
	below, first := 0, 0 // numbers of sizes below the first one that is kept
	for ; below+count[first] <= (total-1)/2; first++ {
		below += count[first]
	}
	last := first
	for upTo := below + count[first]; upTo <= total/2; upTo += count[last] {
		last++
	}
	var kept []float64
	each(func(v float64) {
		if at := size(v); first <= at && at <= last {
			kept = append(kept, v)
		}
	})
	upper := linalg.Select(kept, total/2-below)
	if total%2 == 1 {
		return upper
	}
	return (linalg.Select(kept, total/2-1-below) + upper) / 2
}
