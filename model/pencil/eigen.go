package pencil

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// End is the wanted end of the spectrum: part of a method's definition.
type End int

const (
	Max End = iota // largest eigenvalues first
	Min            // smallest first: the literal end of methods without a ridge
)

// RankError reports more directions than the pencil has.
type RankError struct{ Asked, Max int }

func (e *RankError) Error() string {
	return fmt.Sprintf("%d directions requested, the pencil has %d", e.Asked, e.Max)
}

// ErrNotDefinite reports a denominator that is not positive definite, or not finite.
var ErrNotDefinite = errors.New("denominator is not positive definite")

// eigen returns the eigenvalues of s, ascending, and its eigenvectors.
func eigen(s mat.Symmetric) ([]float64, *mat.Dense, error) {
	if err := finite(s); err != nil {
		return nil, nil, fmt.Errorf("whitened matrix: %w", err)
	}
	n, order := s.SymmetricDim(), grade(s)
	graded := mat.NewSymDense(n, nil)
	for i, a := range order {
		for j := i; j < n; j++ {
			graded.SetSym(i, j, s.At(a, order[j]))
		}
	}
	var es mat.EigenSym
	if !es.Factorize(graded, true) {
		return nil, nil, fmt.Errorf("symmetric eigendecomposition of order %d did not converge", n)
	}
	var w mat.Dense
	es.VectorsTo(&w)
	v := mat.NewDense(n, n, nil)
	for i, a := range order {
		copy(v.RawRowView(a), w.RawRowView(i))
	}
	return es.Values(nil), v, nil
}

// grade is the order of the rows in which the diagonal ascends. The reduction to tridiagonal form starts at the last
// column, so the small end of a graded matrix (features with very different units) keeps its digits.
func grade(s mat.Symmetric) []int {
	order := linalg.Range(s.SymmetricDim())
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.At(a, a), s.At(b, b)) })
	return order
}

// spectrum is eigen in descending order.
func spectrum(s *mat.SymDense) ([]float64, *mat.Dense) {
	if s.SymmetricDim() == 0 {
		return nil, new(mat.Dense)
	}
	return reversed(fail.Must2(eigen(s)))
}

// reversed is eigenpairs in the other order.
func reversed(values []float64, v *mat.Dense) ([]float64, *mat.Dense) {
	values, v = slices.Clone(values), mat.DenseCopyOf(v)
	slices.Reverse(values)
	for i := range v.RawMatrix().Rows {
		slices.Reverse(v.RawRowView(i))
	}
	return values, v
}

// FixSigns makes the entry of largest magnitude of every column positive. Of entries within 1e-12 of the largest, the
// one with the lowest index counts.
func FixSigns(a *mat.Dense) {
	m, d := a.Dims()
	for j := range d {
		largest := 0.0
		for i := range m {
			largest = max(largest, math.Abs(a.At(i, j)))
		}
		for i := range m {
			v := a.At(i, j)
			if math.Abs(v) < largest*(1-1e-12) || v == 0 {
				continue
			}
			if v < 0 {
				for k := range m {
					a.Set(k, j, -a.At(k, j))
				}
			}
			break
		}
	}
}

// errShort reports an algorithm that did not reach the required accuracy.
var errShort = errors.New("not converged")

// leastGap is the least relative distance of the first d values, best first, to the next one: +Inf if there is none,
// and 0 if two share an eigenspace of a problem of the given order, because only rounding errors separate those.
func leastGap(values []float64, d, order int, largest float64) float64 {
	gap := math.Inf(1)
	for i := 0; i < d && i+1 < len(values); i++ {
		a, b := values[i], values[i+1]
		if linalg.Tied(a, b, order, largest) {
			return 0
		}
		gap = min(gap, math.Abs(a-b)/max(math.Abs(a), math.Abs(b)))
	}
	return gap
}
