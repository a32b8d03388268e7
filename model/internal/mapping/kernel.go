package mapping

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Kernel is a positive semidefinite function of two scaled rows.
type Kernel struct {
	Name string
	// Param is the divisor of the function: the bandwidth of gauss exp(-|a-b|^2/param), the number of features of
	// polynomial (a'b/param + 1)^2, the mean of s of chi2 exp(-s/param), s = sum (a-b)^2/(a+b). linear a'b and cosine
	// a'b/(|a||b|) have none.
	Param []float64
	// Origin is added to both rows first; nil: they stay centred. chi2 needs it because it is for non-negative values;
	// negative values of new rows count as 0.
	Origin []float64
}

// KernelNames are the known kernels.
var KernelNames = []string{"gauss", "linear", "polynomial", "cosine", "chi2"}

// NewKernel chooses the parameter for n rows of m: the median squared distance of two rows for gauss, m for
// polynomial, the mean of s for chi2. Only chi2 uses origin, see frame.Task.Origin; the others see centred rows.
func NewKernel(ctx context.Context, name string, rows []float64, m int, origin []float64) (Kernel, error) {
	k := Kernel{Name: name}
	switch name {
	case "gauss":
		d, err := EachPair(ctx, rows, m, linalg.SquaredDistance)
		if err != nil {
			return k, err
		}
		k.Param = []float64{1}
		least := 0.0 // of the positive ones
		for _, v := range d {
			if v > 0 && (least == 0 || v < least) {
				least = v
			}
		}
		if least > 0 {
			k.Param[0] = max(linalg.Median(d), least) // more than half of the pairs may be equal rows
		}
	case "polynomial":
		k.Param = []float64{float64(m)}
	case "chi2":
		k.Origin, k.Param = origin, []float64{1}
		if err := k.Check(m); err != nil {
			return k, err
		}
		moved := slices.Clone(rows)
		for i := range moved {
			moved[i] += origin[i%m]
			// Centring and its inverse have rounding errors.
			if moved[i] < -1e-9*(1+math.Abs(origin[i%m])) {
				return k, fmt.Errorf("row %d is negative in feature %d; the kernel chi2 needs values >= 0: use scale minmax",
					i/m, i%m)
			}
			moved[i] = max(moved[i], 0)
		}
		s, err := EachPair(ctx, moved, m, chiSquared)
		if err != nil {
			return k, err
		}
		if len(s) > 0 {
			mean := 0.0
			for _, v := range s {
				mean += v / float64(len(s))
			}
			if mean > 0 {
				k.Param[0] = mean
			}
		}
	}
	return k, k.Check(m)
}

// EachPair is f of every two rows, i before j.
func EachPair(ctx context.Context, rows []float64, m int, f func(a, b []float64) float64) ([]float64, error) {
	n := len(rows) / m
	out := make([]float64, n*(n-1)/2)
	err := parallel.Each(ctx, n, func(i int) {
		at := i*(n-1) - i*(i-1)/2
		for j := i + 1; j < n; j++ {
			out[at+j-i-1] = f(rows[i*m:(i+1)*m], rows[j*m:(j+1)*m])
		}
	})
	return out, err
}

func (k Kernel) Check(m int) error {
	params := map[string]int{"gauss": 1, "polynomial": 1, "chi2": 1, "linear": 0, "cosine": 0}
	n, ok := params[k.Name]
	switch {
	case !ok:
		return fmt.Errorf("kernel %q is not known; give one of %v", k.Name, KernelNames)
	case len(k.Param) != n:
		return fmt.Errorf("the kernel %s has %d numbers, %d are needed", k.Name, len(k.Param), n)
	case n == 1 && !(k.Param[0] > 0 && linalg.IsFinite(k.Param[0])):
		return fmt.Errorf("the kernel %s divides by %g; it must be positive", k.Name, k.Param[0])
	case len(k.Origin) != m && (k.Name == "chi2" || k.Origin != nil):
		return fmt.Errorf("%d numbers in origin, %d are needed", len(k.Origin), m)
	}
	return nil
}

// Arrays of a kernel: one that is named after it and holds its parameter, and perhaps the origin.
func (k Kernel) Arrays() []Array {
	a := []Array{{k.Name, []int{len(k.Param)}, k.Param}}
	if k.Origin != nil {
		a = append(a, Array{"origin", []int{len(k.Origin)}, k.Origin})
	}
	return a
}

func rebuildKernel(arrays []Array) Kernel {
	if len(arrays) < 1 || len(arrays) > 2 || len(arrays[0].Shape) != 1 ||
		(len(arrays) == 2 && !named(arrays[1:], []string{"origin"}, []int{1})) {
		panic(fail.With(fmt.Errorf("a kernel has an array of its name, one of %v, and perhaps the array origin (m)",
			KernelNames)))
	}
	k := Kernel{Name: arrays[0].Name, Param: arrays[0].Data}
	if len(arrays) == 2 {
		k.Origin = arrays[1].Data
	}
	return k
}

// Gram is K_ij = k(x_i, x_j).
func (k Kernel) Gram(ctx context.Context, rows []float64, m int) (*mat.SymDense, error) {
	n := len(rows) / m
	out := mat.NewSymDense(n, nil)
	r := k.Ready(rows, m)
	err := parallel.Each(ctx, n, func(i int) {
		for j := i; j < n; j++ {
			out.SetSym(i, j, r.At(r.Rows[i*m:(i+1)*m], r.norm[i], j))
		}
	})
	return out, err
}

// readyKernel is a kernel with rows transformed for it.
type readyKernel struct {
	Kernel
	m    int
	Rows []float64
	norm []float64 // Euclidean
}

func (k Kernel) Ready(rows []float64, m int) *readyKernel {
	r := &readyKernel{k, m, slices.Clone(rows), make([]float64, len(rows)/m)}
	for i := range r.norm {
		r.norm[i] = r.Take(r.Rows[i*m:(i+1)*m], rows[i*m:(i+1)*m])
	}
	return r
}

// Take writes the transformed row to dst and returns its norm.
func (r *readyKernel) Take(dst, z []float64) float64 {
	copy(dst, z)
	for j, v := range r.Origin {
		dst[j] += v
		if r.Name == "chi2" {
			dst[j] = max(dst[j], 0)
		}
	}
	return math.Sqrt(linalg.Dot(dst, dst))
}

// At is k of a transformed row with its norm, and row i.
func (r *readyKernel) At(z []float64, norm float64, i int) float64 {
	x := r.Rows[i*r.m : (i+1)*r.m]
	switch r.Name {
	case "gauss":
		return math.Exp(-linalg.SquaredDistance(z, x) / r.Param[0])
	case "linear":
		return linalg.Dot(z, x)
	case "polynomial":
		v := linalg.Dot(z, x)/r.Param[0] + 1
		return v * v
	case "cosine":
		if norm == 0 || r.norm[i] == 0 {
			return 0
		}
		return linalg.Dot(z, x) / norm / r.norm[i]
	}
	return math.Exp(-chiSquared(z, x) / r.Param[0])
}

// chiSquared is sum (a-b)^2/(a+b) of non-negative values, 0/0 = 0.
func chiSquared(a, b []float64) float64 {
	sum := 0.0
	for j, v := range a {
		if both := v + b[j]; both > 0 {
			sum += (v - b[j]) * (v - b[j]) / both
		}
	}
	return sum
}
