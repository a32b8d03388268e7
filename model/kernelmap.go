package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// kernelMap is y(x) = sum_i a_i k(x, x_i) over rows x_i of the fit, in scaled
// coordinates.
type kernelMap struct {
	d            int
	rows         []float64 // n x m
	coefficients []float64 // a, n x d
	k            kernelFunction
}

func (k *kernelMap) kind() string { return "kernel" }
func (k *kernelMap) dim() int     { return k.d }

func (k *kernelMap) check(m, _ int) error {
	n := len(k.rows) / m
	switch {
	case n < 1 || len(k.rows) != n*m:
		return fmt.Errorf("%d numbers in rows; at least one row of %d is needed", len(k.rows), m)
	case k.d > len(k.coefficients) || len(k.coefficients) != n*k.d: // the first keeps n*d from overflowing
		return fmt.Errorf("%d numbers in coefficients, %d x %d are needed", len(k.coefficients), n, k.d)
	}
	return k.k.check(m)
}

func (k *kernelMap) arrays() []array {
	n := len(k.coefficients) / k.d
	return append([]array{
		{"rows", []int{n, len(k.rows) / n}, k.rows},
		{"coefficients", []int{n, k.d}, k.coefficients},
	}, k.k.arrays()...)
}

func rebuildKernelMap(arrays []array) (mapping, error) {
	if !named(arrays, []string{"rows", "coefficients"}, []int{2, 2}) {
		return nil, fmt.Errorf("a kernel map starts with the arrays rows (n x m) and coefficients (n x d)")
	}
	k, err := rebuildKernelFunction(arrays[2:])
	if err != nil {
		return nil, err
	}
	return &kernelMap{arrays[1].shape[1], arrays[0].data, arrays[1].data, k}, nil
}

// named says whether the arrays start with these names, of these numbers of axes.
func named(arrays []array, names []string, axes []int) bool {
	if len(arrays) < len(names) {
		return false
	}
	for i, name := range names {
		if arrays[i].name != name || len(arrays[i].shape) != axes[i] {
			return false
		}
	}
	return true
}

func (k *kernelMap) placer(m int) (placer, error) {
	return &kernelPlacer{k, k.k.ready(k.rows, m), m}, nil
}

type kernelPlacer struct {
	*kernelMap
	ready *readyKernel
	m     int
}

func (p *kernelPlacer) cost() int             { return len(p.rows) / p.m }
func (p *kernelPlacer) workspace() *workspace { return &workspace{row: make([]float64, p.m)} }

func (p *kernelPlacer) place(dst, z []float64, w *workspace) error {
	clear(dst)
	norm := p.ready.take(w.row, z)
	for i := range p.cost() {
		v := p.ready.at(w.row, norm, i)
		for c, a := range p.coefficients[i*p.d : (i+1)*p.d] {
			dst[c] += v * a
		}
	}
	return nil
}

// kernelFunction is a positive semidefinite function of two scaled rows.
type kernelFunction struct {
	name string
	// param is what the function divides by: the bandwidth of gauss
	// exp(-|a-b|^2/param), the features of polynomial (a'b/param + 1)^2, the mean
	// of s of chi2 exp(-s/param), s = sum (a-b)^2/(a+b). linear a'b and
	// cosine a'b/(|a||b|) have none.
	param []float64
	// origin is added to both rows first; nil: they stay centred. chi2 needs it,
	// as it is for values that are not negative: those of rows that the fit has
	// not seen count as 0.
	origin []float64
}

var kernelNames = []string{"gauss", "linear", "polynomial", "cosine", "chi2"}

// newKernelFunction chooses the parameter for n rows of m: the median squared
// distance of two rows for gauss, m for polynomial, the mean of s for chi2.
// origin, see task.origin, is for chi2; the others see centred rows.
func newKernelFunction(name string, rows []float64, m int, origin []float64) (kernelFunction, error) {
	k := kernelFunction{name: name}
	switch name {
	case "gauss":
		d, err := eachPair(rows, m, squaredDistance)
		if err != nil {
			return k, err
		}
		slices.Sort(d)
		k.param = []float64{1}
		if at := slices.IndexFunc(d, func(v float64) bool { return v > 0 }); at >= 0 {
			// More than half of the pairs may be equal rows.
			k.param[0] = max(median(d), d[at])
		}
	case "polynomial":
		k.param = []float64{float64(m)}
	case "chi2":
		k.origin, k.param = origin, []float64{1}
		if err := k.check(m); err != nil {
			return k, err
		}
		moved := slices.Clone(rows)
		for i := range moved {
			moved[i] += origin[i%m]
			// Centring and its inverse round.
			if moved[i] < -1e-9*(1+math.Abs(origin[i%m])) {
				return k, fmt.Errorf("row %d is negative in feature %d; the kernel chi2 needs values >= 0: scale minmax gives them", i/m, i%m)
			}
			moved[i] = max(moved[i], 0)
		}
		s, err := eachPair(moved, m, chiSquared)
		if err != nil {
			return k, err
		}
		if len(s) > 0 {
			mean := 0.0
			for _, v := range s {
				mean += v / float64(len(s))
			}
			if mean > 0 {
				k.param[0] = mean
			}
		}
	}
	return k, k.check(m)
}

