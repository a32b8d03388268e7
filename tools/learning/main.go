// Command learning trains stages with default settings on streams with concept drift and on streams of dependent rows,
// and prints the tables of docs/evidence/learning.md, which explains their columns:
//
//	go run ./tools/learning [-streams rotation,runs300] [-seeds 3] [-first 1] [-rows 0] [-json] [-trace]
//
// -equal, -pairs and -aside print other tables of that page. With -o it also draws the accuracy on the streams with
// concept drift.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// options are the flags.
type options struct {
	streams  string
	seeds    int
	first    uint64
	rows     int
	method   string
	dim      int
	out      string
	json     bool
	quiet    bool
	trace    bool
	classes  int
	every    int
	nulls    string
	exported string
	equal    bool
	pairs    bool
	aside    bool
}

func main() {
	var o options
	flag.StringVar(&o.streams, "streams", "", "`names` of streams, with commas between them (default all)")
	flag.IntVar(&o.seeds, "seeds", usualSeeds, "`number` of seeds")
	flag.Uint64Var(&o.first, "first", 1, "the first `seed`; the others follow it")
	flag.IntVar(&o.rows, "rows", 0, "`rows` of a stream; those of the abrupt streams are a multiple of 10,000 (default "+
		"those of the stream)")
	flag.StringVar(&o.method, "method", method, "`method` of the stage; the oracle keeps to "+method)
	flag.IntVar(&o.dim, "dim", 0, "`outputs` of the stage (default those of the method)")
	flag.StringVar(&o.out, "o", "", "`file` for the picture of the streams with concept drift, PNG")
	flag.BoolVar(&o.json, "json", false, "print all figures as JSON")
	flag.BoolVar(&o.quiet, "quiet", false, "do not say how far it is")
	flag.BoolVar(&o.trace, "trace", false, "print each checkpoint and promotion of the dependent streams")
	flag.IntVar(&o.classes, "classes", 0, "`classes` of the dependent streams of normal classes (default those of the "+
		"stream)")
	flag.IntVar(&o.every, "every", 500, "`rows` between two checkpoints of a dependent stream")
	flag.StringVar(&o.nulls, "nulls", "", "`policy` for missing features: reject, impute or skip")
	flag.StringVar(&o.exported, "export", "", "write the rows of dependent streams and the results on them to a "+
		"`folder`, for tools/comparison")
	flag.BoolVar(&o.equal, "equal", false, "print how often one of two equal models is taken for better, and nothing else")
	flag.BoolVar(&o.pairs, "pairs", false, "print what missing features, reversed labels and takeovers change, "+
		"and nothing else")
	flag.BoolVar(&o.aside, "aside", false, "print how many rows of real streams are outliers and what their limits cost, "+
		"and nothing else")
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
	if o.seeds < 1 || o.every < 1 || o.every%batchRows != 0 {
		return fmt.Errorf("-seeds %d -every %d: give at least one seed, and a multiple of %d rows", o.seeds, o.every,
			batchRows)
	}
	if o.equal {
		return o.equals(ctx, stdout)
	}
	if o.pairs {
		return o.comparePairs(ctx, stdout)
	}
	if o.aside {
		return o.setAside(ctx, stdout)
	}
	some, dependent, err := chosen(o.streams)
	if err != nil {
		return err
	}
	if o.rows%10_000 != 0 && len(some) > 0 {
		return errors.New("give a multiple of 10,000 rows, so that changes fall between messages")
	}
	if o.out != "" && len(some) == 0 {
		return errors.New("-o draws streams with concept drift: name one of them in -streams, or leave out -o")
	}
	if o.exported != "" {
		return o.export(ctx, dependent)
	}
	begun := time.Now()
	all, err := o.follow(ctx, some)
	if err != nil {
		return err
	}
	trials, err := o.try(ctx, dependent)
	if err != nil {
		return err
	}
	o.say("%d runs in %s", (len(some)+len(dependent))*o.seeds, time.Since(begun).Round(time.Second))
	if o.out != "" {
		if err := draw(o.out, all); err != nil {
			return err
		}
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", " ")
		return e.Encode(map[string]any{"streams": all, "bounds": bounds(all), "trials": trials})
	}
	if o.trace {
		if _, err := io.WriteString(stdout, traces(trials)); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, tables(all, trials))
	return err
}

// follow runs all streams with all seeds, as many at once as there are cores.
func (o options) follow(ctx context.Context, some []stream) ([]*figures, error) {
	runs, err := each(ctx, o, some, func(ctx context.Context, s stream, seed uint64) (run, error) {
		r, err := follow(ctx, s, cmp.Or(o.rows, usualRows), seed, o.fit())
		o.say("%s, seed %d: %d promotions", s.Name, r.Seed, len(r.Promotions))
		return r, err
	})
	var all []*figures
	for i, r := range runs {
		all = append(all, summarise(some[i], r))
	}
	return all, err
}

// try runs all dependent streams with all seeds.
func (o options) try(ctx context.Context, some []streams.Stream) ([][]*trial.Result, error) {
	return each(ctx, o, some, func(ctx context.Context, s streams.Stream, seed uint64) (*trial.Result, error) {
		if o.classes > 0 && s.Shape.Separation > 0 {
			s.Shape.Classes = o.classes
		}
		r, err := trial.Run(ctx, o.trial(s, seed))
		if err == nil {
			o.say("%s, seed %d: %d promotions, %d alarms", s.Name, r.Seed, len(r.Promotions), r.Status.Alarms)
		}
		return r, err
	})
}

// trial is the configuration of a run on a dependent stream.
func (o options) trial(s streams.Stream, seed uint64) trial.Config {
	c := trial.Config{Stream: s, Seed: seed, Rows: o.rows, Every: o.every, Fit: o.fit()}
	if o.nulls != "" {
		c.Configure = func(c *plugin.Config) { c.Nulls = plugin.Nulls(o.nulls) }
	}
	return c
}

// each does a run of all streams with all seeds, as many at once as there are cores.
func each[S, R any](ctx context.Context, o options, some []S,
	do func(ctx context.Context, s S, seed uint64) (R, error)) ([][]R, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runs := make([][]R, len(some))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i, s := range some {
		runs[i] = make([]R, o.seeds)
		for k := range o.seeds {
			free <- struct{}{}
			group.Go(func() {
				defer func() { <-free }()
				if ctx.Err() != nil {
					return
				}
				var err error
				if runs[i][k], err = do(ctx, s, o.first+uint64(k)); err != nil {
					cancel(fmt.Errorf("stream %d, seed %d: %w", i+1, o.first+uint64(k), err))
				}
			})
		}
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return runs, nil
}

// say prints progress.
func (o options) say(format string, args ...any) {
	if !o.quiet {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}
