package score_test

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/model/score"
)

func ExampleNearest() {
	reference := []float64{0, 0, 10, 10} // two rows of two numbers
	queries := []float64{1, 2, 9, 8, 20, 20}
	nearest, err := score.Nearest(context.Background(), reference, 2, queries, 3, 2)
	if err != nil {
		panic(err)
	}
	fmt.Println(nearest)
	// Output: [0 1 1]
}

func ExampleStratified() {
	classes := []int{0, 0, 0, 0, 1, 1, -1} // the last row has no label
	train, test := score.Stratified(classes, 0.5, 1)
	fmt.Println(len(train), "training rows,", len(test), "test rows")
	// Output: 3 training rows, 3 test rows
}
