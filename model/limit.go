package model

import (
	"context"

	"github.com/embedd/embedd/model/internal/parallel"
)

// Limit returns a context in which the functions of this module run on at most workers goroutines concurrently,
// including the caller's: fits, statistics, scores and projections share them. Below 1 it is ctx unchanged: all cores.
// Results do not depend on it.
func Limit(ctx context.Context, workers int) context.Context { return parallel.Limit(ctx, workers) }
