package dataset

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestNumberingOfManyRows: of a column with more integers than are remembered one by one, it is known too whether all
// of them differ, and the memory does not grow with the rows.
func TestNumberingOfManyRows(t *testing.T) {
	const n = maxSeen + 5000
	names := []string{"shuffled", "one twice", "descending", "far apart"}
	r := &Rows{Data: model.Data{N: n, M: len(names), Features: names}}
	single := map[string]bool{}
	for _, name := range names {
		single[name] = true
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for i, at := range order {
		twice := at
		if i == n-1 {
			twice = order[0]
		}
		r.X = append(r.X, float64(at), float64(twice), float64(-i), float64(3*at))
	}
	found, err := r.findIndexes(single)
	if want := []bool{true, false, true, false}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%v number the rows: %v, want %v (%v)", names, found, want, err)
	}
	c := integerColumn{first: map[float64]bool{}}
	for i := range n {
		if c.add(float64(i)); len(c.first) > maxSeen {
			t.Fatalf("after %d rows %d integers are remembered", i+1, len(c.first))
		}
	}
}
