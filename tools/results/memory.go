package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// heap returns the memory of objects, in bytes, live or not yet collected.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// peak returns how far the heap grows during f. It is sampled every few microseconds, while the garbage collector runs
// all the time.
func peak(f func() error) (uint64, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	before := heap()
	most, stop, done := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			most = max(most, heap())
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	err := f()
	close(stop)
	<-done
	return most - before, err
}

// memory compares the peaks of pmpda, lpfe and mpda.
func memory(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const rows, dim = 500, 10
	fmt.Fprint(out, `| data | mpda | pmpda | lpfe | pmpda to mpda | paper | lpfe to mpda | paper |
|---|---|---|---|---|---|---|---|
`)
	for _, name := range []string{"digits", "vowel"} {
		if !b.isRequested(name) {
			continue
		}
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		in, _ := score.Stratified(d.Y, float64(rows)/float64(d.N), 1)
		part := d.Subset(in)
		used := map[string]float64{}
		for _, method := range []string{"mpda", "pmpda", "lpfe"} {
			most, err := peak(func() error {
				_, err := fit.Fit(ctx, part, fit.Config{Method: method, Dim: dim, Params: map[string]string{"k": "7"}})
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, method, err)
			}
			used[method] = float64(most)
			b.say("%s, %s: %.1f MB", name, method, used[method]/1e6)
		}
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f | %.1f | about 150 | %.1f | about 60 |\n", name, used["mpda"]/1e6,
			used["pmpda"]/1e6, used["lpfe"]/1e6,
			used["pmpda"]/used["mpda"], used["lpfe"]/used["mpda"])
	}
	return nil
}
