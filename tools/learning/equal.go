package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// equalRows is the number of rows of a run with equal models, except on short streams and those with few labels.
const equalRows = 30_000

const equalHeader = `
## Two equal models

| stream | rows | runs | equal models taken for better | runs with both halves | taken for better | at row |
|---|---|---|---|---|---|---|
`

// equals runs two equal models on the twins of dependent streams, and writes a line for each stream when it is done.
func (o options) equals(ctx context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, equalHeader); err != nil {
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
				r, err := trial.RunEqual(ctx, s, seed, rows, better)
				if err == nil && !better && len(r.Promotions) > 1 {
					p := r.Promotions[1]
					o.say("%s, seed %d, row %d: an equal model was taken for better, %s", s.Name, seed, p.Row, p.Why)
				}
				return r, err
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
