// Soak runs the real daemon and a real server under load, with injected faults and bad input, and checks that every
// input has exactly one answer, by message id and by rows. From the root of the repository:
//
//	go run ./tools/soak -for 1h
//
// It prints a line every ten seconds, and at the end tables over time and of the delays after each kind of fault, and
// the lost and duplicated inputs. The exit code is 1 if there are any, if an attack was not reported, or if the daemon
// ended by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type options struct {
	long   time.Duration
	rate   float64
	rows   int
	bad    float64
	window time.Duration
	faults string
	pause  time.Duration
	seed   uint64
	dir    string
}

func main() {
	var o options
	flag.DurationVar(&o.long, "for", 10*time.Minute, "`time` under load")
	flag.Float64Var(&o.rate, "rate", 100, "`messages` a second")
	flag.IntVar(&o.rows, "rows", 8, "`rows` of a message")
	flag.Float64Var(&o.bad, "bad", 0.01, "`share` of messages that cannot be answered")
	flag.DurationVar(&o.window, "window", 2*time.Minute, "duplicate `window` of the output stream")
	flag.StringVar(&o.faults, "faults", "", "`names` of faults, with commas between them: "+strings.Join(names(), ", ")+
		"; none (default all)")
	flag.DurationVar(&o.pause, "pause", 15*time.Second, "mean `time` between two faults")
	flag.Uint64Var(&o.seed, "seed", 1, "`seed` of everything that is drawn")
	flag.StringVar(&o.dir, "dir", "", "`folder` for the server's store and the logs, which stay (default: a temporary "+
		"one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := o.run(ctx, os.Stdout); {
	case errors.Is(err, errWrong):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
}

// errWrong is returned if inputs were lost or duplicated, an attack was not reported, or the daemon ended by itself;
// the details are printed.
var errWrong = errors.New("not all is well")

func (o options) run(ctx context.Context, out io.Writer) (err error) {
	faults, err := chosen(o.faults)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "embedd-soak-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				os.RemoveAll(o.dir)
			} else {
				fmt.Fprintln(out, "logs and store are in", o.dir)
			}
		}()
	}
	fmt.Fprintln(out, "building embedd and nats-server")
	for name, pkg := range map[string]string{"embedd": "./cmd/embedd",
		"nats-server": "github.com/nats-io/nats-server/v2"} {
		if err := build(ctx, filepath.Join(o.dir, name), pkg); err != nil {
			return err
		}
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.end()
	if err := w.begin(ctx); err != nil {
		return err
	}
	loaded, unload := context.WithTimeout(ctx, o.long)
	defer unload()
	sender := newSender(o, w.js)
	sent := make(chan error, 1)
	go func() { sent <- sender.run(loaded) }()
	watch := newWatch(w, sender, out)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch.run(loaded)
	}()
	happened, silent := w.trouble(loaded, faults, out)
	if err := <-sent; err != nil {
		return err
	}
	<-watched
	end := time.Now()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(out, "%d messages sent; waiting for the last answers\n", sender.sent())
	if err := w.awaitAnswers(ctx, 5*time.Minute); err != nil {
		fmt.Fprintln(out, "not settled:", err)
	}
	watch.takeSample(ctx)
	a, err := w.account(ctx)
	if err != nil {
		return err
	}
	watch.table()
	printDelays(out, w.injected, a.deliveries, end)
	fmt.Fprintf(out, "\nfaults: %s\n", describe(happened))
	fmt.Fprintf(out, "attacks that the daemon did not report: %d %v\n", len(silent), silent)
	if !a.print(out) || len(silent)+happened[ownEnd] > 0 {
		return errWrong
	}
	return nil
}
