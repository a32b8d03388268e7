package onnx

import (
	"fmt"

	"github.com/embedd/embedd/model/internal/mapping"
)

// maxUnrolled bounds the neighbours of a row: a graph has nodes for each of them.
const maxUnrolled = 256

// neighbours are the k rows of the fit that are nearest to each z.
type neighbours struct {
	g         *graph
	rows      string // n x m
	embedding string // n x d
	all       string // squared distances from all rows, rows x n, by one product
	index     string // rows x k
	distance  string // squared, by differences, rows x k
	least     string // of distance, rows x 1
	nearest   string // index of the row at that distance, rows
}

// find finds the neighbours by one product, and measures their distances by differences, so that a row of the fit has
// distance 0 from itself.
func find(g *graph, z string, m, k int, t *mapping.Training) (*neighbours, error) {
	if k > maxUnrolled {
		return nil, fmt.Errorf("%d neighbours, each of which needs operators; at most %d", k, maxUnrolled)
	}
	x := &neighbours{g: g, rows: g.floats(t.Rows, t.Len(), m), embedding: g.floats(t.Embedding, t.Len(), t.D)}
	x.all = distances(g, z, m, t.Rows)
	x.index = g.smallest(x.all, k)[1]
	measured := make([]string, k)
	for i := range measured {
		gap := g.op("Sub", z, g.op("Gather", x.rows, x.of(i)))
		measured[i] = g.sum(g.squared(gap), 1)
	}
	x.distance = g.with("Concat", []attribute{one("axis", 1)}, measured...)
	first := g.smallest(x.distance, 1)
	x.least = first[0]
	x.nearest = g.flat(g.with("GatherElements", []attribute{one("axis", 1)}, x.index, first[1]))
	return x, nil
}

// smallest are the k smallest numbers of each row, ascending, and where they are.
func (g *graph) smallest(x string, k int) []string {
	return g.outputs(2, "TopK", []attribute{one("largest", 0)}, x, g.ints([]int{k}, 1))
}

// flat drops the axis of a matrix of one column.
func (g *graph) flat(x string) string { return g.op("Squeeze", x, g.ints([]int{1}, 1)) }

// of is the index of neighbour i of each row.
func (x *neighbours) of(i int) string { return x.g.flat(x.g.column(x.index, i)) }

// ones are rows x k of 1.
func (x *neighbours) ones() string { return x.g.cast(x.g.op("Equal", x.index, x.index), float64Type) }

// placed is the embedding of the nearest row.
func (x *neighbours) placed() string { return x.g.op("Gather", x.embedding, x.nearest) }

// known is y, but for rows equal to one of the fit the embedding of that one, and NaN for rows whose distance exceeds
// float64.
func (x *neighbours) known(y string) string {
	g := x.g
	y = g.op("Where", g.op("LessOrEqual", x.least, g.number(g.equal)), x.placed(), y)
	return g.op("Add", y, g.op("Sub", x.least, x.least))
}

func nystrom(g *graph, z string, m int, f *mapping.Nystrom) (string, error) {
	x, err := find(g, z, m, f.K, &f.Training)
	if err != nil {
		return "", err
	}
	n := f.Len()
	weights := g.cast(g.op("Less", x.all, g.floats(f.Reach, n)), float64Type)
	weights = g.with("ScatterElements", []attribute{one("axis", 1)}, weights, x.index, x.ones())
	if f.Rate > 0 {
		beyond := g.op("Max", g.op("Sub", x.all, x.least), g.number(0))
		weights = g.op("Mul", weights, g.op("Exp", g.op("Mul", beyond, g.number(-f.Rate))))
	}
	y := g.op("Div", g.op("MatMul", weights, x.embedding), g.sum(weights, 1))
	divisor := make([]float64, f.D)
	for c, l := range f.Lambda {
		divisor[c] = 1 - l
	}
	y = g.op("Div", y, g.floats(divisor, f.D))
	// All weights underflow: the nearest row.
	largest := g.op("Exp", g.op("Mul", x.least, g.number(-f.Rate)))
	return x.known(g.op("Where", g.op("Equal", largest, g.number(0)), x.placed(), y)), nil
}

