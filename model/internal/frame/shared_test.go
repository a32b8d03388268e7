package frame

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
)

// Fits that share rows get the lists that a search for them alone would find, whatever was searched before, also if one
// of them has replaced the rows.
func TestSharedLists(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, m = 120, 3
	rows := func() *mat.Dense {
		x := mat.NewDense(n, m, nil)
		for i := range n {
			for j := range m {
				x.Set(i, j, float64(r.IntN(6))) // many are as near
			}
		}
		return x
	}
	y := make([]int, n)
	for i := range y {
		y[i] = min(i%7, 3) // the smallest class has fewer rows than some lists
	}
	task := &Task{X: rows(), M: m, Rows: &Rows{N: n, M: m, Y: y}}
	Share(task, &Scratch{})
	task.shared.x = task.X
	for k, lengths := range [][2]int{{5, 0}, {9, 10}, {7, 20}, {30, 25}, {4, 1}, {9, 0}, {200, 200}} {
		of := *task
		if k == 4 {
			of.X = rows()
		}
		own, others := nearestByClass(t.Context(), &of, lengths[0], lengths[1])
		wantOwn, wantOthers, err := graph.NearestByClass(t.Context(), of.X, y, lengths[0], lengths[1])
		if err != nil {
			t.Fatal(err)
		}
		if !sameLists(own, wantOwn) || lengths[1] > 0 && !sameLists(others, wantOthers) {
			t.Errorf("lists of %d and %d rows differ from those that were searched alone", lengths[0], lengths[1])
		}
	}
}

func sameLists(a, b *graph.Neighbors) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		at, d := a.Row(i)
		want, e := b.Row(i)
		if !slices.Equal(at, want) || !slices.Equal(d, e) {
			return false
		}
	}
	return true
}
