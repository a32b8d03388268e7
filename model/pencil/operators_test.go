package pencil

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// sparse is a symmetric matrix by rows for these tests.
type sparse struct {
	columns [][]int
	values  [][]float64
}

func newSparse(n int) *sparse {
	return &sparse{columns: make([][]int, n), values: make([][]float64, n)}
}

func (s *sparse) Order() int { return len(s.columns) }

func (s *sparse) Row(i int) ([]int, []float64) { return s.columns[i], s.values[i] }

func (s *sparse) Apply(ctx context.Context, dst, x *mat.Dense) {
	dst.Zero()
	for i, columns := range s.columns {
		row := dst.RawRowView(i)
		for p, c := range columns {
			v := s.values[i][p]
			for j, w := range x.RawRowView(c) {
				row[j] += v * w
			}
		}
	}
}

func (s *sparse) add(i, j int, v float64) {
	if p := slices.Index(s.columns[i], j); p >= 0 {
		s.values[i][p] += v
		return
	}
	s.columns[i] = append(s.columns[i], j)
	s.values[i] = append(s.values[i], v)
}

// join adds an edge of weight w to a Laplacian.
func (s *sparse) join(i, j int, w float64) {
	s.add(i, i, w)
	s.add(j, j, w)
	s.add(i, j, -w)
	s.add(j, i, -w)
}

// products hides the rows of an operator.
type products struct{ Operator }

// withSpectrum is a dense symmetric matrix with the given eigenvalues: a
// diagonal turned by reflections.
func withSpectrum(values []float64, seed uint64) *mat.SymDense {
	n := len(values)
	rng := rand.New(rand.NewPCG(seed, 7))
	a := mat.NewSymDense(n, nil)
	for i, v := range values {
		a.SetSym(i, i, v)
	}
	for range 3 {
		h := mat.NewVecDense(n, nil)
		for i := range n {
			h.SetVec(i, rng.NormFloat64())
		}
		h.ScaleVec(1/mat.Norm(h, 2), h)
		// H A H = A - 2 h w' - 2 w h', w = A h - (h'Ah) h.
		var w mat.VecDense
		w.MulVec(a, h)
		w.AddScaledVec(&w, -mat.Dot(h, &w), h)
		a.RankTwo(a, -2, h, &w)
	}
	return a
}

// sine is the sine of the largest angle between the spans of orthonormal columns.
func sine(a, b *mat.Dense) float64 {
	var c, r mat.Dense
	c.Mul(a.T(), b)
	r.Mul(a, &c)
	r.Sub(b, &r)
	var svd mat.SVD
	svd.Factorize(&r, mat.SVDNone)
	return svd.Values(nil)[0]
}

func ones(n int) *mat.Dense {
	x := mat.NewDense(n, 1, nil)
	for i := range n {
		x.Set(i, 0, 1)
	}
	return x
}

func spectrumOf(n int, f func(i int) float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

var spectra = []struct {
	name   string
	values func(i, n int) float64
}{
	{"decaying", func(i, n int) float64 { return 1 / float64(i+1) }},
	{"graded", func(i, n int) float64 { return math.Pow(10, -8*float64(i)/float64(n)) }},
	{"indefinite", func(i, n int) float64 { return math.Cos(3 * float64(i)) }},
	{"clustered", func(i, n int) float64 { return 1/float64(i/3+1) + 1e-5*float64(i%3) }},
	{"flat", func(i, n int) float64 { return 1 + 1e-3*float64(i)/float64(n) }},
	{"even", func(i, n int) float64 { return float64(i) }},
}

func identity(n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, 1)
	}
	return s
}

// roll is n points of a Swiss roll with the k nearest neighbours of each.
func roll(n, k int) (x *mat.Dense, near [][]int) {
	rng := rand.New(rand.NewPCG(uint64(n), 11))
	x = mat.NewDense(n, 3, nil)
	for i := range n {
		a := 1.5 * math.Pi * (1 + 2*rng.Float64())
		x.SetRow(i, []float64{a * math.Cos(a), 21 * rng.Float64(), a * math.Sin(a)})
	}
	return x, neighbours(x, k)
}

func neighbours(x *mat.Dense, k int) [][]int {
	n, m := x.Dims()
	near := make([][]int, n)
	for i := range n {
		dist := make([]float64, n)
		all := make([]int, n)
		for j := range n {
			all[j] = j
			for c := range m {
				d := x.At(i, c) - x.At(j, c)
				dist[j] += d * d
			}
		}
		dist[i] = math.Inf(1)
		slices.SortFunc(all, func(a, b int) int {
			if dist[a] < dist[b] {
				return -1
			} else if dist[a] > dist[b] {
				return 1
			}
			return a - b
		})
		near[i] = slices.Clone(all[:k])
	}
	return near
}

// lle is (I - W)'(I - W) of locally linear embedding (Roweis and Saul 2000).
func lle(x *mat.Dense, near [][]int) *sparse {
	n, m := x.Dims()
	out := newSparse(n)
	for i, js := range near {
		k := len(js)
		z := mat.NewDense(k, m, nil)
		for p, j := range js {
			for c := range m {
				z.Set(p, c, x.At(j, c)-x.At(i, c))
			}
		}
		var g mat.SymDense
		g.SymOuterK(1, z)
		tr := mat.Trace(&g)
		for p := range k {
			g.SetSym(p, p, g.At(p, p)+1e-3*tr)
		}
		var chol mat.Cholesky
		chol.Factorize(&g)
		w := mat.NewVecDense(k, nil)
		if err := chol.SolveVecTo(w, mat.NewVecDense(k, ones(k).RawMatrix().Data)); err != nil {
			panic(err)
		}
		w.ScaleVec(1/mat.Sum(w), w)
		// Row i of I - W adds its outer product.
		ids := append([]int{i}, js...)
		row := []float64{1}
		for p := range k {
			row = append(row, -w.AtVec(p))
		}
		for a, p := range ids {
			for b, q := range ids {
				out.add(p, q, row[a]*row[b])
			}
		}
	}
	return out
}

func symmetric(s *sparse) *mat.SymDense {
	out := mat.NewSymDense(s.Order(), nil)
	for i, columns := range s.columns {
		for p, c := range columns {
			out.SetSym(i, c, s.values[i][p])
		}
	}
	return out
}

// ring is the Laplacian of n nodes in a ring, of a path without the last edge.
func ring(n int, closed bool) *sparse {
	l := newSparse(n)
	for i := range n - 1 {
		l.join(i, i+1, 1)
	}
	if closed {
		l.join(n-1, 0, 1)
	}
	return l
}

// clusters are count random graphs of size nodes each, of which single edges make one.
func clusters(count, size int) *sparse {
	rng := rand.New(rand.NewPCG(5, 25))
	m := newSparse(count * size)
	for c := range count {
		for i := range size {
			for range 6 {
				if j := rng.IntN(size); j != i {
					m.join(c*size+i, c*size+j, 1)
				}
			}
		}
		if c > 0 {
			m.join(c*size+rng.IntN(size), rng.IntN(c)*size+rng.IntN(size), 1e-3)
		}
	}
	return m
}
