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

// peers has the best accuracy, in %, of scikit-learn's LDA with shrinkage and NCA, metric-learn's LFDA and LMNN, and
// UMAP with labels, each at its best dimension in hindsight, on separate splits.
var peers = map[string]struct {
	name     string
	accuracy float64
}{
	"breastcancer_wbc": {"LMNN", 95.6}, "digits": {"NCA", 96.5}, "glass": {"LMNN", 68.5}, "iris": {"UMAP", 96.7},
	"musk":  {"NCA", 87.2},
	"sonar": {"NCA", 83.0}, "vowel": {"LFDA", 94.4}, "wdbc": {"NCA", 96.1}, "wine": {"LFDA", 98.2},
	"zoo": {"NCA", 94.7},
}

// reference has the accuracy of the nearest neighbour, in %, in the outputs of scikit-learn 1.9 on as many separate
// splits: LDA with shrinkage, NCA with 10 outputs and 50 iterations, and the 10 hidden units of a perceptron with 64
// and 10. Features have unit variance.
var reference = map[string][3]float64{
	"breastcancer_wbc": {95.1, 95.3, 96.1},
	"digits":           {96.7, 96.4, 96.7},
	"glass":            {65.0, 67.9, 66.7},
	"iris":             {96.4, 96.0, 92.4},
	"musk":             {77.4, 87.7, 89.0},
	"sonar":            {74.7, 83.0, 83.5},
	"vowel":            {94.3, 93.3, 92.6},
	"wdbc":             {95.7, 96.0, 96.8},
	"wine":             {98.1, 96.7, 97.6},
	"zoo":              {94.7, 94.7, 95.5},
}

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
	slower float64              // the time of auto divided by that of its best candidate alone, with the same scales
}

// choice scores auto, which gets only the training rows, and compares it with the best of other methods in hindsight.
func choice(ctx context.Context, b *bench, out *bytes.Buffer) error {
	var all []*autoResult
	for _, name := range choiceSets {
		if !b.wants(name) {
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
		var used [2]time.Duration // processor time: other load does not change it
		for i, how := range []fit.Config{{Dim: fit.AutoDim, Blend: 1}, {Dim: fit.AutoDim}} {
			start := cores.ProcessorTime()
			if _, err := fit.Fit(ctx, train, how); err != nil {
				return nil, err
			}
			used[i] = cores.ProcessorTime() - start
		}
		c.slower = used[1].Seconds() / used[0].Seconds()
	}
	for _, way := range ways[1:] {
		more, deviation := paired(c.found[way.name+"1-NN"], c.found[ways[0].name+"1-NN"])
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

// paired returns the mean difference between values of the same splits, and its standard error.
func paired(x, y []float64) (more, deviation float64) {
	more, deviation = difference(x, y)
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
	fmt.Fprint(out, `| data | splits | features | alone | +- | auto | +- | nonlinear | +- | LDA | NCA | MLP | peer | |`+
		` auto less alone | time |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	sets := float64(len(all))
	mean := make([]float64, len(ways))
	var compared means // of the sets for which the other methods are measured
	var others bytes.Buffer
	total := map[string]float64{}
	for _, c := range all {
		fmt.Fprintf(out, "| %s | %d | %.1f |", c.set, c.splits, c.raw)
		fmt.Fprintf(&others, "| %s |", c.set)
		for i, way := range ways {
			nearest, deviation := stat.MeanStdDev(c.found[way.name+"1-NN"], nil)
			fmt.Fprintf(out, " %.1f | %s |", nearest, orDash(len(c.found[way.name+"1-NN"]) > 1, deviation))
			mean[i] += nearest / sets
			for _, judge := range judges[1:] {
				v, _ := stat.MeanStdDev(c.found[way.name+judge], nil)
				fmt.Fprintf(&others, " %.1f |", v)
				total[way.name+judge] += v / sets
			}
		}
		before, _ := stat.MeanStdDev(c.found["alone1-NN"], nil)
		after, _ := stat.MeanStdDev(c.found["auto1-NN"], nil)
		measured, known := reference[c.set]
		for _, v := range measured {
			fmt.Fprintf(out, " %s |", orDash(known, v))
		}
		peer := peers[c.set]
		if known {
			compared.add(c, measured[:], peer.accuracy)
		}
		fmt.Fprintf(out, " %s | %s | %+.1f | %.1f |\n", orDash(known, peer.accuracy), peer.name, after-before, c.slower)
		fmt.Fprintln(&others)
	}
	if compared.sets > 0 {
		fmt.Fprintf(out, "| mean of %d, without usps |%s | |\n", int(compared.sets), compared)
	}
	fmt.Fprintf(out, "| mean of %d | | | %.1f | | %.1f | | %.1f | | - | - | - | - | | %+.1f | |\n", len(all), mean[0],
		mean[1], mean[2], mean[1]-mean[0])
	fmt.Fprintf(out, `
| mean difference from alone | goal | measured |
|---|---|---|
| auto | 0.7 | %+.2f |
| nonlinear | 1.3 | %+.2f |

| data |`, mean[1]-mean[0], mean[2]-mean[0])
	for _, way := range ways {
		for _, judge := range judges[1:] {
			fmt.Fprintf(out, " %s, %s |", way.name, judge)
		}
	}
	fmt.Fprintf(out, "\n|---%s|\n%s| mean |", strings.Repeat("|---", len(ways)*(len(judges)-1)), others.String())
	for _, way := range ways {
		for _, judge := range judges[1:] {
			fmt.Fprintf(out, " %.1f |", total[way.name+judge])
		}
	}
	fmt.Fprintln(out)
}

// means are the sums of a row over data sets, for the row of their means.
type means struct {
	sets float64
	ways [3]float64 // by way
	rest [4]float64 // the learners of scikit-learn, and the peer
}

func (m *means) add(c *autoResult, learners []float64, peer float64) {
	m.sets++
	for i, way := range ways {
		accuracy, _ := stat.MeanStdDev(c.found[way.name+"1-NN"], nil)
		m.ways[i] += accuracy
	}
	for i, v := range append(slices.Clone(learners), peer) {
		m.rest[i] += v
	}
}

// String returns the cells of the table from the second on, except the last.
func (m means) String() string {
	text := " | |"
	for _, sum := range m.ways {
		text += fmt.Sprintf(" %.1f | |", sum/m.sets)
	}
	for _, sum := range m.rest {
		text += fmt.Sprintf(" %.1f |", sum/m.sets)
	}
	return text + fmt.Sprintf(" | %+.1f", (m.ways[1]-m.ways[0])/m.sets)
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

// orDash formats a figure, or returns a dash if there is none.
func orDash(known bool, v float64) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}
