package manifold

import (
	"context"
	"fmt"
	"math"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// le: the smallest L v = lambda D v after the constant, W the weights of the k nearest rows, D its degrees, L = D
// - W; v'Dv = 1. Belkin and Niyogi, Neural Computation 15, 2003, section 2.
var LE = frame.Method{
	Name: "le", Title: "Laplacian eigenmaps",
	Paper: "Belkin and Niyogi, Laplacian eigenmaps for dimensionality reduction and data representation, Neural " +
		"Computation 2003",
	Map: "extension", Streaming: "window",
	Params: []frame.Param{
		frame.IntParam("k", "10", "nearest rows that each row is joined with", 1).WithGrid(frame.NeighbourCounts...),
		frame.HeatParam("inf", frame.HeatDoc).WithGrid("inf", "auto", "0.0001", "0.01", "0.25", "1"), // inf in place of 100
		frame.ComponentsParam,
	},
	Bound: frame.RowsLessOne,
	Memory: func(e frame.Extent) int64 {
		return e.Lists(e.Int("k", 0)) + e.Copies(0, 1000) + e.Factor(e.Int("k", 0))
	},
	Fit:    fitLE,
	Nested: true,
}

func fitLE(ctx context.Context, t *frame.Task) *frame.Solution {
	lists := frame.Nearest(ctx, t, "k")
	width := frame.HeatWidth(t, lists)
	// Edges of weight 1 between nearly all rows show nothing, and rows with the same neighbours have the eigenvalue 1,
	// which no new row can be mapped with.
	if k := t.Int("k"); math.IsInf(width, 1) && 2*k > t.Rows.N {
		width = lists.MeanNearest()
		t.Report.Note(fmt.Sprintf("k=%d joins most of %d rows: their edges have heat weights of width %.4g in place of 1", k,
			t.Rows.N, width))
	}
	y, lambda := frame.LaplacianEigenmap(ctx, t, frame.Connected(ctx, t, lists, graph.Heat(width)))
	e := &mapping.Nystrom{Training: t.Training(nil, y, t.D), Lambda: lambda, Rate: min(1/width, math.MaxFloat64)}
	e.Reach, e.K = reaches(&e.Training, lists)
	return t.Mapped(e, lambda, t.D).Use("t", width)
}

// reaches are the squared distances of the rows to the last of their lists, computed as the extension computes them,
// and the length of the lists.
func reaches(t *mapping.Training, lists *graph.Neighbors) (reach []float64, k int) {
	n := t.Len()
	m := len(t.Rows) / n
	reach = make([]float64, n)
	for i := range reach {
		index, _ := lists.Row(i)
		k = len(index)
		j := index[k-1]
		reach[i] = linalg.SquaredDistance(t.Rows[i*m:(i+1)*m], t.Rows[j*m:(j+1)*m])
	}
	return reach, k
}
