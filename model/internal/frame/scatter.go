package frame

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// BasisScatters are the statistics of the scaled rows about their mean, in an orthonormal basis of the space that they
// span. With fewer rows than features, or with collinear features, the basis is rotated: column j is then a direction,
// not feature j. Only what does not depend on the choice of the axes may be computed from them, such as a pencil. What
// looks at single features reads [Task.FeatureRows].
type BasisScatters struct {
	N      float64 // rows, or their weight
	Counts []float64
	Class  []int           // index of each present class among the given ones
	Means  *mat.Dense      // of the classes
	Total  *mat.SymDense   // S_t
	Within *mat.SymDense   // S_w, nil without labels
	Second []*mat.SymDense // sum of x x' of each present class, if the method needs it
}

// Units are the mean and the divisor of each feature.
type Units struct {
	Mean, Scale []float64
	low         []float64 // minimum of each feature, for minmax only
	constant    []bool    // features without variance; nil if nothing varies
}

// featureVariances is the diagonal of V S V' for a scatter S in the axes V (m x r), or that of S for axes nil.
func featureVariances(ctx context.Context, s *mat.SymDense, axes *mat.Dense) []float64 {
	if axes == nil {
		variance := make([]float64, s.SymmetricDim())
		for j := range variance {
			variance[j] = s.At(j, j)
		}
		return variance
	}
	across := mat.DenseCopyOf(axes.T())
	scattered := tile.Times(ctx, s, across)
	r, m := across.Dims()
	variance := make([]float64, m)
	for i := range r {
		row := across.RawRowView(i)
		for j, v := range scattered.RawRowView(i) {
			variance[j] += v * row[j]
		}
	}
	return variance
}

// Classes is the number of classes that have rows.
func (s *BasisScatters) Classes() int { return len(s.Counts) }

// BetweenFactor is G with G G' = S_b: columns sqrt(n_c/n) (mu_c - mu).
func (s *BasisScatters) BetweenFactor() *mat.Dense {
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
func (s *BasisScatters) withinFromTotal(ctx context.Context) {
	m := s.Total.SymmetricDim()
	s.Within = linalg.NewSym(m)
	s.Within.CopySym(s.Total)
	o := tile.Transposed(s.BetweenFactor())
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

// ReuseMemory passes the memory of Total and Within to later tasks. Nothing may read them afterwards.
func (s *BasisScatters) ReuseMemory() { linalg.Reuse(s.Total, s.Within) }

// WithinScatter and TotalScatter select the scatter that a RidgeRule estimates the shrinkage on.
func WithinScatter(s *BasisScatters) *mat.SymDense { return s.Within }

func TotalScatter(s *BasisScatters) *mat.SymDense { return s.Total }
