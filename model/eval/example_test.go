package eval_test

import (
	"context"
	"fmt"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
)

func ExampleEvaluate() {
	d := &model.Data{M: 2, Classes: []string{"low", "high"}}
	for i := range 20 { // the second feature is noise of large variance
		d.X = append(d.X, float64(i/10)+0.1*float64(i%3), float64(100*(i%5)))
		d.Y = append(d.Y, i/10)
		d.N++
	}
	c := eval.Config{Methods: []string{"pca", "lda"}, Dims: []int{1}, Scale: model.ScaleNone, Splits: 3}
	err := eval.Evaluate(context.Background(), d, c, func(r eval.Result) error {
		fmt.Printf("%s: better than chance: %v\n", r.Method, r.AccuracyMean > 0.9)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// pca: better than chance: false
	// lda: better than chance: true
}
