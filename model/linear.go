package model

import "fmt"

// linear is y = ((x - mean)/scale) · A.
type linear struct {
	d          int
	components []float64 // A, m x d row-major
}

func (l *linear) kind() string { return "linear" }
func (l *linear) dim() int     { return l.d }

func (l *linear) check(m, _ int) error {
	if l.d > m { // also keeps m*d from overflowing
		return fmt.Errorf("%d outputs of %d features; a linear map has at most as many outputs as features", l.d, m)
	}
	if len(l.components) != m*l.d {
		return fmt.Errorf("%d numbers in components, %d x %d are needed", len(l.components), m, l.d)
	}
	return nil
}

func (l *linear) arrays() []array {
	return []array{{"components", []int{len(l.components) / l.d, l.d}, l.components}}
}

func rebuildLinear(arrays []array) (mapping, error) {
	if len(arrays) != 1 || arrays[0].name != "components" || len(arrays[0].shape) != 2 {
		return nil, fmt.Errorf("a linear map has the array components (m x d) and no other")
	}
	return &linear{arrays[0].shape[1], arrays[0].data}, nil
}

func (l *linear) weights() (int, []float64, []float64) {
	return l.d, transpose(l.components, l.d), nil
}

func (l *linear) finish(dst, y []float32) int {
	copy(dst, y)
	return -1
}

// transpose turns n x d row-major data into d x n.
func transpose(a []float64, d int) []float64 {
	n := len(a) / d
	t := make([]float64, len(a))
	for i := range n {
		for j := range d {
			t[j*n+i] = a[i*d+j]
		}
	}
	return t
}
