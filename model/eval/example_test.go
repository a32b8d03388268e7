package eval_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
)

func ExampleEvaluate() {
	r := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{M: 3, N: 60, Classes: []string{"low", "high"}}
	for i := range d.N { // two features are the same noise, so that it has most of the variance
		noise := r.NormFloat64()
		d.Y = append(d.Y, i%2)
		d.X = append(d.X, float64(i%2)+0.1*r.NormFloat64(), noise, noise)
	}
	c := eval.Config{Methods: []string{"pca", "lda"}, Dims: []int{1}, Splits: 3}
	err := eval.Evaluate(context.Background(), d, c, func(r eval.Result) error {
		fmt.Printf("%s: more than 90 %% correct: %v\n", r.Method, r.AccuracyMean > 0.9)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// pca: more than 90 % correct: false
	// lda: more than 90 % correct: true
}
