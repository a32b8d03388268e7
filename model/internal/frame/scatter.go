package frame

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/tile"
)

// Scatters are the statistics of the rows about their mean, in the coordinates of a task.
type Scatters struct {
	N           float64 // rows, or their weight
	Mean, Scale []float64
	low         []float64 // minimum of each feature, for minmax only
	constant    int       // features without variance
	Counts      []float64
	Class       []int // index of each present class among the given ones
	Means       *mat.Dense
	Total       *mat.SymDense   // S_t
	Within      *mat.SymDense   // S_w, nil without labels
	Second      []*mat.SymDense // sum of x x' of each present class, if the method needs it
}

// Classes is the number of classes that have rows.
func (s *Scatters) Classes() int { return len(s.Counts) }

// BetweenFactor is G with G G' = S_b: columns sqrt(n_c/n) (mu_c - mu).
func (s *Scatters) BetweenFactor() *mat.Dense {
	k, m := s.Means.Dims()
	g := mat.NewDense(m, k, nil)
	for c := range k {
		f := math.Sqrt(s.Counts[c] / s.N)
		for j, v := range s.Means.RawRowView(c) {
			g.Set(j, c, f*v)
		}
	}
	return g
}

// withinFromTotal sets S_w = S_t - S_b. Diagonal entries within rounding error of zero become zero, so that a class of
// equal rows has no variance.
func (s *Scatters) withinFromTotal(ctx context.Context) {
	m := s.Total.SymmetricDim()
	s.Within = mat.NewSymDense(m, nil)
	s.Within.CopySym(s.Total)
	g := mat.DenseCopyOf(s.BetweenFactor().T()).RawMatrix()
	o := tile.Dense(g.Data, g.Rows, g.Cols, g.Stride)
	fail.Check(tile.Add(ctx, tile.Sum{C: s.Within.RawSymmetric().Data, Stride: m, Alpha: -1, A: o, B: o,
		Upper: true}))
	for j := range m {
		if s.Within.At(j, j) <= 256*0x1p-52*s.Total.At(j, j) {
			for i := range m {
				s.Within.SetSym(i, j, 0)
			}
		}
	}
}

func WithinScatter(s *Scatters) *mat.SymDense { return s.Within }

func TotalScatter(s *Scatters) *mat.SymDense { return s.Total }
