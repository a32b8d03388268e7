package main

import (
	"bytes"
	"context"
	"fmt"
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
	draw := min(draws, b.repeats)
	fmt.Fprintf(out, `The tables of the DAWGE paper have the accuracy on the face images of AR, with 7 images of a person
for training and 7 for the test, and of FERET, with 3 and 4; the mean of 15 draws. Those images cannot be
obtained. Its figures, in %%:

| | pca | lda | dawge |
|---|---|---|---|
| AR, 7 and 7 | 79.82 | 91.55 | 93.65 |
| FERET, 3 and 4 | 49.22 | 67.30 | 79.67 |

The same protocol on available data: %d draws of as many training rows of each class, nearest neighbour. Test rows do
not change the fit, so there are up to %d of each class: that makes less noise. A class of too few rows
keeps one for the test. In brackets is the dimension, up to %d, whose mean over the draws is best, for every method in
hindsight; how the paper chose is not known to us. Pixels (digits, usps) are not scaled, other features have unit
variance. "As published" is `+"`constraint=orthonormal`"+` and `+"`normalize=none`"+`, "no ridge" is
`+"`ridge=0`"+`. The weights are |cos|: with cos, as printed, the objective is zero.
`, draw, fewTest, dim)
	for _, train := range []int{7, 3} {
		fmt.Fprintf(out, "\n%d training rows of each class:\n\n", train)
		f := few{train: train, test: fewTest, draws: draw, dim: dim, methods: fewDawge}
		err := f.compare(ctx, b, out, "", [2]string{"dawge", "lda"}, [2]string{"dawge", "pca"}, [2]string{"lda", "pca"},
			[2]string{"dawge", "lda, no ridge"}, [2]string{"dawge, as published", "pca"})
		if err != nil {
			return err
		}
	}
	fmt.Fprint(out, `
The claim is that dawge is more accurate than lda, and lda than pca. Here the second part holds on most sets, also
dawge over pca. That dawge is more accurate than lda does not show: with a ridge in both, the sets are divided, and no
difference is as large as in the paper. Its lead there is over an lda that has only pca in front; without a ridge
lda and dawge lose 4 to 8 points here, since the scatters are of as many rows as features or fewer. As published,
without a constraint between classes, dawge is no better than pca with 7 rows, and ahead by a point with 3.
`)
	return nil
}
