package method_test

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// pairGraph has the weight of each pair of rows. It may be directed.
type pairGraph [][]float64

// newGraph is a graph of n rows without edges.
func newGraph(n int) pairGraph {
	g := make(pairGraph, n)
	for i := range g {
		g[i] = make([]float64, n)
	}
	return g
}

// pairWeights is the graph with the weight w of each ordered pair i != j.
func pairWeights(n int, w func(i, j int) float64) pairGraph {
	g := newGraph(n)
	for i := range n {
		for j := range n {
			if i != j {
				g[i][j] = w(i, j)
			}
		}
	}
	return g
}

// distance2 is the squared distance of two rows.
func distance2(x *mat.Dense, i, j int) float64 {
	sum := 0.0
	for c, v := range x.RawRowView(i) {
		sum += (v - x.At(j, c)) * (v - x.At(j, c))
	}
	return sum
}

// nearest are the k nearest rows of row i among those that may be one, nearest first, of equal ones the earlier
// first.
func nearest(x *mat.Dense, i, k int, may func(j int) bool) []int {
	n, _ := x.Dims()
	var all []int
	for j := range n {
		if j != i && may(j) {
			all = append(all, j)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(distance2(x, i, a), distance2(x, i, b)) })
	return all[:min(k, len(all))]
}

// joined is the directed graph of weight 1 from each row to its k nearest among those that may be.
func joined(x *mat.Dense, k int, may func(i, j int) bool) pairGraph {
	n, _ := x.Dims()
	g := newGraph(n)
	for i := range n {
		for _, j := range nearest(x, i, k, func(j int) bool { return may(i, j) }) {
			g[i][j] = 1
		}
	}
	return g
}

// anyPair allows every pair.
func anyPair(int, int) bool { return true }

// union has the larger weight of both directions.
func (g pairGraph) union() pairGraph {
	return pairWeights(len(g), func(i, j int) float64 { return math.Max(g[i][j], g[j][i]) })
}

// both has the sum of the weights of both directions.
func (g pairGraph) both() pairGraph {
	return pairWeights(len(g), func(i, j int) float64 { return g[i][j] + g[j][i] })
}

// times multiplies each weight.
func (g pairGraph) times(f func(i, j int) float64) pairGraph {
	return pairWeights(len(g), func(i, j int) float64 {
		if g[i][j] == 0 {
			return 0
		}
		return g[i][j] * f(i, j)
	})
}

// heatKernel is exp(-d^2/t) of two rows; 1 for t = +Inf.
func heatKernel(x *mat.Dense, t float64) func(i, j int) float64 {
	return func(i, j int) float64 { return math.Exp(-distance2(x, i, j) / t) }
}

// degrees are the sums of the weights of each row.
func (g pairGraph) degrees() []float64 {
	d := make([]float64, len(g))
	for i := range g {
		for j := range g {
			d[i] += g[i][j]
		}
	}
	return d
}

// laplacian is D - W of a symmetric graph.
func (g pairGraph) laplacian() *mat.SymDense {
	l, d := mat.NewSymDense(len(g), nil), g.degrees()
	for i := range g {
		l.SetSym(i, i, d[i]-g[i][i])
		for j := i + 1; j < len(g); j++ {
			l.SetSym(i, j, -g[i][j])
		}
	}
	return l
}

// form is the sum over pairs i < j of w_ij (x_i - x_j)(x_i - x_j)', which is X L X'.
func (g pairGraph) form(x *mat.Dense) *mat.SymDense {
	_, m := x.Dims()
	s := mat.NewSymDense(m, nil)
	for i := range g {
		for j := i + 1; j < len(g); j++ {
			if g[i][j] == 0 {
				continue
			}
			d := mat.NewVecDense(m, nil)
			d.SubVec(x.RowView(i), x.RowView(j))
			s.SymRankOne(s, g[i][j], d)
		}
	}
	return s
}

// weighted is the sum of w_i x_i x_i'.
func weighted(x *mat.Dense, w []float64) *mat.SymDense {
	_, m := x.Dims()
	s := mat.NewSymDense(m, nil)
	for i, v := range w {
		s.SymRankOne(s, v, x.RowView(i))
	}
	return s
}

// diagonal is the matrix with this diagonal.
func diagonal(d []float64) *mat.SymDense {
	s := mat.NewSymDense(len(d), nil)
	for i, v := range d {
		s.SetSym(i, i, v)
	}
	return s
}

// conjugate is X'SX for the matrix S of rows.
func conjugate(x *mat.Dense, s mat.Symmetric) *mat.SymDense {
	var half, full mat.Dense
	half.Mul(s, x)
	full.Mul(x.T(), &half)
	n, _ := full.Dims()
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
		}
	}
	return out
}

// connect adds the shortest edge between two components of an undirected graph of rows until there is one. Its weight
// is what w gives the edge, but at least the median positive weight.
func (g pairGraph) connect(x *mat.Dense, w func(i, j int) float64) pairGraph {
	label, least := g.components(), g.medianWeight()
	for {
		best, from, to := math.Inf(1), -1, -1
		for i := range g {
			for j := i + 1; j < len(g); j++ {
				if d := distance2(x, i, j); label[i] != label[j] && d < best {
					best, from, to = d, i, j
				}
			}
		}
		if from < 0 {
			return g
		}
		weight := math.Max(least, w(from, to))
		g[from][to], g[to][from] = weight, weight
		old := label[to]
		for i, l := range label {
			if l == old {
				label[i] = label[from]
			}
		}
	}
}

// isConnected reports whether there is a path between any two rows.
func (g pairGraph) isConnected() bool {
	return !slices.ContainsFunc(g.components(), func(c int) bool { return c != 0 })
}

// medianWeight is the median of the positive weights of pairs, the upper one of two.
func (g pairGraph) medianWeight() float64 {
	var positive []float64
	for i := range g {
		for j := range i {
			if v := math.Max(g[i][j], g[j][i]); v > 0 {
				positive = append(positive, v)
			}
		}
	}
	slices.Sort(positive)
	return positive[len(positive)/2]
}

// components is a number for each row, equal for rows with a path between them of edges that are at least 1e-3 of the
// median.
func (g pairGraph) components() []int {
	weak := 1e-3 * g.medianWeight()
	label := make([]int, len(g))
	for i := range label {
		label[i] = -1
	}
	for i := range g {
		if label[i] >= 0 {
			continue
		}
		todo := []int{i}
		label[i] = i
		for len(todo) > 0 {
			a := todo[0]
			todo = todo[1:]
			for b := range g {
				if math.Max(g[a][b], g[b][a]) >= weak && label[b] < 0 {
					label[b] = i
					todo = append(todo, b)
				}
			}
		}
	}
	return label
}

// geodesics are the lengths of the shortest paths in the graph of the k nearest rows, connected.
func geodesics(x *mat.Dense, k int) pairGraph {
	n, _ := x.Dims()
	edges := joined(x, k, anyPair).union().connect(x, func(int, int) float64 { return 1 })
	g := pairWeights(n, func(i, j int) float64 {
		if edges[i][j] == 0 {
			return math.Inf(1)
		}
		return math.Sqrt(distance2(x, i, j))
	})
	for c := range n {
		for i := range n {
			for j := range n {
				g[i][j] = math.Min(g[i][j], g[i][c]+g[c][j])
			}
		}
	}
	return g
}
