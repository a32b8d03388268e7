package iterative

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/parallel"
)

// TestLost: a search has lost outputs if its least singular value is 1e-6 of that of its start.
func TestLost(t *testing.T) {
	diagonal := func(v float64) *mat.Dense { return mat.NewDense(3, 2, []float64{1, 0, 0, v, 0, 0}) }
	for _, c := range []struct {
		end, begin float64
		want       bool
	}{{1, 1, false}, {2e-6, 1, false}, {0.5e-6, 1, true}, {2e-8, 1e-2, false}, {0.5e-8, 1e-2, true}, {0, 1, true}} {
		if got := lost(diagonal(c.end), diagonal(c.begin)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestFloorOfTheRidge: at least 0.3, from 8 dimensions on 0.1.
func TestFloorOfTheRidge(t *testing.T) {
	for d, want := range map[int]float64{1: 0.3, 7: 0.3, 8: 0.1, 20: 0.1} {
		if got := tncaFloor(d); got != want {
			t.Errorf("%d dimensions: %g, want %g", d, got, want)
		}
	}
}

// TestReferences: of each class evenly spaced rows, as many as its share, and two if it has them.
func TestReferences(t *testing.T) {
	p := &frame.Rows{N: 100, M: 1, Classes: []string{"a", "b", "c"}}
	for i := range p.N {
		class := 0 // 90 rows, then 9 and 1
		if i >= 90 {
			class = 1
		}
		if i == 99 {
			class = 2
		}
		p.Y = append(p.Y, class)
	}
	for references, want := range map[int][]int{1000: {90, 9, 1}, 100: {90, 9, 1}, 50: {45, 5, 1}, 10: {9, 2, 1},
		2: {2, 2, 1}} {
		l := NewNeighbourLoss(p, references)
		for c, n := range want {
			of := l.Rows[l.own[c][0]:l.own[c][1]]
			if len(of) < n-1 || len(of) > n {
				t.Errorf("%d references: %d of class %d, want %d", references, len(of), c, n)
			}
			for k, i := range of {
				if p.Y[i] != c || l.Slot[i] != l.own[c][0]+k {
					t.Errorf("%d references: row %d of class %d is in the place of class %d", references, i, p.Y[i], c)
				}
			}
		}
		if without := len(l.Slot) - len(l.Rows); references == 2 && (without != 95 || l.Slot[1] != -1) {
			t.Errorf("%d rows are no references", without)
		}
	}
}

// TestLossHasSixteenSums: the order of the sums of a loss, and so its last digits, are the same on any number of cores.
func TestLossHasSixteenSums(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(32))
	const n = 320
	l := &neighbourLoss{u: mat.NewDense(n, 2, nil), y: make([]int, n), Rows: []int{0, 1, 2, 3}, own: [][2]int{{0, 4}},
		Slot: make([]int, n)}
	before := parallel.Started()
	l.Value(t.Context(), mat.NewDense(2, 1, []float64{1, 2}), mat.NewDense(2, 1, nil))
	if n := parallel.Started() - before; n != 15 {
		t.Errorf("%d goroutines besides the caller's", n)
	}
}

// TestCentresOfARareClass: the centres of lsdr are spread over the classes, and a class of few rows has one.
func TestCentresOfARareClass(t *testing.T) {
	y := make([]int, 100)
	for i := 2; i < len(y); i++ {
		y[i] = 1
	}
	q := NewInformation(mat.NewDense(100, 1, nil), &frame.Rows{N: 100, M: 1, Y: y, Classes: []string{"rare", "usual"}}, 10)
	if n, _ := q.Ref.Dims(); n != 11 || q.Own[0] != [2]int{0, 1} || q.Own[1] != [2]int{1, 11} {
		t.Errorf("%d centres, of the classes %v", n, q.Own)
	}
}

// TestSums of every length up to 9, and what kernel values are weighed by.
func TestSums(t *testing.T) {
	for n := range 10 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i + 1)
		}
		if got := sum(x); got != float64(n*(n+1)/2) {
			t.Errorf("%d numbers: %g", n, got)
		}
	}
	kernel := []float64{2, 3}
	if weigh(kernel, []float64{5, 7, 9}, 0.5); !slices.Equal(kernel, []float64{5, 10.5}) {
		t.Errorf("weighed: %v", kernel)
	}
}

// TestLossByHand compares the loss with -log of the share of the own class, with weights (1 + d^2/8)^-4, and the
// penalty.
func TestLossByHand(t *testing.T) {
	rows := &frame.Rows{N: 3, M: 1, Y: []int{0, 0, 1}, Classes: []string{"a", "b"}}
	l := NewNeighbourLoss(rows, 100)
	l.Project(t.Context(), mat.NewDense(3, 1, []float64{0, 1, 3}), mat.NewDense(1, 1, []float64{1}))
	weight := func(d float64) float64 { return math.Pow(1+d*d/8, -4) }
	p0, p1 := weight(1)/(weight(1)+weight(3)), weight(1)/(weight(1)+weight(2))
	want := -(math.Log(p0+1e-12) + math.Log(p1+1e-12) + math.Log(1e-12)) / 3 // the last row has no other of its class
	at := mat.NewDense(1, 1, []float64{1})
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want) <= 1e-12) {
		t.Errorf("the loss is %g, want %g", got, want)
	}
	l.Penalty = 0.5
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want-0.5) <= 1e-12) {
		t.Errorf("with a penalty: %g, want %g", got, want+0.5)
	}
	l.To = mat.NewDense(1, 1, []float64{3})
	if got := l.Value(t.Context(), at, nil); !(math.Abs(got-want-2) <= 1e-12) {
		t.Errorf("tied to 3: %g, want %g", got, want+2)
	}
	if got := l.leaveOneOut(t.Context(), at); !(math.Abs(got-2./3) <= 1e-15) {
		t.Errorf("%g have a neighbour of their class", got)
	}
	l.To, l.Penalty = nil, 0
	best := l.tie(t.Context(), 1)
	least, scale := math.Inf(1), 0.0
	for _, e := range []float64{-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2} {
		l := *l
		l.To, l.Penalty = nil, 0
		if v := l.Value(t.Context(), mat.NewDense(1, 1, []float64{math.Exp2(e)}), nil); v < least {
			least, scale = v, math.Exp2(e)
		}
	}
	if best.At(0, 0) != scale || l.To != best || !(math.Abs(l.Penalty-0.3/(scale*scale)) <= 1e-12) {
		t.Errorf("the start is %g with a penalty of %g, want %g", best.At(0, 0), l.Penalty, scale)
	}
	one := NewNeighbourLoss(&frame.Rows{N: 1, M: 1, Y: []int{0}, Classes: []string{"a"}}, 100)
	one.Project(t.Context(), mat.NewDense(1, 1, []float64{2}), at)
	if got := one.Value(t.Context(), at, mat.NewDense(1, 1, nil)); got != 0 {
		t.Errorf("the loss of one row is %g", got)
	}
}
