package mapping

import (
	"fmt"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// Linear is y = ((x - mean)/scale) · A.
type Linear struct {
	D          int
	Components []float64 // A, m x d row-major
}

func (l *Linear) Kind() string { return "linear" }

func (l *Linear) Dim() int { return l.D }

func (l *Linear) Check(m, _ int) error {
	if l.D > m { // also keeps m*d from overflowing
		return fmt.Errorf("%d outputs of %d features; a linear map has at most as many outputs as features", l.D, m)
	}
	if len(l.Components) != m*l.D {
		return fmt.Errorf("%d numbers in components, %d x %d are needed", len(l.Components), m, l.D)
	}
	return nil
}

func (l *Linear) Arrays() []Array {
	return []Array{{"components", []int{len(l.Components) / l.D, l.D}, l.Components}}
}

func rebuildLinear(arrays []Array) Map {
	if len(arrays) != 1 || arrays[0].Name != "components" || len(arrays[0].Shape) != 2 {
		panic(fail.With(fmt.Errorf("a linear map has the array components (m x d) and no other")))
	}
	return &Linear{arrays[0].Shape[1], arrays[0].Data}
}

func (l *Linear) Weights() (int, []float64, []float64) {
	return l.D, linalg.Transpose(l.Components, l.D), nil
}

func (l *Linear) Finish(dst, y []float32) int {
	copy(dst, y)
	return -1
}
