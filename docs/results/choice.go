package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

var choiceSets = []string{"breastcancer_wbc", "digits", "glass", "iris", "musk", "sonar", "vowel", "wdbc",
	"wine", "zoo"}

// peers is the best of scikit-learn's LDA with shrinkage and NCA, metric-learn's LFDA and LMNN, and UMAP with labels,
// each at its best dimension in hindsight, in %, on splits of their own.
var peers = map[string]struct {
	name     string
	accuracy float64
}{
	"breastcancer_wbc": {"LMNN", 95.6}, "digits": {"NCA", 96.5}, "glass": {"LMNN", 68.5}, "iris": {"UMAP", 96.7},
	"musk":  {"NCA", 87.2},
	"sonar": {"NCA", 83.0}, "vowel": {"LFDA", 94.4}, "wdbc": {"NCA", 96.1}, "wine": {"LFDA", 98.2},
	"zoo": {"NCA", 94.7},
}

// beside are LDA (with shrinkage), NCA and a perceptron of 64 and 10 hidden units, whose outputs are those of the 10, of
// scikit-learn 1.9, features of unit variance, NCA of 10 outputs and 50 iterations too, by the nearest neighbour in %, on
// as many splits of their own.
var beside = map[string][3]float64{
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

// ways are how auto is left to choose.
var ways = []struct {
	name string
	c    fit.Config
}{
	{"alone", fit.Config{Blend: 1, Scale: model.ScaleStandard}},
	{"auto", fit.Config{}},
	{"nonlinear", fit.Config{Nonlinear: true}},
}

// judges are what outputs are judged by, in %.
var judges = []string{"1-NN", "5-NN", "balanced", "linear"}

// splitsOf is how many splits are made of so many rows: fits of many take long, and their scores vary less.
func splitsOf(rows, most int) int {
	switch {
	case rows > 1000:
		return min(most, 2)
	case rows > 300:
		return min(most, 4)
	}
	return most
}

// choice scores auto, which sees the training rows alone, beside the best of others in hindsight.
func choice(ctx context.Context, b *bench, out *bytes.Buffer) error {
	splits := min(b.repeats, 10)
	fmt.Fprintf(out, `Accuracy in %% of the nearest neighbour with the method, the scale, the dimension and the ridge left to %s on the training rows of stratified splits into halves,
seed 1, as %s has it. "Alone" is the best candidate in place of a blend, features of unit variance: `+"`--blend 1 --scale standard`"+`. "Nonlinear" is %s: normal scores and landmarks may take part. "Features" are of unit
variance. "LDA" (with shrinkage), "NCA" (10 outputs) and "MLP" (the 10 last hidden units of a perceptron of 64 and 10) are scikit-learn's, as they come, on as many splits of their own; "peer" is the best of scikit-learn's LDA (with shrinkage) and NCA, metric-learn's LFDA and LMNN, and UMAP with labels, each at its best dimension in hindsight, measured apart on other splits of the same
kind: a difference below about one deviation divided by the root of the splits, on both sides, is noise. The last column is the time of a fit over that of the best candidate alone at all scales, `+"`--blend 1`"+`.

| data | splits | features | alone | +- | auto | +- | nonlinear | +- | LDA | NCA | MLP | peer | | auto less alone | time |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, "`auto`", "`embedd eval --methods auto --dims auto`", "`--nonlinear`")
	mean := make([]float64, len(ways))
	theirs, learners := 0.0, [3]float64{}
	var others bytes.Buffer
	total := map[string]float64{}
	for _, name := range choiceSets {
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		count := splitsOf(d.N, splits)
		var raw eval.Result
		c := eval.Config{Methods: []string{eval.Raw}, Splits: count, Seed: 1}
		if err := eval.Evaluate(ctx, d, c, func(r eval.Result) error { raw = r; return nil }); err != nil {
			return err
		}
		found, slower, err := judged(ctx, d, count)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		peer := peers[name]
		fmt.Fprintf(out, "| %s | %d | %.1f |", name, count, 100*raw.AccuracyMean)
		fmt.Fprintf(&others, "| %s |", name)
		for i, way := range ways {
			nearest, deviation := meanSD(found[way.name+"1-NN"])
			b.say("%s, %s: %.1f", name, way.name, nearest)
			fmt.Fprintf(out, " %.1f | %.1f |", nearest, deviation)
			mean[i] += nearest / float64(len(choiceSets))
			for _, judge := range judges[1:] {
				v, _ := meanSD(found[way.name+judge])
				fmt.Fprintf(&others, " %.1f |", v)
				total[way.name+judge] += v / float64(len(choiceSets))
			}
		}
		before, _ := meanSD(found["alone1-NN"])
		after, _ := meanSD(found["auto1-NN"])
		for i, v := range beside[name] {
			fmt.Fprintf(out, " %.1f |", v)
			learners[i] += v / float64(len(choiceSets))
		}
		fmt.Fprintf(out, " %.1f | %s | %+.1f | %.1f |\n", peer.accuracy, peer.name, after-before, slower)
		fmt.Fprintln(&others)
		theirs += peer.accuracy / float64(len(choiceSets))
	}
	fmt.Fprintf(out, "| mean | | | %.1f | | %.1f | | %.1f | | %.1f | %.1f | %.1f | %.1f | | %+.1f | |\n", mean[0], mean[1], mean[2],
		learners[0], learners[1], learners[2], theirs,
		mean[1]-mean[0])
	fmt.Fprint(out, `
The same outputs judged otherwise: five nearest neighbours; the nearest one with every class counting alike ("balanced"); least squares on the classes, with a ridge of a thousandth ("linear").

| data |`)
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
	return nil
}

// judged fits every way on the training rows of each split and judges the outputs of the others, by way and judge.
// slower is the time of auto over that of its best candidate alone, at the same scales.
func judged(ctx context.Context, d *model.Data, splits int) (found map[string][]float64, slower float64, err error) {
	found = map[string][]float64{}
	draw := rand.New(rand.NewPCG(1, 0)) // the splits of eval
	blend, single := time.Duration(0), time.Duration(0)
	for k := range splits {
		in, held := score.Stratified(d.Y, 0.5, draw.Uint64())
		train, test := d.Subset(in), d.Subset(held)
		if k == 0 {
			start := time.Now()
			if _, err := fit.Fit(ctx, train, fit.Config{Dim: fit.AutoDim, Blend: 1}); err != nil {
				return nil, 0, err
			}
			single = time.Since(start)
		}
		for _, way := range ways {
			c := way.c
			c.Dim = fit.AutoDim
			start := time.Now()
			m, err := fit.Fit(ctx, train, c)
			if err != nil {
				return nil, 0, err
			}
			if k == 0 && way.name == "auto" {
				blend = time.Since(start)
			}
			ref, err := score.Outputs(ctx, m, train)
			if err != nil {
				return nil, 0, err
			}
			query, err := score.Outputs(ctx, m, test)
			if err != nil {
				return nil, 0, err
			}
			for _, judge := range judges {
				v, err := judgement(ctx, judge, ref, train, query, test, m.Dim())
				if err != nil {
					return nil, 0, err
				}
				found[way.name+judge] = append(found[way.name+judge], 100*v)
			}
		}
	}
	return found, float64(blend) / float64(single), nil
}

// judgement is the share of test rows that a classifier of outputs gets right.
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
	return leastSquares(ref, train, query, test, dim)
}

// leastSquares classifies by the largest of linear functions of the outputs, fitted to 1 for rows of a class and 0 for
// others.
func leastSquares(ref []float64, train *model.Data, query []float64, test *model.Data, dim int) (float64, error) {
	side := func(y []float64, n int) *mat.Dense {
		x := mat.NewDense(n, dim+1, nil)
		for i := range n {
			copy(x.RawRowView(i), y[i*dim:(i+1)*dim])
			x.Set(i, dim, 1)
		}
		return x
	}
	x, classes := side(ref, train.N), len(train.Classes)
	want := mat.NewDense(train.N, classes, nil)
	for i, c := range train.Y {
		want.Set(i, c, 1)
	}
	var products, moments, w, y mat.Dense
	products.Mul(x.T(), x)
	for c := range dim {
		products.Set(c, c, products.At(c, c)*1.001)
	}
	moments.Mul(x.T(), want)
	if err := w.Solve(&products, &moments); err != nil && !errors.As(err, new(mat.Condition)) {
		return 0, err
	}
	y.Mul(side(query, test.N), &w)
	right := 0
	for i, c := range test.Y {
		if floats.MaxIdx(y.RawRowView(i)) == c {
			right++
		}
	}
	return float64(right) / float64(test.N), nil
}

// meanSD is the mean and the sample standard deviation.
func meanSD(x []float64) (mean, deviation float64) {
	return stat.MeanStdDev(x, nil)
}
