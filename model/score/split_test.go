package score

import (
	"math"
	"slices"
	"testing"
)

// A split has every labelled row once, the same share of each class, and is a function of labels and seed.
func TestStratified(t *testing.T) {
	y := make([]int, 0, 200)
	for c, n := range []int{59, 71, 48, 1, 2, 3} { // classes of one to three rows too
		for range n {
			y = append(y, c)
		}
	}
	y = append(y, -1, -1)
	count := func(rows []int) (n [6]int) {
		for _, i := range rows {
			n[y[i]]++
		}
		return n
	}
	train, test := Stratified(y, 0.5, 7)
	if got := count(train); got != [6]int{30, 36, 24, 1, 1, 2} {
		t.Errorf("training rows a class: %v", got)
	}
	all := append(slices.Clone(train), test...)
	slices.Sort(all)
	for i, r := range all {
		if i != r || len(all) != 184 {
			t.Fatal("the parts are not the labelled rows, each once")
		}
	}
	if !slices.IsSorted(train) || !slices.IsSorted(test) {
		t.Error("rows are not in ascending order")
	}
	again, _ := Stratified(y, 0.5, 7)
	other, _ := Stratified(y, 0.5, 8)
	if !slices.Equal(train, again) || slices.Equal(train, other) {
		t.Error("a split is not a function of its seed")
	}
	perClass, _ := StratifiedPerClass(y, 6, 1)
	if got := count(perClass); got != [6]int{6, 6, 6, 1, 1, 2} {
		t.Errorf("six a class: %v", got)
	}
	far, held := Stratified([]int{math.MaxInt, 1 << 50, 1 << 50}, 0.5, 1)
	if len(far) != 2 || len(held) != 1 {
		t.Errorf("classes far apart: %v, %v", far, held)
	}
	most, _ := Stratified(y, 0.999, 1)
	if got := count(most); got != [6]int{58, 70, 47, 1, 1, 2} {
		t.Errorf("nearly all: %v", got)
	}
}
