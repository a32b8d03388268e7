package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// Of a run with equal models: the rows, of streams that have as many, and the seeds of the page.
const (
	equalRows  = 30_000
	equalSeeds = 20
)

// equalPreamble describes the table of two equal models.
const equalPreamble = `
## Two equal models

How often the gate takes a model for better that is not. Each stream of dependent rows has a twin, whose rows have two
halves of features: independent given the class, of the same dependence, and the second one with the class means of
other classes. The live model is a fixed projection on the first half. Once all classes are in a fit, candidates are a
fixed projection on the second half, which is equal in class-balanced accuracy and differs by class. They have to be
shown to be better. As a check on the test, candidates in a tenth of as many runs are projections on both halves, which
is better. The seeds are the first ones; real streams and those with few labels have their usual rows.

| stream | rows | runs | equal models taken for better | runs with both halves | taken for better | at row |
|---|---|---|---|---|---|---|
`

// equals runs two equal models on the twins of dependent streams, and writes a line for each stream when it is done.
func (o options) equals(ctx context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, equalPreamble); err != nil {
		return err
	}
	var all [][]*trial.Result
	for _, s := range streams.Twins() {
		if !o.has(s.Name) {
			continue
		}
		rows := o.rows
		if rows == 0 && s.Labelled == 0 && s.Rows >= settledRow*4 {
			rows = equalRows
		}
		run := func(seeds int, better bool) ([]*trial.Result, error) {
			o := o
			o.seeds = seeds
			found, err := each(ctx, o, []streams.Stream{s}, func(ctx context.Context, s streams.Stream,
				seed uint64) (*trial.Result, error) {
				return trial.RunEqual(ctx, s, seed, rows, better)
			})
			if err != nil {
				return nil, err
			}
			return found[0], nil
		}
		equal, err := run(o.seeds, false)
		if err != nil {
			return err
		}
		better, err := run((o.seeds+9)/10, true)
		if err != nil {
			return err
		}
		all = append(all, slices.Concat(equal, better))
		taken, _ := takenForBetter(equal)
		found, at := takenForBetter(better)
		if _, err := fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %s |\n", s.Name, thousands(equal[0].Rows), len(equal),
			taken, len(better), found, at); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, failures(all))
	return err
}

// takenForBetter counts the runs with a model after the first, and returns the mean row of the first of them.
func takenForBetter(results []*trial.Result) (runs int, at string) {
	var first []figure
	for _, r := range results {
		if len(r.Promotions) > 1 {
			first = append(first, figure(r.Promotions[1].Row))
		}
	}
	if len(first) == 0 {
		return 0, "-"
	}
	return len(first), thousands(int(over(first).Mean))
}