// eachPair is f of every two rows, i before j.
func eachPair(rows []float64, m int, f func(a, b []float64) float64) ([]float64, error) {
	n := len(rows) / m
	out := make([]float64, n*(n-1)/2)
	err := parallel.Each(context.Background(), n, func(i int) {
		at := i*(n-1) - i*(i-1)/2
		for j := i + 1; j < n; j++ {
			out[at+j-i-1] = f(rows[i*m:(i+1)*m], rows[j*m:(j+1)*m])
		}
	})
	return out, err
}

// median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (k kernelFunction) check(m int) error {
	params := map[string]int{"gauss": 1, "polynomial": 1, "chi2": 1, "linear": 0, "cosine": 0}
	n, ok := params[k.name]
	switch {
	case !ok:
		return fmt.Errorf("kernel %q is not known; give one of %v", k.name, kernelNames)
	case len(k.param) != n:
		return fmt.Errorf("the kernel %s has %d numbers, %d are needed", k.name, len(k.param), n)
	case n == 1 && !(k.param[0] > 0 && isFinite(k.param[0])):
		return fmt.Errorf("the kernel %s divides by %g; it must be positive", k.name, k.param[0])
	case len(k.origin) != m && (k.name == "chi2" || k.origin != nil):
		return fmt.Errorf("%d numbers in origin, %d are needed", len(k.origin), m)
	}
	return nil
}

// arrays of a kernel: one named after it, that holds its parameter.
func (k kernelFunction) arrays() []array {
	a := []array{{k.name, []int{len(k.param)}, k.param}}
	if k.origin != nil {
		a = append(a, array{"origin", []int{len(k.origin)}, k.origin})
	}
	return a
}

func rebuildKernelFunction(arrays []array) (kernelFunction, error) {
	if len(arrays) < 1 || len(arrays) > 2 || len(arrays[0].shape) != 1 || (len(arrays) == 2 && !named(arrays[1:], []string{"origin"}, []int{1})) {
		return kernelFunction{}, fmt.Errorf("a kernel has an array of its name, one of %v, and perhaps the array origin (m)", kernelNames)
	}
	k := kernelFunction{name: arrays[0].name, param: arrays[0].data}
	if len(arrays) == 2 {
		k.origin = arrays[1].data
	}
	return k, nil
}

// gram is K_ij = k(x_i, x_j).
func (k kernelFunction) gram(rows []float64, m int) (*mat.SymDense, error) {
	n := len(rows) / m
	out := mat.NewSymDense(n, nil)
	r := k.ready(rows, m)
	err := parallel.Each(context.Background(), n, func(i int) {
		for j := i; j < n; j++ {
			out.SetSym(i, j, r.at(r.rows[i*m:(i+1)*m], r.norm[i], j))
		}
	})
	return out, err
}

// readyKernel is a kernel function with rows as it looks at them.
type readyKernel struct {
	kernelFunction
	m    int
	rows []float64
	norm []float64 // Euclidean
}

func (k kernelFunction) ready(rows []float64, m int) *readyKernel {
	r := &readyKernel{k, m, slices.Clone(rows), make([]float64, len(rows)/m)}
	for i := range r.norm {
		r.norm[i] = r.take(r.rows[i*m:(i+1)*m], rows[i*m:(i+1)*m])
	}
	return r
}

// take writes the row as the function looks at it to dst and returns its norm.
func (r *readyKernel) take(dst, z []float64) float64 {
	copy(dst, z)
	for j, v := range r.origin {
		dst[j] += v
		if r.name == "chi2" {
			dst[j] = max(dst[j], 0)
		}
	}
	return math.Sqrt(dot(dst, dst))
}

// at is k of a row that was taken, with its norm, and row i.
func (r *readyKernel) at(z []float64, norm float64, i int) float64 {
	x := r.rows[i*r.m : (i+1)*r.m]
	switch r.name {
	case "gauss":
		return math.Exp(-squaredDistance(z, x) / r.param[0])
	case "linear":
		return dot(z, x)
	case "polynomial":
		v := dot(z, x)/r.param[0] + 1
		return v * v
	case "cosine":
		if norm == 0 || r.norm[i] == 0 {
			return 0
		}
		return dot(z, x) / norm / r.norm[i]
	}
	return math.Exp(-chiSquared(z, x) / r.param[0])
}

// squaredDistance is |a - b|^2. Four sums run side by side, in an order that
// only the length decides.
func squaredDistance(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	j := 0
	for ; j+4 <= len(a); j += 4 {
		d0, d1, d2, d3 := a[j]-b[j], a[j+1]-b[j+1], a[j+2]-b[j+2], a[j+3]-b[j+3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	for ; j < len(a); j++ {
		s0 += (a[j] - b[j]) * (a[j] - b[j])
	}
	return (s0 + s1) + (s2 + s3)
}

// dot is a'b, summed as squaredDistance sums.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	j := 0
	for ; j+4 <= len(a); j += 4 {
		s0 += a[j] * b[j]
		s1 += a[j+1] * b[j+1]
		s2 += a[j+2] * b[j+2]
		s3 += a[j+3] * b[j+3]
	}
	for ; j < len(a); j++ {
		s0 += a[j] * b[j]
	}
	return (s0 + s1) + (s2 + s3)
}

// chiSquared is sum (a-b)^2/(a+b) of values that are not negative, 0/0 = 0.
func chiSquared(a, b []float64) float64 {
	sum := 0.0
	for j, v := range a {
		if both := v + b[j]; both > 0 {
			sum += (v - b[j]) * (v - b[j]) / both
		}
	}
	return sum
}
