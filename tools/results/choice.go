package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/internal/cores"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

var choiceSets = []string{"breastcancer_wbc", "digits", "glass", "iris", "musk", "sonar", "usps", "vowel",
	"wdbc", "wine", "zoo"}

// ways are the configurations of auto.
var ways = []struct {
	name string
	c    fit.Config
}{
	{"alone", fit.Config{Blend: 1, Scale: model.ScaleStandard}},
	{"auto", fit.Config{}},
	{"nonlinear", fit.Config{Nonlinear: true}},
}

// judges are the classifiers that score outputs, in %.
var judges = []string{"1-NN", "5-NN", "balanced", "linear"}

// splitsOf returns the number of splits for a number of rows: with many rows fits take long, and scores vary less.
func splitsOf(rows, most int) int {
	if rows > 3000 {
		return max(1, most/2)
	}
	return most
}

// autoResult is the result of auto on a data set.
type autoResult struct {
	set    string
	splits int
	raw    float64              // of the features themselves
	found  map[string][]float64 // by way and judge, one value for each split
	slower [2]float64           // the time of auto and of nonlinear, divided by that of the best candidate of all scales
}

// choice scores auto, which gets only the training rows, and compares it with the best of other methods in hindsight.
func choice(ctx context.Context, b *bench, out *bytes.Buffer) error {
	var all []*autoResult
	for _, name := range choiceSets {
		if !b.isRequested(name) {
			continue
		}
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		c, err := choose(ctx, b, name, d, splitsOf(d.N, min(b.repeats, 10)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	writeChoice(out, all)
	return nil
}

// choose fits each way on the training rows of each split and scores the outputs of the others.
func choose(ctx context.Context, b *bench, name string, d *model.Data, splits int) (*autoResult, error) {
	c := &autoResult{set: name, splits: splits, found: map[string][]float64{}}
	e := eval.Config{Methods: []string{eval.Raw}, Splits: splits, Seed: 1}
	err := eval.Evaluate(ctx, d, e, func(r eval.Result) error { c.raw = 100 * r.AccuracyMean; return nil })
	if err != nil {
		return nil, err
	}
	draw := rand.New(rand.NewPCG(1, 0)) // the same splits as eval
	for k := range splits {
		in, held := score.Stratified(d.Y, 0.5, draw.Uint64())
		train, test := d.Subset(in), d.Subset(held)
		if err := c.split(ctx, train, test); err != nil {
			return nil, err
		}
		for _, way := range ways {
			b.say("%s, split %d, %s: %s", name, k+1, way.name, c.last(way.name))
		}
		if k > 0 {
			continue
		}
		var used [3]time.Duration // processor time: other load does not change it
		for i, how := range []fit.Config{{Blend: 1}, {}, {Nonlinear: true}} {
			how.Dim = fit.AutoDim
			start := cores.ProcessorTime()
			if _, err := fit.Fit(ctx, train, how); err != nil {
				return nil, err
			}
			used[i] = cores.ProcessorTime() - start
		}
		for i := range c.slower {
			c.slower[i] = used[i+1].Seconds() / used[0].Seconds()
		}
	}
	for _, way := range ways[1:] {
		more, deviation := meanDifference(c.found[way.name+"1-NN"], c.found[ways[0].name+"1-NN"])
		b.say("%s: %s %+.2f over %s, deviation of the mean %.2f", name, way.name, more, ways[0].name, deviation)
	}
	return c, nil
}

// last returns the newest score of each judge.
func (c *autoResult) last(way string) string {
	var said []string
	for _, judge := range judges {
		of := c.found[way+judge]
		said = append(said, fmt.Sprintf("%s %.2f", judge, of[len(of)-1]))
	}
	return strings.Join(said, ", ")
}

// meanDifference returns the mean difference between values of the same splits, and its standard error.
func meanDifference(x, y []float64) (more, deviation float64) {
	more, deviation = differences(x, y)
	return more, deviation / math.Sqrt(float64(len(x)))
}

// split adds the scores of one split.
func (c *autoResult) split(ctx context.Context, train, test *model.Data) error {
	for _, way := range ways {
		how := way.c
		how.Dim = fit.AutoDim
		m, err := fit.Fit(ctx, train, how)
		if err != nil {
			return err
		}
		ref, query, err := outputsOf(ctx, m, train, test)
		if err != nil {
			return err
		}
		for _, judge := range judges {
			v, err := judgement(ctx, judge, ref, train, query, test, m.Dim())
			if err != nil {
				return err
			}
			c.found[way.name+judge] = append(c.found[way.name+judge], 100*v)
		}
	}
	return nil
}

// writeChoice writes the section.
func writeChoice(out *bytes.Buffer, all []*autoResult) {
	fmt.Fprint(out, `| data | splits | features | alone | +- | auto | +- | nonlinear | +- | auto less alone | time |`+
		` nonlinear time |
|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, c := range all {
		fmt.Fprintf(out, "| %s | %d | %.1f |", c.set, c.splits, c.raw)
		for _, way := range ways {
			nearest := c.found[way.name+"1-NN"]
			fmt.Fprintf(out, " %.1f | %s |", stat.Mean(nearest, nil), deviationOf(nearest))
		}
		more := stat.Mean(c.found["auto1-NN"], nil) - stat.Mean(c.found["alone1-NN"], nil)
		fmt.Fprintf(out, " %+.1f | %.1f | %.1f |\n", more, c.slower[0], c.slower[1])
	}
	small := slices.DeleteFunc(slices.Clone(all), func(c *autoResult) bool { return c.set == "usps" })
	writeMeans(out, ", without usps", small)
	auto, nonlinear := writeMeans(out, "", all)
	fmt.Fprintf(out, `
| mean difference from alone | goal | measured |
|---|---|---|
| auto | 0.7 | %+.2f |
| nonlinear | 1.3 | %+.2f |

| data |`, auto, nonlinear)
	for _, way := range ways {
		for _, judge := range judges[1:] {
			fmt.Fprintf(out, " %s, %s |", way.name, judge)
		}
	}
	fmt.Fprintf(out, "\n|---%s|\n", strings.Repeat("|---", len(ways)*(len(judges)-1)))
	for _, c := range all {
		writeJudged(out, c.set, []*autoResult{c})
	}
	writeJudged(out, "mean", all)
}

// deviationOf formats the standard deviation of values; one value has none.
func deviationOf(values []float64) string {
	if len(values) < 2 {
		return "-"
	}
	return fmt.Sprintf("%.1f", stat.StdDev(values, nil))
}

// writeMeans writes a row of means over data sets. It returns the mean differences of the other ways from alone.
func writeMeans(out *bytes.Buffer, which string, sets []*autoResult) (auto, nonlinear float64) {
	of := func(way string) float64 { return meanOf(sets, way+"1-NN") }
	auto, nonlinear = of("auto")-of("alone"), of("nonlinear")-of("alone")
	fmt.Fprintf(out, "| mean of %d%s | | | %.1f | | %.1f | | %.1f | | %+.1f | | |\n", len(sets), which, of("alone"),
		of("auto"), of("nonlinear"), auto)
	return auto, nonlinear
}

// writeJudged writes a row with the mean scores of the other judges.
func writeJudged(out *bytes.Buffer, name string, sets []*autoResult) {
	fmt.Fprintf(out, "| %s |", name)
	for _, way := range ways {
		for _, judge := range judges[1:] {
			fmt.Fprintf(out, " %.1f |", meanOf(sets, way.name+judge))
		}
	}
	fmt.Fprintln(out)
}

// meanOf is the mean score over data sets. what is a name of ways and a name of judges, joined.
func meanOf(sets []*autoResult, what string) float64 {
	sum := 0.0
	for _, c := range sets {
		sum += stat.Mean(c.found[what], nil)
	}
	return sum / float64(len(sets))
}

// judgement returns the share of test rows that a classifier of outputs classifies correctly.
func judgement(ctx context.Context, judge string, ref []float64, train *model.Data, query []float64, test *model.Data,
	dim int) (float64, error) {
	switch judge {
	case "1-NN", "5-NN":
		k := int(judge[0] - '0')
		right, err := score.CorrectNN(ctx, ref, train.Y, query, test.Y, dim, k)
		return float64(right) / float64(test.N), err
	case "balanced":
		nearest, err := score.Nearest(ctx, ref, train.N, query, test.N, dim)
		if err != nil {
			return 0, err
		}
		right, rows := make([]float64, len(test.Classes)), make([]float64, len(test.Classes))
		for i, j := range nearest {
			rows[test.Y[i]]++
			if train.Y[j] == test.Y[i] {
				right[test.Y[i]]++
			}
		}
		sum, classes := 0.0, 0.0
		for c, n := range rows {
			if n > 0 {
				sum += right[c] / n
				classes++
			}
		}
		return sum / classes, nil
	}
	classes, err := score.Linear(ref, train.Y, query, dim, len(train.Classes))
	right := 0
	for i, c := range classes {
		if c == test.Y[i] {
			right++
		}
	}
	return float64(right) / float64(test.N), err
}
