package main

import (
	"bytes"
	"context"

	"github.com/embedd/embedd/model"
)

// lppnews compares lppnews with lpp.
func lppnews(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const draws, train, dim = 10, 20, 30
	f := few{train: train, test: fewTest, half: true, draws: min(draws, b.repeats), dim: dim, scale: model.ScaleMinMax,
		methods: []fewMethod{
			{name: "features"},
			{name: "pca", method: "pca"},
			{name: "npe", method: "npe"},
			{name: "lpp", method: "lpp"},
			{name: "lppnews, as published", method: "lppnews",
				params: map[string]string{"alpha": "1", "beta": "1", "sigma": "0.02"}},
			{name: "lppnews", method: "lppnews"},
		}}
	return f.compare(ctx, b, out, "lppnews.png", [2]string{"lppnews", "lpp"}, [2]string{"lppnews", "pca"},
		[2]string{"lppnews", "npe"}, [2]string{"lppnews, as published", "lpp"})
}

// sleFew compares sle with the methods of its paper with few rows of a class.
func sleFew(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const draws, train, dim = 10, 6, 30
	f := few{train: train, test: fewTest, half: true, draws: min(draws, b.repeats), dim: dim, scale: model.ScaleMinMax,
		methods: []fewMethod{
			{name: "features"},
			{name: "pca", method: "pca"},
			{name: "lpp", method: "lpp"},
			{name: "mfa", method: "mfa", params: map[string]string{"k1": "5", "k2": "10"}},
			{name: "dla", method: "dla"},
			{name: "sle", method: "sle"},
			{name: "sle-ovr", method: "sle-ovr"},
		}}
	return f.compare(ctx, b, out, "", [2]string{"sle", "pca"}, [2]string{"sle", "lpp"}, [2]string{"sle", "mfa"},
		[2]string{"sle", "dla"}, [2]string{"sle-ovr", "pca"}, [2]string{"sle-ovr", "lpp"}, [2]string{"sle-ovr", "mfa"},
		[2]string{"sle-ovr", "dla"})
}

// mpdaFew draws the accuracy of mpda over d.
func mpdaFew(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const draws, train, dim = 10, 50, 40
	f := few{train: train, test: fewTest, half: true, draws: min(draws, b.repeats), dim: dim, methods: []fewMethod{
		{name: "features"},
		{name: "pca", method: "pca"},
		{name: "lda", method: "lda"},
		{name: "mfa", method: "mfa"},
		{name: "lfda", method: "lfda"},
		{name: "mpda", method: "mpda"},
	}}
	return f.compare(ctx, b, out, "mpda.png", [2]string{"mpda", "pca"}, [2]string{"mpda", "lda"},
		[2]string{"mpda", "mfa"}, [2]string{"mpda", "lfda"}, [2]string{"lda", "pca"})
}
