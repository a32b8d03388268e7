package parallel

import (
	"context"
	"runtime"
	"sync/atomic"
)

// budget is the goroutines that may be started under a limit, beside the one that is there.
type budget struct {
	workers int
	spare   atomic.Int64
	outer   *budget // of a limit around this one
}

type budgetKey struct{}

// Limit is ctx, under which at most so many goroutines run at one time, that of the caller among them: all runs under
// it share them, those inside one another too. Below 1 it is ctx as it is.
func Limit(ctx context.Context, workers int) context.Context {
	if workers < 1 {
		return ctx
	}
	outer := budgetOf(ctx)
	if outer != nil && workers >= outer.workers {
		return ctx
	}
	b := &budget{workers: workers, outer: outer}
	b.spare.Store(int64(workers - 1))
	return context.WithValue(ctx, budgetKey{}, b)
}

// Workers is how many goroutines run at one time under ctx at most: as many as there are cores, or the limit.
func Workers(ctx context.Context) int {
	cores := runtime.GOMAXPROCS(0)
	if b := budgetOf(ctx); b != nil {
		return min(b.workers, cores)
	}
	return cores
}

func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// take is how many of n goroutines may be started. Each is given back when it ends.
func (b *budget) take(n int) int {
	if b == nil {
		return n
	}
	for {
		spare := b.spare.Load()
		n = min(n, int(spare))
		if n < 1 {
			return 0
		}
		if b.spare.CompareAndSwap(spare, spare-int64(n)) {
			break
		}
	}
	got := b.outer.take(n)
	b.spare.Add(int64(n - got))
	return got
}

func (b *budget) give() {
	for ; b != nil; b = b.outer {
		b.spare.Add(1)
	}
}
