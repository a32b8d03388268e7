package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Stratified splits the labelled rows (y >= 0) into a training and a test
// part, class by class. Of a class of n rows, fraction*n go to training,
// halves rounded up; at least one does, and at least one row is left for the
// test where n >= 2. The rows are drawn from seed, each class on its own, and
// come back in ascending order.
func Stratified(y []int, fraction float64, seed uint64) (train, test []int) {
	return stratify(y, seed, func(n int) int { return int(math.Floor(fraction*float64(n) + 0.5)) })
}

// StratifiedPerClass is Stratified with a number of training rows a class; a
// class that has no more rows than that leaves one for the test.
func StratifiedPerClass(y []int, perClass int, seed uint64) (train, test []int) {
	return stratify(y, seed, func(int) int { return perClass })
}

func stratify(y []int, seed uint64, share func(n int) int) (train, test []int) {
	classes := 0
	for _, c := range y {
		classes = max(classes, c+1)
	}
	rows := make([][]int, classes)
	for i, c := range y {
		if c >= 0 {
			rows[c] = append(rows[c], i)
		}
	}
	inTrain := make([]bool, len(y))
	for c, of := range rows {
		r := rand.New(rand.NewPCG(seed, uint64(c)))
		r.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		for _, i := range of[:min(max(share(len(of)), 1), max(len(of)-1, 1), len(of))] {
			inTrain[i] = true
		}
	}
	for i, c := range y {
		switch {
		case c < 0:
		case inTrain[i]:
			train = append(train, i)
		default:
			test = append(test, i)
		}
	}
	return train, test
}

// A split takes every labelled row once, its share of each class, and is a
// function of labels and seed.
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
	most, _ := Stratified(y, 0.999, 1)
	if got := count(most); got != [6]int{58, 70, 47, 1, 1, 2} {
		t.Errorf("nearly all: %v", got)
	}
}
