package parallel

import (
	"context"
	"runtime"
	"sync/atomic"
)

// budget is the number of goroutines that may be started under a limit, in addition to the caller's.
type budget struct {
	workers int
	spare   atomic.Int64
	outer   *budget // the budget of an enclosing limit
}

type budgetKey struct{}

// Limit returns a context under which at most workers goroutines run concurrently, including the caller's. All runs
// under it share them, nested ones too. Below 1 it is ctx unchanged.
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

// Workers is the maximum number of goroutines that run concurrently under ctx: the number of cores, or the limit.
func Workers(ctx context.Context) int {
	cores := runtime.GOMAXPROCS(0)
	if b := budgetOf(ctx); b != nil {
		return min(b.workers, cores)
	}
	return cores
}

// WorkersFor is Workers for this many multiply-adds: one for few, which end before others would have started.
func WorkersFor(ctx context.Context, work float64) int {
	if work <= 1<<20 {
		return 1
	}
	return Workers(ctx)
}

func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// take is how many of n goroutines may be started. Each is returned with give when it ends.
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
