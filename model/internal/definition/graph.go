package definition

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Graph has the weight of each pair of rows. It may be directed.
type Graph [][]float64

// New is a graph of n rows without edges.
func New(n int) Graph {
	g := make(Graph, n)
	for i := range g {
		g[i] = make([]float64, n)
	}
	return g
}

// Pairs is the graph with the weight w of each ordered pair i != j.
func Pairs(n int, w func(i, j int) float64) Graph {
	g := New(n)
	for i := range n {
		for j := range n {
			if i != j {
				g[i][j] = w(i, j)
			}
		}
	}
	return g
}

// Distance2 is the squared distance of two rows.
func Distance2(x *mat.Dense, i, j int) float64 {
	sum := 0.0
	for c, v := range x.RawRowView(i) {
		sum += (v - x.At(j, c)) * (v - x.At(j, c))
	}
	return sum
}

// Nearest are the k nearest rows of row i among those that may be one, nearest first, of equal ones the earlier
// first.
func Nearest(x *mat.Dense, i, k int, may func(j int) bool) []int {
	n, _ := x.Dims()
	var all []int
	for j := range n {
		if j != i && may(j) {
			all = append(all, j)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(Distance2(x, i, a), Distance2(x, i, b)) })
	return all[:min(k, len(all))]
}

// Joined is the directed graph of weight 1 from each row to its k nearest among those that may be.
func Joined(x *mat.Dense, k int, may func(i, j int) bool) Graph {
	n, _ := x.Dims()
	g := New(n)
	for i := range n {
		for _, j := range Nearest(x, i, k, func(j int) bool { return may(i, j) }) {
			g[i][j] = 1
		}
	}
	return g
}

// Any allows every pair.
func Any(int, int) bool { return true }

// Union has the larger weight of both directions.
func (g Graph) Union() Graph {
	return Pairs(len(g), func(i, j int) float64 { return math.Max(g[i][j], g[j][i]) })
}

// Both has the sum of the weights of both directions.
func (g Graph) Both() Graph {
	return Pairs(len(g), func(i, j int) float64 { return g[i][j] + g[j][i] })
}

// Times multiplies each weight.
func (g Graph) Times(f func(i, j int) float64) Graph {
	return Pairs(len(g), func(i, j int) float64 {
		if g[i][j] == 0 {
			return 0
		}
		return g[i][j] * f(i, j)
	})
}

// Heat is exp(-d^2/t) of two rows; 1 for t = +Inf.
func Heat(x *mat.Dense, t float64) func(i, j int) float64 {
	return func(i, j int) float64 { return math.Exp(-Distance2(x, i, j) / t) }
}

// Degrees are the sums of the weights of each row.
func (g Graph) Degrees() []float64 {
	d := make([]float64, len(g))
	for i := range g {
		for j := range g {
			d[i] += g[i][j]
		}
	}
	return d
}

// Laplacian is D - W of a symmetric graph.
func (g Graph) Laplacian() *mat.SymDense {
	l, d := mat.NewSymDense(len(g), nil), g.Degrees()
	for i := range g {
		l.SetSym(i, i, d[i]-g[i][i])
		for j := i + 1; j < len(g); j++ {
			l.SetSym(i, j, -g[i][j])
		}
	}
	return l
}

// Form is the sum over pairs i < j of w_ij (x_i - x_j)(x_i - x_j)', which is X L X'.
func (g Graph) Form(x *mat.Dense) *mat.SymDense {
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

// Weighted is the sum of w_i x_i x_i'.
func Weighted(x *mat.Dense, w []float64) *mat.SymDense {
	_, m := x.Dims()
	s := mat.NewSymDense(m, nil)
	for i, v := range w {
		s.SymRankOne(s, v, x.RowView(i))
	}
	return s
}

// Diagonal is the matrix with this diagonal.
func Diagonal(d []float64) *mat.SymDense {
	s := mat.NewSymDense(len(d), nil)
	for i, v := range d {
		s.SetSym(i, i, v)
	}
	return s
}

// Conjugate is X'SX for the matrix S of rows.
func Conjugate(x *mat.Dense, s mat.Symmetric) *mat.SymDense {
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

// Connect adds the shortest edge between two components of an undirected graph of rows until there is one, with the
// weight that w gives the edge.
func (g Graph) Connect(x *mat.Dense, w func(i, j int) float64) Graph {
	label := g.components()
	for {
		best, from, to := math.Inf(1), -1, -1
		for i := range g {
			for j := i + 1; j < len(g); j++ {
				if d := Distance2(x, i, j); label[i] != label[j] && d < best {
					best, from, to = d, i, j
				}
			}
		}
		if from < 0 {
			return g
		}
		g[from][to], g[to][from] = w(from, to), w(from, to)
		old := label[to] // the weight may be 0
		for i, l := range label {
			if l == old {
				label[i] = label[from]
			}
		}
	}
}

// IsConnected reports whether there is a path between any two rows.
func (g Graph) IsConnected() bool {
	return !slices.ContainsFunc(g.components(), func(c int) bool { return c != 0 })
}

// components is a number for each row, equal for rows with a path between them.
func (g Graph) components() []int {
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
				if (g[a][b] != 0 || g[b][a] != 0) && label[b] < 0 {
					label[b] = i
					todo = append(todo, b)
				}
			}
		}
	}
	return label
}

// Geodesics are the lengths of the shortest paths in the graph of the k nearest rows, connected.
func Geodesics(x *mat.Dense, k int) Graph {
	n, _ := x.Dims()
	edges := Joined(x, k, Any).Union().Connect(x, func(int, int) float64 { return 1 })
	g := Pairs(n, func(i, j int) float64 {
		if edges[i][j] == 0 {
			return math.Inf(1)
		}
		return math.Sqrt(Distance2(x, i, j))
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
