package onnx_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/onnx"
)

// A fitted model is written for onnxruntime. Its input is features, its output embedding.
func Example() {
	rows := &model.Data{N: 4, M: 2, X: []float64{0, 0, 1, 1, 2, 2, 3, 4}}
	m, err := fit.Fit(context.Background(), rows, fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer // or a file model.onnx
	if err := onnx.Write(&file, m); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Contains(file.Bytes(), []byte("embedding")), bytes.Contains(file.Bytes(), []byte(m.Digest())))
	// Output: true true
}
