package score

import (
	"math"
	"math/rand/v2"
)

// Stratified splits the labelled rows (y >= 0) into a training and a test part, class by class. Of a class of n rows,
// fraction*n go to training, halves rounded up, but at least one; at least one is left for the test if n >= 2. The
// rows are drawn from seed, each class separately, and returned in ascending order.
func Stratified(y []int, fraction float64, seed uint64) (train, test []int) {
	return stratify(y, seed, func(n int) int { return int(math.Floor(fraction*float64(n) + 0.5)) })
}

// StratifiedPerClass is Stratified with a number of training rows per class; a class that has no more rows than that
// leaves one for the test.
func StratifiedPerClass(y []int, perClass int, seed uint64) (train, test []int) {
	return stratify(y, seed, func(int) int { return perClass })
}

func stratify(y []int, seed uint64, share func(n int) int) (train, test []int) {
	rows := map[int][]int{}
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
