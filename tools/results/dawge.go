package main

import (
	"bytes"
	"context"
)

// fewDawge are the methods of the DAWGE paper, with our defaults and without a ridge.
var fewDawge = []fewMethod{
	{name: "features"},
	{name: "pca", method: "pca"},
	{name: "lda, no ridge", method: "lda", params: map[string]string{"ridge": "0"}},
	{name: "lda", method: "lda"},
	{name: "dawge, as published", method: "dawge",
		params: map[string]string{"constraint": "orthonormal", "normalize": "none"}},
	{name: "dawge, no ridge", method: "dawge", params: map[string]string{"ridge": "0"}},
	{name: "dawge", method: "dawge"},
}

// fewTest is the largest number of test rows of a class.
const fewTest = 100

// dawge runs the protocols of the DAWGE paper on data that are available.
func dawge(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const draws, dim = 15, 60
	for _, train := range []int{7, 3} {
		f := few{train: train, test: fewTest, draws: min(draws, b.repeats), dim: dim, methods: fewDawge}
		err := f.compare(ctx, b, out, "", [2]string{"dawge", "lda"}, [2]string{"dawge", "pca"}, [2]string{"lda", "pca"},
			[2]string{"dawge", "lda, no ridge"}, [2]string{"dawge, as published", "pca"})
		if err != nil {
			return err
		}
	}
	return nil
}
