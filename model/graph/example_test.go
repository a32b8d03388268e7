package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/pencil"
)

var ctx = context.Background()

// arc is n rows on a half circle.
func arc(n int) *mat.Dense {
	x := mat.NewDense(n, 2, nil)
	for i := range n {
		t := math.Pi * float64(i) / float64(n-1)
		x.SetRow(i, []float64{math.Cos(t), math.Sin(t)})
	}
	return x
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleNearest() {
	x := mat.NewDense(4, 1, []float64{0, 1, 3, 3})
	nb, err := graph.Nearest(ctx, x, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range nb.Len() {
		index, dist2 := nb.Row(i)
		fmt.Println(i, index, dist2)
	}
	// Output:
	// 0 [1 2] [1 9]
	// 1 [0 2] [1 4]
	// 2 [3 1] [0 4]
	// 3 [2 1] [0 4]
}

func ExampleNeighbors_ShortestPairs() {
	x, y := mat.NewDense(4, 1, []float64{0, 1, 3, 7}), []int{0, 0, 1, 1}
	_, others, err := graph.NearestByClass(ctx, x, y, 0, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	margin := others.ShortestPairs(2, nil) // the two shortest pairs between classes
	for i := range margin.Len() {
		index, dist2 := margin.Row(i)
		fmt.Println(i, index, dist2)
	}
	// Output:
	// 0 [2] [9]
	// 1 [2] [4]
	// 2 [] []
	// 3 [] []
}

func ExampleNearestByClass() {
	x, y := mat.NewDense(4, 1, []float64{0, 1, 3, 7}), []int{0, 0, 1, 1}
	own, others, err := graph.NearestByClass(ctx, x, y, 1, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	same, _ := own.Row(1)
	other, _ := others.Row(1)
	fmt.Println(same, other)
	// Output: [0] [2 3]
}

func ExampleNearestTo() {
	ref, query := mat.NewDense(3, 1, []float64{0, 1, 3}), mat.NewDense(1, 1, []float64{2.5})
	nb := must(graph.NearestTo(ctx, ref, query, 2))
	fmt.Println(nb.Row(0))
	// Output: [2 1] [0.25 2.25]
}

// Locality preserving projections are a pencil of two forms of one graph.
func ExampleLaplacianForm() {
	x := mat.NewDense(6, 2, []float64{-5, 1, -3, -1, -1, 1, 1, -1, 3, 1, 5, -1})
	nb := must(graph.Nearest(ctx, x, 2))
	w := must(nb.Weights(graph.Union, graph.Heat(nb.MeanNearest())))
	locality := must(graph.LaplacianForm(ctx, x, w))
	scale := must(graph.DegreeForm(ctx, x, w.Degrees()))
	metric := must(pencil.Ridge(locality, pencil.Rho(0.01, locality, 2)))
	s := must(pencil.Solve(ctx, scale, metric, pencil.Max, 1))
	fmt.Printf("%.1f\n", mat.Col(nil, 0, s.Vectors)[0]/mat.Col(nil, 0, s.Vectors)[1])
	// Output: 7.9
}

// Laplacian eigenmaps are the low end of a sparse operator, the constant taken
// out: along an arc they order its rows.
func ExampleMatrix_Laplacian() {
	x := arc(200)
	w := must(must(graph.Nearest(ctx, x, 4)).Weights(graph.Union, graph.Binary))
	root, scale := mat.NewDense(200, 1, nil), make([]float64, 200)
	for i, d := range w.Degrees() {
		root.Set(i, 0, math.Sqrt(d)) // D^1/2 1: the constant vector, in these coordinates
		scale[i] = 1 / math.Sqrt(d)
	}
	part := must(pencil.Partial(ctx, w.Laplacian().Scale(scale), pencil.Min, 1, root))
	y := make([]float64, 200)
	for i := range y {
		y[i] = scale[i] * part.Vectors.At(i, 0)
	}
	y = y[4:196] // at the ends neighbours are the same rows, and so are outputs
	up := slices.IsSorted(y)
	slices.Reverse(y)
	fmt.Println("in order:", up || slices.IsSorted(y))
	// Output: in order: true
}

func ExampleNeighbors_Connect() {
	x := mat.NewDense(5, 1, []float64{0, 1, 10, 11, 30})
	nb := must(graph.Nearest(ctx, x, 1))
	_, _, err := nb.Connect(ctx, x, graph.Refuse)
	var apart *graph.DisconnectedError
	fmt.Println(errors.As(err, &apart), err)
	_, edges, _ := nb.Connect(ctx, x, graph.Connect)
	fmt.Println(edges)
	// Output:
	// true the neighbourhood graph has 2 components, of [3 2] rows; give more neighbours, or connect the components
	// [{1 2 81}]
}

func ExampleMatrix_Connect() {
	x := mat.NewDense(4, 1, []float64{0, 1, 10, 11})
	w := must(must(graph.Nearest(ctx, x, 1)).Weights(graph.Union, graph.Heat(1)))
	connected, edges, _ := w.Connect(ctx, x, graph.Connect, graph.Heat(1))
	fmt.Printf("%v %.2g\n", edges, connected.At(1, 2)) // the median weight, exp(-1)
	// Output: [{1 2 81}] 0.37
}

func ExampleGeodesics() {
	x := arc(181)
	lengths := must(must(graph.Nearest(ctx, x, 2)).Weights(graph.Union, graph.Length))
	g := must(graph.Geodesics(ctx, lengths))
	fmt.Printf("%.3f\n", g.At(0, 180))
	// Output: 3.142
}

// A custom method: part matrices of local tangent spaces, aligned, for its nonlinear and its linear form.
func ExampleAlign() {
	x := arc(60)
	nb := must(graph.Nearest(ctx, x, 6))
	tangents := must(graph.Tangents(ctx, x, nb.Patches(), graph.FixedDim(1)))
	patches := func(yield func(graph.Patch) bool) {
		for _, t := range tangents {
			if !yield(graph.Patch{Rows: t.Rows, L: graph.TangentPart(t)}) {
				return
			}
		}
	}
	b := must(graph.Align(60, patches))
	linear := must(graph.WeightForm(ctx, x, b))
	fmt.Println(b.Order(), linear.SymmetricDim())
	// Output: 60 2
}

// Linear discriminant analysis in the metric framework: every pair is
// dissimilar, pairs of a class are similar.
func ExampleFromDS() {
	x := mat.NewDense(6, 2, []float64{-3, 1, -3, 0, -2, -1, 2, 1, 3, 0, 3, -1})
	d, s := mat.NewDense(6, 6, nil), mat.NewDense(6, 6, nil)
	for i := range 6 {
		for j := range 6 {
			d.Set(i, j, 1)
			if i/3 == j/3 {
				s.Set(i, j, 1./3)
			}
		}
	}
	n, p, err := graph.FromDS(ctx, x, d, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	best := must(pencil.Solve(ctx, n, must(pencil.Cut(p)), pencil.Max, 1))
	fmt.Printf("%.3f\n", best.Vectors.At(0, 0)/best.Vectors.At(1, 0))
	// Output: 2.000
}

func ExampleBarycentric() {
	x := mat.NewDense(3, 1, []float64{0, 1, 4})
	w := must(graph.Barycentric(ctx, x, x, must(graph.Nearest(ctx, x, 2)), 1e-9))
	fmt.Printf("%.3f\n", mat.Row(nil, 1, w)) // 1 = 0.75 * 0 + 0.25 * 4
	// Output: [0.750 0.000 0.250]
}

func ExamplePartition() {
	patches := must(graph.Partition(ctx, arc(40), 3, 12))
	rows := 0
	for _, p := range patches {
		rows += len(p)
	}
	fmt.Println(len(patches), rows)
	// Output: 5 40
}
