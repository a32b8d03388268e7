package prequential

import (
	"context"
	"math"

	"github.com/embedd/embedd/model"
)

// KeepsDistances reports whether a model that was rotated and shifted has the distances between rows of the original
// one: a shift by a very large number rounds them away. x has n rows; the distances of successive ones are compared.
func KeepsDistances(ctx context.Context, original, moved *model.Model, x []float64, n int) (bool, error) {
	if original == moved || original.Dim() != moved.Dim() || n < 2 {
		return true, nil
	}
	d := original.Dim()
	before, err := project(ctx, original, x, n)
	if err != nil {
		return false, err
	}
	after, err := project(ctx, moved, x, n)
	if err != nil {
		return false, err
	}
	lost := 0
	for i := range n - 1 {
		was := squaredDistance(before[i*d:(i+1)*d], before[(i+1)*d:(i+2)*d])
		is := squaredDistance(after[i*d:(i+1)*d], after[(i+1)*d:(i+2)*d])
		if math.Abs(is-was) > maxRounding*was {
			lost++
		}
	}
	return 2*lost < n, nil
}

// maxRounding is the part of a squared distance that rounding may change.
const maxRounding = 0.01
