// Command learning trains stages with default settings on streams with concept drift, and writes
// docs/evidence/learning.md, with a picture in docs/evidence/learning:
//
//	go run ./tools/learning [-streams rotation,means] [-seeds 3] [-first 1] [-rows 40000] [-o DIR] [-json] [-quiet]
//
// A partial run without -o prints the tables and writes no page.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/embedd/embedd/model/fit"
)

// options are the flags.
type options struct {
	streams string
	seeds   int
	first   uint64
	rows    int
	method  string
	dim     int
	out     string
	json    bool
	quiet   bool
}

func main() {
	var o options
	flag.StringVar(&o.streams, "streams", "", "`names` of streams, with commas between them (default all)")
	flag.IntVar(&o.seeds, "seeds", usualSeeds, "`number` of seeds")
	flag.Uint64Var(&o.first, "first", 1, "the first `seed`; the others follow it")
	flag.IntVar(&o.rows, "rows", usualRows, "`rows` of a generated stream, a multiple of 10,000")
	flag.StringVar(&o.method, "method", method, "`method` of the stage; the oracle keeps to "+method)
	flag.IntVar(&o.dim, "dim", 0, "`outputs` of the stage (default those of the method)")
	flag.StringVar(&o.out, "o", "", "`folder` of the page (default docs/evidence for a run of everything, none for a "+
		"part)")
	flag.BoolVar(&o.json, "json", false, "print all figures as JSON")
	flag.BoolVar(&o.quiet, "quiet", false, "do not say how far it is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "learning:", err)
		os.Exit(1)
	}
}

// fit is how the stage fits.
func (o options) fit() fit.Config { return fit.Config{Method: o.method, Dim: o.dim} }

func (o options) run(ctx context.Context, stdout io.Writer) error {
	some, err := chosen(o.streams)
	if err != nil {
		return err
	}
	if o.rows < 10_000 || o.rows%10_000 != 0 || o.seeds < 1 {
		return errors.New("give a multiple of 10,000 rows, so that changes fall between messages, and a seed at least")
	}
	begun := time.Now()
	all, err := o.follow(ctx, some)
	if err != nil {
		return err
	}
	o.say("%d runs in %s", len(some)*o.seeds, time.Since(begun).Round(time.Second))
	usual := o.streams == "" && o.seeds == usualSeeds && o.first == 1 && o.rows == usualRows && o.method == method &&
		o.dim == 0 && !o.json
	if o.out == "" && usual {
		o.out = "docs/evidence"
	}
	if o.out != "" {
		if err := writePage(o.out, o, all); err != nil {
			return err
		}
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", " ")
		return e.Encode(map[string]any{"streams": all, "bounds": bounds(all)})
	}
	_, err = io.WriteString(stdout, tables(all))
	return err
}

// follow runs all streams with all seeds, as many at once as there are cores.
func (o options) follow(ctx context.Context, some []stream) ([]*figures, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runs := make([][]run, len(some))
	for i := range runs {
		runs[i] = make([]run, o.seeds)
	}
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i, s := range some {
		for seed := range o.seeds {
			free <- struct{}{}
			group.Go(func() {
				defer func() { <-free }()
				if ctx.Err() != nil {
					return
				}
				begun := time.Now()
				r, err := follow(ctx, s, o.rows, o.first+uint64(seed), o.fit())
				if err != nil {
					cancel(fmt.Errorf("%s, seed %d: %w", s.name, o.first+uint64(seed), err))
					return
				}
				o.say("%s, seed %d: %d promotions, %s", s.name, r.Seed, len(r.Promotions),
					time.Since(begun).Round(time.Second))
				runs[i][seed] = r
			})
		}
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var all []*figures
	for i, s := range some {
		all = append(all, summarise(s, runs[i]))
	}
	return all, nil
}

// say prints progress.
func (o options) say(format string, args ...any) {
	if !o.quiet {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}

// writePage writes the page and its picture into a folder.
func writePage(folder string, o options, all []*figures) error {
	if err := os.MkdirAll(filepath.Join(folder, "learning"), 0o777); err != nil {
		return err
	}
	if err := draw(filepath.Join(folder, "learning", "streams.png"), all); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "learning.md"), []byte(page(o, all)), 0o666)
}
