package mapping

import (
	"errors"
	"fmt"
	"math"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
)

// Views is one linear map per class, for methods that solve each class against the rest (SLE one-versus-rest). A row is
// mapped by the view in which its membership degree is largest (Gong, Tao, Yang and Fu, AAAI 2014, eq. 7): the distance
// to the nearest window row of another class divided by the distance to the nearest one of the view's own class.
type Views struct {
	D          int
	Components []float64 // C x m x d: the map of each class
	Offset     []float64 // C x d, added to a view's outputs (its constant coordinate)
	Window     []float64 // C x n x d: the window rows in each view, as float32 values
	Label      []float64 // n: class index of each window row
}

func (v *Views) Kind() string { return "views" }

func (v *Views) Dim() int { return v.D }

// Count is C, the number of views.
func (v *Views) Count() int { return len(v.Offset) / max(v.D, 1) }

// Of is the m x d map of class c.
func (v *Views) Of(c int) []float64 {
	size := len(v.Components) / v.Count()
	return v.Components[c*size : (c+1)*size]
}

func (v *Views) Check(m, classes int) error {
	c, n := v.Count(), len(v.Label)
	switch {
	case c != classes || len(v.Offset) != c*v.D:
		return fmt.Errorf("%d numbers in offset, %d x %d are needed", len(v.Offset), classes, v.D)
	case c < 2:
		return fmt.Errorf("%d classes; a map of one view per class needs at least 2", c)
	case v.D > m+1:
		return fmt.Errorf("%d outputs of %d features; a view has at most one more output than features", v.D, m)
	case len(v.Components) != c*m*v.D:
		return fmt.Errorf("%d numbers in components, %d x %d x %d are needed", len(v.Components), c, m, v.D)
	case len(v.Window) != c*n*v.D:
		return fmt.Errorf("%d numbers in window, %d x %d x %d are needed", len(v.Window), c, n, v.D)
	}
	several := false
	for i, l := range v.Label {
		if !(l >= 0) || l >= float64(c) || l != math.Trunc(l) {
			return fmt.Errorf("label[%d] is %g; it must be a class index below %d", i, l, c)
		}
		several = several || l != v.Label[0]
	}
	if !several {
		return fmt.Errorf("the %d rows of the window are of fewer than 2 classes; the membership degree needs 2", n)
	}
	for i, x := range v.Window {
		if float64(float32(x)) != x {
			return fmt.Errorf("window[%d] is %g, which float32 cannot represent", i, x)
		}
	}
	return nil
}

func (v *Views) Arrays() []Array {
	c, n := v.Count(), len(v.Label)
	return []Array{
		{"components", []int{c, len(v.Components) / (c * v.D), v.D}, v.Components},
		{"offset", []int{c, v.D}, v.Offset},
		{"window", []int{c, n, v.D}, v.Window},
		{"label", []int{n}, v.Label},
	}
}

func rebuildViews(arrays []Array) Map {
	if len(arrays) != 4 || !named(arrays, []string{"components", "offset", "window", "label"}, []int{3, 2, 3, 1}) {
		panic(fail.With(errors.New("a map of views has the arrays components (C x m x d), offset (C x d), " +
			"window (C x n x d) and label (n), in this order")))
	}
	return &Views{D: arrays[0].Shape[2], Components: arrays[0].Data, Offset: arrays[1].Data,
		Window: arrays[2].Data, Label: arrays[3].Data}
}

func (v *Views) Weights() (int, []float64, []float64) {
	w := make([]float64, 0, len(v.Components))
	for c := range v.Count() {
		w = append(w, linalg.Transpose(v.Of(c), v.D)...)
	}
	return v.Count() * v.D, w, v.Offset
}

// SetWindow sets the window: the outputs y of rows in every view, n x (C d), and their class indices. The outputs must
// come from the projection itself, so that a row of the window that is projected again has distance 0 to itself.
func (v *Views) SetWindow(y []float32, label []int) {
	width := v.Count() * v.D
	v.Window = make([]float64, len(y))
	v.Label = make([]float64, len(label))
	for i, class := range label {
		v.Label[i] = float64(class)
		for c := range v.Count() {
			for j := range v.D {
				v.Window[(c*len(label)+i)*v.D+j] = float64(y[i*width+c*v.D+j])
			}
		}
	}
}

// Finish selects the view with the largest membership degree; ties go to the smaller distance to the view's own class,
// then to the first class.
func (v *Views) Finish(dst, y []float32) int {
	best, bestOther, bestOwn, bestDen := -1, 0.0, 0.0, 0.0
	for c := range v.Count() {
		other, own := v.distances(c, y[c*v.D:(c+1)*v.D])
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
	copy(dst, y[best*v.D:(best+1)*v.D])
	return best
}

// distances are the squared distances in view c from y to the nearest window row of another class, and of the class
// itself; +Inf if there is none.
func (v *Views) distances(c int, y []float32) (other, own float64) {
	other, own = math.Inf(1), math.Inf(1)
	n := len(v.Label)
	at := v.Window[c*n*v.D : (c+1)*n*v.D]
	for i, l := range v.Label {
		var sum float64
		for j, w := range at[i*v.D : (i+1)*v.D] {
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
