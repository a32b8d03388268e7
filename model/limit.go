package model

import (
	"context"

	"github.com/embedd/embedd/model/internal/parallel"
)

// Limit is ctx, under which the functions of this module run on at most so many goroutines at one time, that of the
// caller among them: fits, statistics, scores and projections share them. Below 1 it is ctx as it is: all cores. What
// they compute does not depend on it.
func Limit(ctx context.Context, workers int) context.Context { return parallel.Limit(ctx, workers) }
