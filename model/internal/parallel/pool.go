package parallel

import (
	"context"
	"sync"
	"sync/atomic"
)

// Pool runs a function on several goroutines, which take ranges of [0, n) in order. It can run repeatedly, one run at
// a time, without allocating.
type Pool struct {
	work   func(*Pool)
	worker func() // bound once, so that a go statement does not allocate

	ctx     context.Context
	budget  *budget // of ctx, nil without a limit
	n, step int
	next    atomic.Int64
	wait    sync.WaitGroup
	failed  atomic.Pointer[error] // the first
}

var started atomic.Int64

// Started is how many goroutines this package has started.
func Started() int64 { return started.Load() }

// NewPool returns a pool whose workers each call work once per run. work calls Next until there is no range left, or
// returns earlier.
func NewPool(work func(*Pool)) *Pool {
	p := &Pool{work: work}
	p.worker = p.other
	return p
}

// Run hands out [0, n) in ranges of step to at most workers goroutines, including the caller's, as ctx allows, and
// waits for all. A panic, or the end of ctx, stops it early. The error is that of the first panic, a *Panic or the
// error of a failure, else that of ctx.
func (p *Pool) Run(ctx context.Context, workers, n, step int) error {
	p.ctx, p.n, p.step = ctx, n, step
	p.next.Store(0)
	others := min(workers, (n+step-1)/step) - 1
	if others > 0 {
		p.budget = budgetOf(ctx)
		others = p.budget.take(others)
	}
	started.Add(int64(max(others, 0)))
	for range others {
		p.wait.Add(1)
		go p.worker()
	}
	p.guarded()
	if others > 0 {
		p.wait.Wait()
	}
	p.ctx, p.budget = nil, nil
	if err := p.failed.Swap(nil); err != nil {
		return *err
	}
	return ctx.Err()
}

// Next is the next range [from, to) for the calling worker; ok is false if there is none.
func (p *Pool) Next() (from, to int, ok bool) {
	if p.failed.Load() != nil || p.ctx.Err() != nil {
		return 0, 0, false
	}
	from = int(p.next.Add(int64(p.step))) - p.step
	return from, min(from+p.step, p.n), from < p.n
}

func (p *Pool) other() {
	defer p.wait.Done()
	defer p.budget.give()
	p.guarded()
}

func (p *Pool) guarded() {
	defer p.catch()
	p.work(p)
}

func (p *Pool) catch() {
	if v := recover(); v != nil {
		err := caught(v)
		p.failed.CompareAndSwap(nil, &err)
	}
}
