package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// kernels is offset + sum_i a_i k(z, x_i).
func kernels(g *graph, z string, m int, f *mapping.KernelMap) (string, error) {
	n := len(f.Rows) / m
	near, weights, far := f.Rows, f.Coefficients, []int(nil)
	if f.K.Name == "gauss" {
		near, weights, far = nil, nil, outliers(f.Rows, m, mapping.MinExact*f.K.Param[0])
		for i := range n {
			if !slices.Contains(far, i) {
				near = append(near, f.Rows[i*m:(i+1)*m]...)
				weights = append(weights, f.Coefficients[i*f.D:(i+1)*f.D]...)
			}
		}
	}
	if len(far) > maxUnrolled {
		return "", fmt.Errorf("%d of %d rows of the fit are so far from the others that products lose the digits of "+
			"their distances, at most %d are measured one by one: leave outliers out of the fit", len(far), n, maxUnrolled)
	}
	y := g.floats(make([]float64, f.D), f.D)
	if len(near) > 0 {
		y = g.op("MatMul", kernel(g, z, m, near, f.K), g.floats(weights, len(near)/m, f.D))
	}
	for _, i := range far {
		d := g.sum(g.squared(g.op("Sub", z, g.floats(f.Rows[i*m:(i+1)*m], m))), 1)
		k := g.op("Exp", g.op("Mul", d, g.number(-1/f.K.Param[0])))
		y = g.op("Add", y, g.op("MatMul", k, g.floats(f.Coefficients[i*f.D:(i+1)*f.D], 1, f.D)))
	}
	if f.Offset != nil {
		y = g.op("Add", y, g.floats(f.Offset, f.D))
	}
	return y, nil
}

// outliers are the rows whose squared distance from the median is not below a limit.
func outliers(rows []float64, m int, limit float64) []int {
	var far []int
	centre := medians(rows, m)
	for i := range len(rows) / m {
		if !(linalg.SquaredDistance(rows[i*m:(i+1)*m], centre) < limit) {
			far = append(far, i)
		}
	}
	return far
}

// kernel is k of each z with each row, rows x n.
func kernel(g *graph, z string, m int, rows []float64, k mapping.Kernel) string {
	if k.Origin != nil {
		z = g.op("Add", z, g.floats(k.Origin, m))
		moved := make([]float64, len(rows))
		for i, v := range rows {
			moved[i] = v + k.Origin[i%m]
		}
		rows = moved
	}
	n := len(rows) / m
	across := linalg.Transpose(rows, m) // m x n
	switch k.Name {
	case "gauss":
		return g.op("Exp", g.op("Mul", distances(g, z, m, rows), g.number(-1/k.Param[0])))
	case "chi2":
		return chiSquared(g, z, n, across, k.Param[0])
	}
	product := g.op("MatMul", z, g.floats(across, m, n))
	switch k.Name {
	case "polynomial":
		return g.squared(g.op("Add", g.op("Div", product, g.number(k.Param[0])), g.number(1)))
	case "cosine":
		norms := make([]float64, n)
		for i := range norms {
			x := rows[i*m : (i+1)*m]
			norms[i] = math.Sqrt(linalg.Dot(x, x))
			if norms[i] == 0 {
				norms[i] = math.Inf(1)
			}
		}
		norm := g.op("Sqrt", g.sum(g.squared(z), 1))
		norm = g.op("Where", g.op("Equal", norm, g.number(0)), g.number(math.Inf(1)), norm)
		return g.op("Div", g.op("Div", product, norm), g.floats(norms, n))
	}
	return product
}

// chiSquared is exp(-s/p), s = sum (a-b)^2/(a+b) of non-negative values, one feature after the other.
func chiSquared(g *graph, z string, n int, across []float64, p float64) string {
	z = g.op("Max", z, g.number(0))
	total := ""
	for j := range len(across) / n {
		row := make([]float64, n)
		for i, v := range across[j*n : (j+1)*n] {
			row[i] = max(v, 0)
		}
		a, b := g.column(z, j), g.floats(row, n)
		both := g.op("Max", g.op("Add", a, b), g.number(0x1p-1022)) // 0/0 is 0
		s := g.op("Div", g.squared(g.op("Sub", a, b)), both)
		if total != "" {
			s = g.op("Add", total, s)
		}
		total = s
	}
	return g.op("Exp", g.op("Mul", total, g.number(-1/p)))
}

// distances are the squared distances of each z from each row, rows x n, by one product of what is left without the
// median of the rows: outliers move their mean away from most of them, and products lose digits there.
func distances(g *graph, z string, m int, rows []float64) string {
	n := len(rows) / m
	centre, norms := medians(rows, m), make([]float64, n)
	z, rows = g.op("Sub", z, g.floats(centre, m)), slices.Clone(rows)
	for i := range rows {
		rows[i] -= centre[i%m]
	}
	across := linalg.Transpose(rows, m)
	for i := range norms {
		norms[i] = linalg.Dot(rows[i*m:(i+1)*m], rows[i*m:(i+1)*m])
	}
	for i := range across {
		across[i] *= -2
	}
	d := g.op("Add", g.op("MatMul", z, g.floats(across, m, n)), g.floats(norms, n))
	return g.op("Max", g.op("Add", d, g.sum(g.squared(z), 1)), g.number(0))
}

