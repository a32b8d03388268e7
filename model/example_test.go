package model_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/embedd/embedd/model"
)

// flowers are features of four rows of iris: sepal length and width, petal length and width in cm.
var flowers = model.DenseRows([]float64{
	5.1, 3.5, 1.4, 0.2,
	7.0, 3.2, 4.7, 1.4,
	5.5, 2.3, 4.0, 1.3,
	6.3, 3.3, 6.0, 2.5,
}, 4, 4)

// read reads a model of lda: flowers was fitted on twelve rows of iris, and flowers-refit on eleven of them.
// TestFlowers in package fit writes the files.
func read(name string) *model.Model {
	file, err := os.Open("testdata/" + name + ".embedd")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	m, err := model.Read(file)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

func ExampleModel_Project() {
	m := read("flowers")
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
	m := read("flowers")
	x := []float64{5.0, 3.6, 1.4, 0.2}
	z := make([]float64, 4)
	if err := m.ScaledTo(z, model.DenseRows(x, 1, 4)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", z)
	// Output: [-1.01 1.89 -1.35 -1.30]
}

func ExampleWrite() {
	m := read("flowers").WithNote(model.Note{Version: "7", Source: map[string]string{"file": "iris.csv"}})
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

func ExampleAlign() {
	live, candidate := read("flowers"), read("flowers-refit")
	aligned, a, err := model.Align(context.Background(), candidate, live, flowers, model.AlignBlock)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("comparable %v, correlation %.2f, dim %d\n", a.Comparable, a.Correlation, aligned.Dim())
	// Output: comparable true, correlation [1.00 1.00], dim 2
}
