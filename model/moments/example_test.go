package moments_test

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/model/moments"
)

func ExampleSet() {
	ctx, window := context.Background(), moments.New(2, false)
	// Three rows of two features; the last has no label.
	if err := window.Add(ctx, []float64{1, 0, 3, 4, 8, 2}, []int{0, 1, -1}, nil); err != nil {
		fmt.Println(err)
		return
	}
	// The first row leaves the window.
	if err := window.Sub(ctx, []float64{1, 0}, []int{0}, nil); err != nil {
		fmt.Println(err)
		return
	}
	s, err := window.Summary(false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("weight", s.Weight, "mean", s.Mean, "variance", s.Total.At(0, 0), s.Total.At(1, 1))
	// Output: weight 2 mean [5.5 3] variance 6.25 1
}