// medians returns the median of each feature.
func medians(rows []float64, m int) []float64 {
	across, n, out := linalg.Transpose(rows, m), len(rows)/m, make([]float64, m)
	for j := range out {
		out[j] = linalg.Median(across[j*n : (j+1)*n])
	}
	return out
}

// sum is offset + z·A + r(z)·B + a kernel map.
func sum(g *graph, z string, m int, f *mapping.Sum) (string, error) {
	y := g.floats(f.Offset, f.D)
	if f.Linear != nil {
		y = g.op("Add", y, g.op("MatMul", z, g.floats(f.Linear, m, f.D)))
	}
	if f.Ranks != nil {
		y = g.op("Add", y, g.op("MatMul", scores(g, z, m, f.Ranks), g.floats(f.Ranked, m, f.D)))
	}
	if f.Kernel == nil {
		return y, nil
	}
	part, err := kernels(g, z, m, f.Kernel)
	if err != nil {
		return "", err
	}
	return g.op("Add", y, part), nil
}

// scores are the normal scores of z, rows x m: a binary search for the last knot that is not above z, unrolled.
func scores(g *graph, z string, m int, r *mapping.Ranks) string {
	first, last, most := make([]int, m), make([]int, m), 0
	for j := range m {
		first[j], last[j] = int(r.First[j]), int(r.First[j+1])-1
		most = max(most, last[j]-first[j])
	}
	value, score := g.floats(r.Value, len(r.Value)), g.floats(r.Score, len(r.Score))
	end := g.ints(last, m)
	step := 1
	for 2*step <= most {
		step *= 2
	}
	// z itself gives the search its rows.
	at := g.op("Where", g.op("Equal", z, z), g.ints(first, m), g.ints(first, m))
	for ; step > 0; step /= 2 {
		next := g.op("Add", at, g.ints([]int{step}))
		inside := g.op("LessOrEqual", next, end)
		reached := g.op("LessOrEqual", g.op("Gather", value, g.op("Min", next, end)), z)
		at = g.op("Where", g.op("And", inside, reached), next, at)
	}
	after := g.op("Min", g.op("Add", at, g.ints([]int{1})), end)
	low, high := g.op("Gather", value, at), g.op("Gather", value, after)
	gap := g.op("Sub", high, low)
	gap = g.op("Where", g.op("Equal", gap, g.number(0)), g.number(1), gap)
	share := g.op("Clip", g.op("Div", g.op("Sub", z, low), gap), g.number(0), g.number(1))
	from, to := g.op("Gather", score, at), g.op("Gather", score, after)
	return g.op("Add", from, g.op("Mul", share, g.op("Sub", to, from)))
}

// views maps each row by the view in which its membership degree is largest, one class after the other.
func views(g *graph, z string, m int, f *mapping.Views) string {
	n := len(f.Label)
	var own, other [][]int // window rows of each class, and of the others
	for c := range f.Count() {
		own, other = append(own, nil), append(other, nil)
		for i, l := range f.Label {
			if l == float64(c) {
				own[c] = append(own[c], i)
			} else {
				other[c] = append(other[c], i)
			}
		}
	}
	best, degree, nearest := "", "", ""
	for c := range f.Count() {
		if len(own[c]) == 0 || len(other[c]) == 0 {
			continue
		}
		v := g.op("MatMul", z, g.floats(f.Of(c), m, f.D))
		v = g.op("Add", v, g.floats(f.Offset[c*f.D:(c+1)*f.D], f.D))
		window := f.Window[c*n*f.D : (c+1)*n*f.D]
		to := func(rows []int) string {
			some := make([]float64, 0, len(rows)*f.D)
			for _, i := range rows {
				some = append(some, window[i*f.D:(i+1)*f.D]...)
			}
			return g.with("ReduceMin", []attribute{many("axes", 1)}, distances(g, v, f.D, some))
		}
		a, b := to(own[c]), to(other[c])
		// The degree: b/a, infinite for a = 0, and 1 if both are 0.
		zero := g.op("Where", g.op("Equal", b, g.number(0)), g.number(1), g.number(math.Inf(1)))
		here := g.op("Where", g.op("Equal", a, g.number(0)), zero, g.op("Div", b, a))
		if best == "" {
			best, degree, nearest = v, here, a
			continue
		}
		tie := g.op("And", g.op("Equal", here, degree), g.op("Less", a, nearest))
		better := g.op("Or", g.op("Greater", here, degree), tie)
		best, degree = g.op("Where", better, v, best), g.op("Where", better, here, degree)
		nearest = g.op("Where", better, a, nearest)
	}
	return best
}
