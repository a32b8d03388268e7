package main

import (
	"bytes"
	"context"
)

// fewSMPA are the methods of the SMPA paper with our defaults, and without a ridge.
var fewSMPA = []fewMethod{
	{name: "features"},
	{name: "lda", method: "lda"},
	{name: "lpp", method: "lpp"},
	{name: "mfa", method: "mfa"},
	{name: "lsmpa", method: "lsmpa"},
	{name: "ksmpa", method: "ksmpa"},
}

var fewLiteral = []fewMethod{
	{name: "lda, no ridge", method: "lda", params: map[string]string{"ridge": "0"}},
	{name: "lpp, no ridge", method: "lpp", params: map[string]string{"ridge": "0"}},
	{name: "mfa, no ridge", method: "mfa", params: map[string]string{"ridge": "0"}},
	{name: "lsmpa, no ridge", method: "lsmpa", params: map[string]string{"ridge": "0"}},
	{name: "ksmpa, no ridge", method: "ksmpa", params: map[string]string{"ridge": "0", "kernel": "gauss"}},
}

// smpa runs the protocol of the SMPA paper on data that are available.
func smpa(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const draws, dim, half = 10, 30, 50
	f := few{train: 6, test: fewTest, draws: min(draws, b.repeats), dim: dim, methods: fewSMPA}
	if err := f.tableAndPairs(ctx, b, out, ""); err != nil {
		return err
	}
	f.methods = fewLiteral
	if err := f.tableAndPairs(ctx, b, out, ", no ridge"); err != nil {
		return err
	}
	f.methods, f.train, f.half = fewSMPA, half, true
	return f.tableAndPairs(ctx, b, out, "")
}

// tableAndPairs writes the table of an experiment of the SMPA paper, and how its methods compare.
func (f few) tableAndPairs(ctx context.Context, b *bench, out *bytes.Buffer, suffix string) error {
	var pairs [][2]string
	for _, p := range [][2]string{{"lsmpa", "lda"}, {"lsmpa", "lpp"}, {"lsmpa", "mfa"}, {"ksmpa", "lsmpa"},
		{"ksmpa", "mfa"}} {
		pairs = append(pairs, [2]string{p[0] + suffix, p[1] + suffix})
	}
	return f.compare(ctx, b, out, "", pairs...)
}
