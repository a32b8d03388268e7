package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is a fault that is injected for a time.
type fault struct {
	name string
	do   func(ctx context.Context, w *world, r *rand.Rand) error
	// reports counts the daemon's reports of this fault; nil: it need not report it
	reports func(ctx context.Context, w *world) float64
}

var faults = slices.Concat(failures, attacks)

// failures are faults of processes, machines and networks.
var failures = []fault{
	{name: "kill", do: func(_ context.Context, w *world, _ *rand.Rand) error { // the daemon is killed
		w.daemon.kill()
		return w.daemon.start()
	}},
	{name: "stop", do: func(_ context.Context, w *world, _ *rand.Rand) error { // the daemon is stopped
		w.daemon.stop(40 * time.Second)
		return w.daemon.start()
	}},
	{name: "reload", do: func(_ context.Context, w *world, r *rand.Rand) error { // of the daemon's configuration
		if err := w.configure(1000 + r.IntN(2000)); err != nil {
			return err
		}
		w.daemon.signal(syscall.SIGHUP)
		return nil
	}},
	{name: "server", do: func(ctx context.Context, w *world, r *rand.Rand) error { // a restart of the server
		w.server.stop(10 * time.Second)
		wait(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
		return w.server.start()
	}},
	{name: "crash", do: func(ctx context.Context, w *world, r *rand.Rand) error { // kill -9 of the server
		w.server.kill()
		wait(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
		return w.server.start()
	}},
	{name: "cut", do: func(_ context.Context, w *world, _ *rand.Rand) error { // every connection of the daemon
		w.link.Cut()
		return nil
	}},
	{name: "hang", do: func(ctx context.Context, w *world, r *rand.Rand) error {
		// The server is suspended, for longer than the duplicate window if that is short.
		w.server.signal(syscall.SIGSTOP)
		wait(ctx, w.longer(r))
		w.server.signal(syscall.SIGCONT)
		return nil
	}},
	{name: "part", do: func(ctx context.Context, w *world, r *rand.Rand) error {
		// The network is partitioned, for longer than the duplicate window if that is short.
		w.link.held.Store(true)
		wait(ctx, w.longer(r))
		w.link.held.Store(false)
		return nil
	}},
	{name: "slow", do: func(ctx context.Context, w *world, r *rand.Rand) error { // a slow network
		w.link.delay.Store(int64(time.Duration(5+r.IntN(45)) * time.Millisecond))
		wait(ctx, 5*time.Second)
		w.link.delay.Store(0)
		return nil
	}},
	// the daemon is suspended for longer than the ack wait
	{name: "freeze", do: func(ctx context.Context, w *world, r *rand.Rand) error {
		w.daemon.signal(syscall.SIGSTOP)
		wait(ctx, 11*time.Second+time.Duration(r.IntN(4000))*time.Millisecond)
		w.daemon.signal(syscall.SIGCONT)
		return nil
	}},
}

// longer returns a time over the duplicate window if that is at most 20 s, else 20 s and more.
func (w *world) longer(r *rand.Rand) time.Duration {
	return min(w.window, 20*time.Second) + time.Second + time.Duration(r.IntN(5000))*time.Millisecond
}

func names() (all []string) {
	for _, f := range faults {
		all = append(all, f.name)
	}
	return all
}

// chosen returns the faults with these names.
func chosen(text string) (some []fault, err error) {
	if text == "" {
		return faults, nil
	}
	if text == "none" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q; there are %s", name, strings.Join(names(), ", "))
		}
		some = append(some, faults[i])
	}
	return some, nil
}

// ownEnd counts how often the daemon ended although nothing stopped it, next to the faults.
const ownEnd = "ended by itself"

// restart starts the daemon again if it ended by itself, counts that, and reports whether it did.
func (w *world) restart(count map[string]int, out io.Writer) bool {
	state, ended := w.daemon.ended()
	if !ended {
		return false
	}
	fmt.Fprintf(out, "the daemon ended by itself: %s\n", state)
	count[ownEnd]++
	if err := w.daemon.start(); err != nil {
		fmt.Fprintln(out, err)
	}
	return true
}

// trouble injects one fault after another until ctx ends, and returns how many of each, and which attacks were not
// reported.
func (w *world) trouble(ctx context.Context, some []fault, out io.Writer) (count map[string]int, silent []string) {
	r := rand.New(rand.NewPCG(w.seed, 2))
	count = map[string]int{}
	for ctx.Err() == nil {
		wait(ctx, time.Duration(r.ExpFloat64()*float64(w.pause)))
		if ctx.Err() != nil {
			break
		}
		if w.restart(count, out) {
			continue
		}
		if len(some) == 0 {
			continue
		}
		f := some[r.IntN(len(some))]
		began, isReported, err := time.Now(), true, error(nil)
		w.injected = append(w.injected, injection{f.name, began})
		if f.reports == nil {
			err = f.do(ctx, w, r)
		} else if isReported, err = f.attack(ctx, w, r); ctx.Err() == nil {
			fmt.Fprintf(out, "%s: reported %t after %s\n", f.name, isReported, time.Since(began).Round(time.Second))
			if !isReported {
				silent = append(silent, f.name)
			}
		}
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", f.name, err)
		}
		count[f.name]++
	}
	w.server.signal(syscall.SIGCONT)
	w.daemon.signal(syscall.SIGCONT)
	if ctx.Err() == context.DeadlineExceeded { // an interrupt of the terminal ends the daemon too
		w.restart(count, out)
	}
	return count, silent
}

// describe lists how many faults of each kind were injected.
func describe(count map[string]int) string {
	var text []string
	for name, n := range count {
		text = append(text, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(text)
	return strings.Join(text, ", ")
}

// wait pauses until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
