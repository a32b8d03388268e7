package model_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// flowers are twelve rows of iris: sepal length and width, petal length and width in cm.
func flowers() *model.Data {
	return &model.Data{
		X: []float64{
			5.1, 3.5, 1.4, 0.2, 4.9, 3.0, 1.4, 0.2, 4.7, 3.2, 1.3, 0.2, 4.6, 3.1, 1.5, 0.2,
			7.0, 3.2, 4.7, 1.4, 6.4, 3.2, 4.5, 1.5, 6.9, 3.1, 4.9, 1.5, 5.5, 2.3, 4.0, 1.3,
			6.3, 3.3, 6.0, 2.5, 5.8, 2.7, 5.1, 1.9, 7.1, 3.0, 5.9, 2.1, 6.3, 2.9, 5.6, 1.8,
		},
		N: 12, M: 4,
		Y:        []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
		Classes:  []string{"setosa", "versicolor", "virginica"},
		Features: []string{"sepal_length", "sepal_width", "petal_length", "petal_width"},
	}
}

func fitted() *model.Model {
	m, err := fit.Fit(context.Background(), flowers(),
		fit.Config{Method: "lda", Dim: 2, Params: map[string]string{"ridge": "0.1"}})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

func ExampleModel_Project() {
	m := fitted()
	// Two rows as float32, row-major, the way an Arrow batch holds them.
	x := []float32{5.0, 3.6, 1.4, 0.2, 6.5, 3.0, 5.8, 2.2}
	rows := model.Rows{N: 2, Blocks: []model.Block{{F32: x, Cols: 4, RowStride: 4, ColStride: 1}}}
	y := make([]float32, rows.N*m.Dim())
	if err := m.Project(y, rows); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n%.1f\n", y[:2], y[2:])
	// Output:
	// [-10.1 -0.9]
	// [7.0 -0.8]
}

func ExampleModel_ScaledTo() {
	m := fitted()
	x := []float64{5.0, 3.6, 1.4, 0.2}
	z := make([]float64, 4)
	if err := m.ScaledTo(z, model.DenseRows(x, 1, 4)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", z)
	// Output: [-1.01 1.89 -1.35 -1.30]
}

func ExampleWrite() {
	m := fitted().WithNote(model.Note{Version: "7", Source: map[string]string{"file": "iris.csv"}})
	var file bytes.Buffer
	if err := model.Write(&file, m); err != nil {
		log.Fatal(err)
	}
	got, err := model.Read(&file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Method(), got.Dim(), got.Note().Version, got.Digest() == m.Digest())
	// Output: lda 2 7 true
}

func ExampleRead() {
	_, err := model.Read(bytes.NewReader([]byte("a,b,label\n1,2,x\n")))
	fmt.Println(err)
	// Output: model file: not a model file: it does not start with the magic bytes; name another file
}

func ExampleEvaluate() {
	c := eval.Config{Data: "flowers", Methods: []string{eval.Raw, "lda"}, Dims: []int{2, 3}, Splits: 4, Seed: 1}
	err := eval.Evaluate(context.Background(), flowers(), c, func(r eval.Result) error {
		fmt.Printf("%s: dim %d, used %d, accuracy %.2f\n", r.Method, r.Dim, r.DimUsed, r.AccuracyMean)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// raw: dim 4, used 4, accuracy 0.96
	// lda: dim 2, used 2, accuracy 0.88
	// lda: dim 3, used 2, accuracy 0.88
}

func ExampleAlign() {
	live := fitted()
	// A later fit on other rows of the same kind.
	d := flowers()
	d.X, d.Y, d.N = d.X[4:], d.Y[1:], 11
	candidate, err := fit.Fit(context.Background(), d,
		fit.Config{Method: "lda", Dim: 2, Params: map[string]string{"ridge": "0.1"}})
	if err != nil {
		log.Fatal(err)
	}
	anchors := flowers()
	aligned, a, err := model.Align(context.Background(), candidate, live,
		model.DenseRows(anchors.X, anchors.N, anchors.M), model.AlignBlock)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("comparable %v, correlation %.2f, dim %d\n", a.Comparable, a.Correlation, aligned.Dim())
	// Output: comparable true, correlation [1.00 1.00], dim 2
}

func ExampleNearest() {
	ref := []float64{0, 0, 1, 0, 5, 5} // three rows of two numbers
	at, err := score.Nearest(context.Background(), ref, 3, []float64{0.6, 0, 4, 6}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(at)
	// Output: [1 2]
}

func ExampleStratified() {
	y := []int{0, 0, 0, 0, 1, 1, -1}
	train, test := score.Stratified(y, 0.5, 1)
	fmt.Println(len(train), "to train,", len(test), "to test")
	// Output: 3 to train, 3 to test
}
