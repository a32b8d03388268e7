package parallel

import "context"

// Each calls f for every i below n, in order, on as many cores as ctx allows, and waits for all calls. A panic of f, a
// failure (see package fail), or the end of ctx, stops it early and is the error: a *Panic, that of the failure, or
// that of ctx.
func Each(ctx context.Context, n int, f func(i int)) error {
	return EachOn(ctx, Workers(ctx), n, f)
}

// EachOn is Each on at most workers goroutines, including the caller's.
func EachOn(ctx context.Context, workers, n int, f func(i int)) error {
	return NewPool(func(p *Pool) {
		for i, _, ok := p.Next(); ok; i, _, ok = p.Next() {
			f(i)
		}
	}).Run(ctx, workers, n, 1)
}

// EachProgress is Each in goroutines other than the caller's, which calls progress after each call of f with the number
// of completed ones. A panic of progress is handled like one of f. With a limit of one, the caller does everything.
func EachProgress(ctx context.Context, n int, f func(i int), progress func(done int)) error {
	if Workers(ctx) == 1 {
		return EachOn(ctx, 1, n, func(i int) {
			f(i)
			progress(i + 1)
		})
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{}, n) // never blocks a worker
	var err error
	started.Add(1)
	go func() {
		defer close(done)
		err = Each(ctx, n, func(i int) {
			f(i)
			done <- struct{}{}
		})
	}()
	failed := report(done, progress)
	if failed != nil {
		stop()
		for range done { // after a panic, wait for the others too
		}
		return failed
	}
	return err
}

func report(done <-chan struct{}, progress func(int)) (failed error) {
	defer func() {
		if v := recover(); v != nil {
			failed = caught(v)
		}
	}()
	count := 0
	for range done {
		count++
		progress(count)
	}
	return nil
}
