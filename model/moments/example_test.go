package moments_test

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/model/moments"
)

func ExampleSet() {
	ctx, set := context.Background(), moments.New(2, false)
	// Three rows of two features; the last has no label.
	if err := set.Add(ctx, []float64{1, 0, 3, 4, 8, 2}, []int{0, 1, -1}); err != nil {
		fmt.Println(err)
		return
	}
	s, err := set.Summary(false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("weight", s.Weight, "mean", s.Mean, "variance", s.Total.At(0, 0), s.Total.At(1, 1))
	// Output: weight 3 mean [4 2] variance 8.666666666666666 2.6666666666666665
}
