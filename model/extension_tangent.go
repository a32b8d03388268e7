package model

import "fmt"

// tangent extends an embedding to first order at the nearest row j:
// y(x) = y_j + V_j' T_j' (x - x_j), T_j (m x q) the tangent space of the patch of
// j and V_j (q x d) the gradients of the embedding in it, one product here.
type tangent struct {
	training
	patch []float64 // n: index of each row's patch
	slope []float64 // T V of each patch, P x m x d
	count int       // P
}

func (e *tangent) kind() string { return "tangent" }

func (e *tangent) check(m, classes int) error {
	if err := e.training.check(m, classes); err != nil {
		return err
	}
	// The first keeps count*m*d from overflowing: d is at most the numbers of embedding.
	if e.count < 1 || e.count > len(e.slope) || len(e.slope)/e.count != m*e.d || len(e.slope)%e.count != 0 {
		return fmt.Errorf("%d numbers in slope, %d x %d x %d are needed", len(e.slope), e.count, m, e.d)
	}
	if len(e.patch) != e.n() {
		return fmt.Errorf("%d numbers in patch, %d are needed", len(e.patch), e.n())
	}
	for _, v := range e.patch {
		if _, err := whole("patch", v, float64(e.count)); err != nil {
			return err
		}
	}
	return nil
}

func (e *tangent) arrays() []array {
	return e.with(array{"patch", []int{e.n()}, e.patch}, array{"slope", []int{e.count, len(e.slope) / e.count / e.d, e.d}, e.slope})
}

func rebuildTangent(arrays []array) (mapping, error) {
	t, rest, err := rebuildTraining("tangent", arrays, []string{"patch", "slope"}, []int{1, 3})
	if err != nil {
		return nil, err
	}
	return &tangent{t, rest[0].data, rest[1].data, rest[1].shape[0]}, nil
}

func (e *tangent) placer(m int) (placer, error) {
	return &tangentPlacer{e, newIndex(&e.training, m, 1)}, nil
}

type tangentPlacer struct {
	*tangent
	*index
}

func (p *tangentPlacer) place(dst, z []float64, w *workspace) error {
	zero, err := p.nearest(z, w)
	if err != nil {
		return err
	}
	i, d := w.at[0], p.d
	p.put(dst, i)
	if zero {
		return nil
	}
	slope := p.slope[int(p.patch[i])*p.m*d:][:p.m*d]
	x := p.rows[i*p.m : (i+1)*p.m]
	for j, v := range z {
		for c, s := range slope[j*d : (j+1)*d] {
			dst[c] += (v - x[j]) * s
		}
	}
	return nil
}
