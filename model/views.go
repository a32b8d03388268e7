package model

import (
	"errors"
	"fmt"
	"math"
)

// views is one linear map a class, for methods that solve each class against
// the rest (SLE one-versus-rest). A row is mapped by the view in which its
// membership degree is largest (Gong, Tao, Yang and Fu, AAAI 2014,
// eq. 7): the distance to the nearest window row of another class over the
// distance to the nearest one of the view's own class.
type views struct {
	d          int
	components []float64 // C x m x d: the map of each class
	offset     []float64 // C x d, added to a view's outputs (its constant coordinate)
	window     []float64 // C x n x d: the window rows in each view, as float32 values
	label      []float64 // n: class index of each window row
}

func (v *views) kind() string { return "views" }
func (v *views) dim() int     { return v.d }

// count is C, the number of views.
func (v *views) count() int { return len(v.offset) / max(v.d, 1) }

// of is the m x d map of class c.
func (v *views) of(c int) []float64 {
	size := len(v.components) / v.count()
	return v.components[c*size : (c+1)*size]
}

func (v *views) check(m, classes int) error {
	c, n := v.count(), len(v.label)
	switch {
	case c != classes || len(v.offset) != c*v.d:
		return fmt.Errorf("%d numbers in offset, %d x %d are needed", len(v.offset), classes, v.d)
	case c < 2:
		return fmt.Errorf("%d classes; a map of one view a class needs at least 2", c)
	case v.d > m+1:
		return fmt.Errorf("%d outputs of %d features; a view has at most one more output than features", v.d, m)
	case len(v.components) != c*m*v.d:
		return fmt.Errorf("%d numbers in components, %d x %d x %d are needed", len(v.components), c, m, v.d)
	case len(v.window) != c*n*v.d:
		return fmt.Errorf("%d numbers in window, %d x %d x %d are needed", len(v.window), c, n, v.d)
	}
	several := false
	for i, l := range v.label {
		if !(l >= 0) || l >= float64(c) || l != math.Trunc(l) {
			return fmt.Errorf("label[%d] is %g; it must be a class index below %d", i, l, c)
		}
		several = several || l != v.label[0]
	}
	if !several {
		return fmt.Errorf("the window holds fewer than 2 classes; the membership degree needs 2")
	}
	for i, x := range v.window {
		if float64(float32(x)) != x {
			return fmt.Errorf("window[%d] is %g, which is no float32", i, x)
		}
	}
	return nil
}

func (v *views) arrays() []array {
	c, n := v.count(), len(v.label)
	return []array{
		{"components", []int{c, len(v.components) / (c * v.d), v.d}, v.components},
		{"offset", []int{c, v.d}, v.offset},
		{"window", []int{c, n, v.d}, v.window},
		{"label", []int{n}, v.label},
	}
}

func rebuildViews(arrays []array) (mapping, error) {
	names, ranks := []string{"components", "offset", "window", "label"}, []int{3, 2, 3, 1}
	ok := len(arrays) == len(names)
	for i := 0; ok && i < len(names); i++ {
		ok = arrays[i].name == names[i] && len(arrays[i].shape) == ranks[i]
	}
	if !ok {
		return nil, errors.New("a map of views has the arrays components (C x m x d), offset (C x d), window (C x n x d) and label (n), in this order")
	}
	return &views{d: arrays[0].shape[2], components: arrays[0].data, offset: arrays[1].data,
		window: arrays[2].data, label: arrays[3].data}, nil
}

func (v *views) weights() (int, []float64, []float64) {
	w := make([]float64, 0, len(v.components))
	for c := range v.count() {
		w = append(w, transpose(v.of(c), v.d)...)
	}
	return v.count() * v.d, w, v.offset
}

// setWindow keeps the rows, with their class indices, as the window. They are
// embedded by the projection itself, so that a row of the window that comes
// back has distance 0 to itself, exactly.
func (v *views) setWindow(mean, scale []float64, unit bool, rows Rows, label []int) error {
	k, err := newKernel(mean, scale, unit, false, v)
	if err != nil {
		return err
	}
	k.dim = k.width
	k.finish = func(dst, y []float32) int { copy(dst, y); return -1 }
	y := make([]float32, rows.N*k.width)
	if err := k.project(y, nil, rows); err != nil {
		return err
	}
	v.window = make([]float64, len(y))
	v.label = make([]float64, rows.N)
	for i := range rows.N {
		v.label[i] = float64(label[i])
		for c := range v.count() {
			for j := range v.d {
				v.window[(c*rows.N+i)*v.d+j] = float64(y[i*k.width+c*v.d+j])
			}
		}
	}
	return nil
}

// finish takes the view with the largest membership degree; ties go to the
// smaller distance to the own class, then to the first class.
func (v *views) finish(dst, y []float32) int {
	best, bestOther, bestOwn, bestDen := -1, 0.0, 0.0, 0.0
	for c := range v.count() {
		other, own := v.distances(c, y[c*v.d:(c+1)*v.d])
		if math.IsInf(other, 1) || math.IsInf(own, 1) {
			continue // no window row of this class, so nothing can belong to it
		}
		den := own
		if other == 0 && own == 0 {
			other, own = 1, 1
		}
		// other/own > bestOther/bestOwn without the division, which may be by 0.
		l, r := other*bestOwn, bestOther*own
		if best < 0 || l > r || (l == r && den < bestDen) {
			best, bestOther, bestOwn, bestDen = c, other, own, den
		}
	}
	copy(dst, y[best*v.d:(best+1)*v.d])
	return best
}

// distances are the squared distances in view c from y to the nearest window
// row of another class, and of the class itself; +Inf where there is none.
func (v *views) distances(c int, y []float32) (other, own float64) {
	other, own = math.Inf(1), math.Inf(1)
	n := len(v.label)
	at := v.window[c*n*v.d : (c+1)*n*v.d]
	for i, l := range v.label {
		var sum float64
		for j, w := range at[i*v.d : (i+1)*v.d] {
			diff := float64(y[j]) - w
			sum += diff * diff
		}
		if l == float64(c) {
			own = min(own, sum)
		} else {
			other = min(other, sum)
		}
	}
	return other, own
}
