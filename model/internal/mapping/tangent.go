package mapping

import (
	"fmt"
)

// Tangent extends an embedding to first order at the nearest row j: y(x) = y_j + V_j' T_j' (x - x_j), where T_j (m x q)
// is the tangent space of the patch of j and V_j (q x d) the gradients of the embedding in it. Their product is stored.
type Tangent struct {
	Training
	Patch []float64 // n: index of each row's patch
	Slope []float64 // T V of each patch, P x m x d
	Count int       // P
}

func (e *Tangent) Kind() string { return "tangent" }

func (e *Tangent) Check(m, classes int) error {
	if err := e.Training.Check(m, classes); err != nil {
		return err
	}
	// The first keeps count*m*d from overflowing: d is at most the numbers of embedding.
	if e.Count < 1 || e.Count > len(e.Slope) || len(e.Slope)/e.Count != m*e.D || len(e.Slope)%e.Count != 0 {
		return fmt.Errorf("%d numbers in slope, %d x %d x %d are needed", len(e.Slope), e.Count, m, e.D)
	}
	if len(e.Patch) != e.Len() {
		return fmt.Errorf("%d numbers in patch, %d are needed", len(e.Patch), e.Len())
	}
	for _, v := range e.Patch {
		if _, err := whole("patch", v, float64(e.Count)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Tangent) Arrays() []Array {
	return e.with(Array{"patch", []int{e.Len()}, e.Patch},
		Array{"slope", []int{e.Count, len(e.Slope) / e.Count / e.D, e.D}, e.Slope})
}

func rebuildTangent(arrays []Array) Map {
	t, rest := rebuildTraining("tangent", arrays, []string{"patch", "slope"}, []int{1, 3})
	return &Tangent{t, rest[0].Data, rest[1].Data, rest[1].Shape[0]}
}

func (e *Tangent) Extension(m int) (Extension, error) {
	return &tangentExtension{e, newIndex(&e.Training, m, 1, nil)}, nil
}

type tangentExtension struct {
	*Tangent
	*index
}

func (p *tangentExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	return p.each(dst, z, n, w, p.place)
}

func (p *tangentExtension) place(dst, z []float64, w *Workspace) error {
	i, d := w.Nearest[0], p.D
	p.put(dst, i)
	slope := p.Slope[int(p.Patch[i])*p.m*d:][:p.m*d]
	x := p.Rows[i*p.m : (i+1)*p.m]
	for j, v := range z {
		for c, s := range slope[j*d : (j+1)*d] {
			dst[c] += (v - x[j]) * s
		}
	}
	return nil
}