// barycentric solves for the weights of k neighbours by Gauss and Jordan's elimination, unrolled. The matrix is
// positive definite, so it needs no pivots.
func barycentric(g *graph, z string, m int, f *mapping.Barycentric) (string, error) {
	x, err := find(g, z, m, f.K, &f.Training)
	if err != nil {
		return "", err
	}
	k := f.K
	gap := g.op("Sub", g.op("Unsqueeze", z, g.ints([]int{1}, 1)), g.op("Gather", x.rows, x.index)) // rows x k x m
	farthest := g.with("ReduceMax", []attribute{many("axes", 1)}, x.distance)
	gap = g.op("Div", gap, g.op("Unsqueeze", g.op("Sqrt", farthest), g.ints([]int{2}, 1)))
	gram := g.op("MatMul", gap, g.with("Transpose", []attribute{many("perm", 0, 2, 1)}, gap))
	trace := g.op("ReduceSum", g.squared(gap), g.ints([]int{1, 2}, 2))
	unit := make([]float64, k*k)
	for i := range k {
		unit[i*k+i] = f.Regular
	}
	gram = g.op("Add", gram, g.op("Mul", trace, g.floats(unit, k, k)))
	right := g.op("Unsqueeze", x.ones(), g.ints([]int{2}, 1))
	a := g.with("Concat", []attribute{one("axis", 2)}, gram, right) // rows x k x (k + 1)
	pick := func(axis, i int, from string) string {
		return g.with("Gather", []attribute{one("axis", axis)}, from, g.ints([]int{i}, 1))
	}
	for i := range k {
		row := pick(1, i, a)
		row = g.op("Div", row, pick(2, i, row))
		e := make([]float64, k)
		e[i] = 1
		column := g.op("Sub", pick(2, i, a), g.floats(e, k, 1))
		a = g.op("Sub", a, g.op("Mul", column, row))
	}
	w := pick(2, k, a)
	w = g.op("Div", w, g.sum(w, 1))
	y := g.sum(g.op("Mul", w, g.op("Gather", x.embedding, x.index)), 1)
	return x.known(g.op("Squeeze", y, g.ints([]int{1}, 1))), nil
}

func geodesic(g *graph, z string, m int, f *mapping.Geodesic) (string, error) {
	n := f.Len()
	if n*n > mapping.MaxPaths/8 {
		return "", fmt.Errorf("the paths between %d rows take %d MiB, the limit is %d: fit on fewer rows", n, n*n*8>>20,
			mapping.MaxPaths>>20)
	}
	x, err := find(g, z, m, f.K, &f.Training)
	if err != nil {
		return "", err
	}
	between, err := f.Paths(m)
	if err != nil {
		return "", err
	}
	table, start := g.floats(between, n, n), g.op("Sqrt", x.distance)
	path := ""
	for i := range f.K {
		through := g.op("Add", g.column(start, i), g.op("Gather", table, x.of(i)))
		if path != "" {
			through = g.op("Min", path, through)
		}
		path = through
	}
	y := g.op("MatMul", g.op("Sub", g.floats(f.Square, n), g.squared(path)), x.embedding)
	divisor := make([]float64, f.D)
	for c, l := range f.Lambda {
		divisor[c] = 2 * l
	}
	return x.known(g.op("Div", y, g.floats(divisor, f.D))), nil
}

func tangent(g *graph, z string, m int, f *mapping.Tangent) (string, error) {
	x, err := find(g, z, m, 1, &f.Training)
	if err != nil {
		return "", err
	}
	patch := make([]int, f.Len())
	for i, v := range f.Patch {
		patch[i] = int(v)
	}
	gap := g.op("Unsqueeze", g.op("Sub", z, g.op("Gather", x.rows, x.nearest)), g.ints([]int{1}, 1))
	slope := g.op("Gather", g.floats(f.Slope, f.Count, m, f.D), g.op("Gather", g.ints(patch, f.Len()), x.nearest))
	moved := g.op("Squeeze", g.op("MatMul", gap, slope), g.ints([]int{1}, 1))
	return x.known(g.op("Add", x.placed(), moved)), nil
}
