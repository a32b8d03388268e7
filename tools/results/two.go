package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// contest is auto with two outputs on a data set, linear and nonlinear, and each of its candidates alone.
type contest struct {
	set        string
	splits     int
	auto       [2][]float64         // accuracies in %, one for each split
	candidates [2]map[string]bool   // names
	alone      map[string][]float64 // accuracies by name; fewer than splits if a candidate was not tried in each
}

// two compares auto with two outputs with its candidates, each fitted alone on the same rows.
func two(ctx context.Context, b *bench, out *bytes.Buffer) error {
	var all []*contest
	for _, name := range choiceSets {
		if !b.isRequested(name) {
			continue
		}
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		c := &contest{set: name, splits: min(b.repeats, 10), alone: map[string][]float64{}}
		if d.N > 1000 { // a split of so many rows takes minutes
			c.splits = max(1, c.splits/5)
		}
		draw := rand.New(rand.NewPCG(1, 0)) // the same splits as eval
		for k := range c.splits {
			in, held := score.Stratified(d.Y, 0.5, draw.Uint64())
			if err := c.split(ctx, d.Subset(in), d.Subset(held)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			b.say("%s, split %d: %.1f, nonlinear %.1f", name, k+1, c.auto[0][k], c.auto[1][k])
		}
		all = append(all, c)
	}
	writeTwo(out, all)
	return nil
}

// split adds the accuracies of one split.
func (c *contest) split(ctx context.Context, train, test *model.Data) error {
	fitted := map[string]bool{}
	for i, nonlinear := range []bool{false, true} {
		m, accuracy, err := accuracyOf(ctx, fit.Config{Dim: 2, Nonlinear: nonlinear}, train, test)
		if err != nil {
			return err
		}
		c.auto[i] = append(c.auto[i], accuracy)
		if c.candidates[i] == nil {
			c.candidates[i] = map[string]bool{}
		}
		for _, s := range m.Report().Choice.Scores {
			if s.Method == fit.Blend {
				continue
			}
			name := fmt.Sprintf("%s %s", s.Method, s.Scale)
			if s.Landmarks > 0 {
				name += fmt.Sprintf(", landmarks of width %g", s.Width)
			}
			c.candidates[i][name] = true
			if fitted[name] {
				continue
			}
			fitted[name] = true
			_, accuracy, err := accuracyOf(ctx, fit.Config{Method: s.Method, Dim: 2, Scale: s.Scale, Landmarks: s.Landmarks,
				Width: s.Width}, train, test)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			c.alone[name] = append(c.alone[name], accuracy)
		}
	}
	return nil
}

// accuracyOf fits a model on the training rows. It returns the accuracy of the nearest neighbour on test rows, in %.
func accuracyOf(ctx context.Context, how fit.Config, train, test *model.Data) (*model.Model, float64, error) {
	m, err := fit.Fit(ctx, train, how)
	if err != nil {
		return nil, 0, err
	}
	right, err := score.Correct(ctx, m, train, test, 1)
	return m, 100 * float64(right) / float64(test.N), err
}

// best returns the candidate whose mean accuracy over all splits is best, of equal ones the first by name; "" if none
// was tried in each split.
func (c *contest) best(i int) string {
	best, most := "", 0.0
	for _, name := range slices.Sorted(maps.Keys(c.candidates[i])) {
		alone := c.alone[name]
		if mean := stat.Mean(alone, nil); len(alone) == c.splits && (best == "" || mean > most) {
			best, most = name, mean
		}
	}
	return best
}

// writeTwo writes the section.
func writeTwo(out *bytes.Buffer, all []*contest) {
	fmt.Fprint(out, `| data | splits | auto | best candidate | | auto less best | error | nonlinear | best candidate | |`+
		` nonlinear less best | error |
|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, c := range all {
		fmt.Fprintf(out, "| %s | %d |", c.set, c.splits)
		for i, auto := range c.auto {
			best := c.best(i)
			if best == "" {
				fmt.Fprintf(out, " %.1f | - | - | - | - |", stat.Mean(auto, nil))
				continue
			}
			more, deviation := meanDifference(auto, c.alone[best])
			deviates := "-"
			if c.splits > 1 {
				deviates = fmt.Sprintf("%.1f", deviation)
			}
			fmt.Fprintf(out, " %.1f | %.1f | %s | %+.1f | %s |", stat.Mean(auto, nil), stat.Mean(c.alone[best], nil), best,
				more, deviates)
		}
		fmt.Fprintln(out)
	}
}
