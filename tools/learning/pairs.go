package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// pairs are the changes that should make little difference.
var pairs = []struct {
	name    string
	streams []string
	change  func(*trial.Config)
}{
	{"impute", []string{"missing"}, trial.Imputed},
	{"reversed", []string{"reversed", "recurring",
		"runs30"}, trial.Reversed},
	{"takeovers", []string{"rotation", "usps", "markov30", "copies",
		"poison-early", "turning10"}, trial.TakenOver},
}

const pairHeader = `
## The same rows in other circumstances

| change | stream | rows | runs | accuracy at the end | its mean | window | promotions | the same models |
|---|---|---|---|---|---|---|---|---|
`

const asideHeader = `
| stream | rows | set aside | limited | with limits | without | they cost |
|---|---|---|---|---|---|---|
`

// comparePairs runs streams as they are and with a change, and writes a line for each when it is done.
func (o options) comparePairs(ctx context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, pairHeader); err != nil {
		return err
	}
	var all [][]*trial.Result
	for _, p := range pairs {
		for _, name := range p.streams {
			if !o.has(name) {
				continue
			}
			s, err := streams.Named(name)
			if err != nil {
				return err
			}
			s.Reversed = false
			found, err := each(ctx, o, []streams.Stream{s}, func(ctx context.Context, s streams.Stream, seed uint64) (pair,
				error) {
				plain, changed, err := trial.Both(ctx, o.trial(s, seed), p.change)
				return pair{plain, changed}, err
			})
			if err != nil {
				return err
			}
			var results []*trial.Result
			for _, of := range found[0] {
				results = append(results, of.plain, of.changed)
			}
			all = append(all, results)
			if _, err := io.WriteString(w, pairLine(p.name, found[0])); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, failures(all))
	return err
}

// pair has the results of a run and of the same run with one change.
type pair struct{ plain, changed *trial.Result }

func pairLine(name string, all []pair) string {
	mean := func(of func(*trial.Result) figure) string {
		var plain, changed []figure
		for _, p := range all {
			plain, changed = append(plain, of(p.plain)), append(changed, of(p.changed))
		}
		return fmt.Sprintf("%.4g -> %.4g", float64(over(plain).Mean), float64(over(changed).Mean))
	}
	alike := 0
	for _, p := range all {
		if trial.DecideAlike(p.plain, p.changed) {
			alike++
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %s | %s | %d |\n", name, all[0].plain.Stream,
		thousands(all[0].plain.Rows), len(all),
		mean(func(r *trial.Result) figure { return 100 * courseOf(r).end.Live }),
		mean(func(r *trial.Result) figure { return 100 * courseOf(r).live.Mean }),
		mean(func(r *trial.Result) figure { return figure(courseOf(r).end.Window) }),
		mean(func(r *trial.Result) figure { return figure(len(r.Promotions)) }), alike)
}

// setAside writes how many rows of real streams are set aside as outliers, and what that costs.
func (o options) setAside(ctx context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, asideHeader); err != nil {
		return err
	}
	for _, name := range []string{"usps", "usps-shuffled", "digits-shuffled"} {
		if !o.has(name) {
			continue
		}
		s, err := streams.Named(name)
		if err != nil {
			return err
		}
		s.Events, s.Rows = nil, o.rows // no digit is turned
		found, err := each(ctx, o, []streams.Stream{s}, trial.SetAside)
		if err != nil {
			return err
		}
		var aside, limited, with, without, cost []figure
		for _, a := range found[0] {
			n := figure(a.Rows)
			aside, limited = append(aside, figure(a.SetAside)/n), append(limited, figure(a.Limited)/n)
			with, without = append(with, figure(a.With)), append(without, figure(a.Without))
			cost = append(cost, figure(a.Without-a.With))
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %s | %s | %.2f +- %.2f |\n", name,
			thousands(found[0][0].Rows), 100*over(aside).Mean, 100*over(limited).Mean, inPoints(over(with).Mean),
			inPoints(over(without).Mean), 100*over(cost).Mean, 100*over(cost).Deviation); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a stream was chosen.
func (o options) has(name string) bool {
	return o.streams == "" || slices.Contains(strings.Split(o.streams, ","), name)
}
