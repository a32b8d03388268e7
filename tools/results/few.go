package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/tools/picture"
)

// fewSets are the data sets of the experiments with few rows of a class. Pixels have one unit, the others are scaled.
var fewSets = []string{"digits", "usps", "vowel", "glass", "wine", "sonar", "zoo", "iris"}

// scaleOf returns the scale of a data set: pixels keep their unit.
func scaleOf(set string) model.Scale {
	if set == "digits" || set == "usps" {
		return model.ScaleNone
	}
	return model.ScaleStandard
}

// few is an experiment with a fixed number of rows of each class, as the papers do it with faces.
type few struct {
	train, test int  // rows of each class
	half        bool // a class of fewer than twice as many rows gives half of them to each part
	draws       int
	dim         int         // the largest dimension
	scale       model.Scale // "": that of the data set
	methods     []fewMethod
}

// fewMethod is a method of the experiment with fixed parameters.
type fewMethod struct {
	name, method string
	params       map[string]string
}

// fewScore is the accuracy of a method at the dimension whose mean over the draws is best.
type fewScore struct {
	dim  int
	each []float64 // %, by draw
	over []float64 // the mean over the draws, by dimension
}

func (s fewScore) mean() float64 { return floats.Sum(s.each) / float64(len(s.each)) }

func (s fewScore) String() string { return fmt.Sprintf("%.1f (%d)", s.mean(), s.dim) }

// draw draws the training rows and then the test rows of each class. A class of too few rows keeps one for the test.
func (f few) draw(y []int, seed uint64) (in, held []int) {
	for c := range slices.Max(y) + 1 {
		var rows []int
		for i, of := range y {
			if of == c {
				rows = append(rows, i)
			}
		}
		r := rand.New(rand.NewPCG(seed, uint64(c)))
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		n := min(f.train, len(rows)-1)
		if f.half {
			n = min(f.train, len(rows)/2)
		}
		in = append(in, rows[:n]...)
		held = append(held, rows[n:min(n+f.test, len(rows))]...)
	}
	slices.Sort(in)
	slices.Sort(held)
	return in, held
}

// run returns the score of each method on a data set.
func (f few) run(ctx context.Context, b *bench, set string, d *model.Data) (map[string]fewScore, error) {
	scores := map[string]fewScore{}
	for _, m := range f.methods {
		var byDim [][]float64 // by dimension and draw
		for k := range f.draws {
			in, held := f.draw(d.Y, uint64(k+1))
			right, err := m.right(ctx, d.Subset(in), d.Subset(held), cmp.Or(f.scale, scaleOf(set)), f.dim)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", set, m.name, err)
			}
			if byDim == nil {
				byDim = make([][]float64, len(right))
			}
			for dim := range byDim {
				// at its bound, which can depend on the draw, a method has its last outputs
				byDim[dim] = append(byDim[dim], right[min(dim, len(right)-1)])
			}
		}
		best := slices.MaxFunc(byDim, func(x, y []float64) int { return cmp.Compare(floats.Sum(x), floats.Sum(y)) })
		dim := slices.IndexFunc(byDim, func(x []float64) bool { return &x[0] == &best[0] }) + 1
		if m.method == "" {
			dim = d.M
		}
		scores[m.name] = fewScore{dim, best, nil}
		if m.method != "" {
			scores[m.name] = fewScore{dim, best, meansOf(byDim)}
		}
		b.say("%s, %s: %v", set, m.name, scores[m.name])
	}
	return scores, nil
}

// ownClass returns the accuracy of the membership degree of sle-ovr, in %, at one to three dimensions of each view.
func (m fewMethod) ownClass(ctx context.Context, train, test *model.Data, scale model.Scale) ([]float64, error) {
	var accuracy []float64
	for dim := 1; dim <= min(3, train.M); dim++ {
		fitted, err := fit.Fit(ctx, train, fit.Config{Method: m.method, Dim: dim, Scale: scale, Params: m.params})
		if err != nil {
			return nil, err
		}
		right, err := score.Correct(ctx, fitted, train, test, 1)
		if err != nil {
			return nil, err
		}
		accuracy = append(accuracy, 100*float64(right)/float64(test.N))
	}
	return accuracy, nil
}

func meansOf(lists [][]float64) (means []float64) {
	for _, list := range lists {
		means = append(means, floats.Sum(list)/float64(len(list)))
	}
	return means
}

// right returns the accuracy of the nearest neighbour, in %, by dimension. The features themselves have one.
func (m fewMethod) right(ctx context.Context, train, test *model.Data, scale model.Scale, dim int) ([]float64, error) {
	if m.method == "sle-ovr" {
		return m.ownClass(ctx, train, test, scale)
	}
	method := cmp.Or(m.method, "pca")
	c := fit.Config{Method: method, Dim: min(dim, train.M), Scale: scale, Params: m.params}
	fitted, err := fit.AtMost(ctx, train, c)
	if err != nil {
		return nil, err
	}
	of, width := score.Outputs, fitted.Dim()
	if m.method == "" {
		of, width = scaled, train.M
	}
	ref, err := of(ctx, fitted, train)
	if err != nil {
		return nil, err
	}
	query, err := of(ctx, fitted, test)
	if err != nil {
		return nil, err
	}
	wrong := wrongByDim(ref, train.Y, query, test.Y, width)
	if m.method == "" {
		wrong = wrong[width-1:]
	}
	accuracy := make([]float64, len(wrong))
	for k, n := range wrong {
		accuracy[k] = 100 - 100*float64(n)/float64(test.N)
	}
	return accuracy, nil
}

// table runs the experiment on all data sets and writes one row for each.
func (f few) table(ctx context.Context, b *bench, out *bytes.Buffer) (map[string]map[string]fewScore, error) {
	fmt.Fprint(out, "\n| data | classes |")
	for _, m := range f.methods {
		fmt.Fprintf(out, " %s |", m.name)
	}
	fmt.Fprintf(out, "\n|---|---%s|\n", strings.Repeat("|---", len(f.methods)))
	all := map[string]map[string]fewScore{}
	for _, set := range fewSets {
		if !b.isRequested(set) {
			continue
		}
		d, err := readData(b.data, set)
		if err != nil {
			return nil, err
		}
		scores, err := f.run(ctx, b, set, d)
		if err != nil {
			return nil, err
		}
		all[set] = scores
		fmt.Fprintf(out, "| %s | %d |", set, len(d.Classes))
		for _, m := range f.methods {
			fmt.Fprintf(out, " %v |", scores[m.name])
		}
		fmt.Fprintln(out)
	}
	if !b.computesOneRow() {
		fmt.Fprint(out, "| mean | |")
		for _, m := range f.methods {
			total := 0.0
			for _, set := range fewSets {
				total += all[set][m.name].mean() / float64(len(fewSets))
			}
			fmt.Fprintf(out, " %.1f |", total)
		}
		fmt.Fprintln(out)
	}
	return all, nil
}

// compare writes the table, how pairs of methods compare, and draws the accuracy over d if the picture has a
// name.
func (f few) compare(ctx context.Context, b *bench, out *bytes.Buffer, name string, pairs ...[2]string) error {
	all, err := f.table(ctx, b, out)
	if err != nil || b.computesOneRow() {
		return err
	}
	fmt.Fprintf(out, "\n%s", compared(all, pairs...))
	if name == "" {
		return nil
	}
	return f.save(b, name, all)
}

// save draws the accuracy over d, one panel for each data set.
func (f few) save(b *bench, name string, all map[string]map[string]fewScore) error {
	var panels []*plot.Plot
	for _, set := range fewSets {
		p := picture.Panel(set, "d", "accuracy %")
		p.Legend.Top = false
		lines := 0
		for _, m := range f.methods {
			var points plotter.XYs
			for k, v := range all[set][m.name].over {
				points = append(points, plotter.XY{X: float64(k + 1), Y: v})
			}
			if len(points) == 0 {
				continue
			}
			if err := picture.AddLine(p, m.name, points, lines, true); err != nil {
				return err
			}
			lines++
		}
		panels = append(panels, p)
	}
	return b.save(name, 4, panels...)
}

// compared counts the sets on which a method is ahead of each other one, and on which by two standard errors.
func compared(all map[string]map[string]fewScore, pairs ...[2]string) string {
	text := "| | ahead | behind | ahead by two standard errors | behind by two |\n|---|---|---|---|---|\n"
	for _, p := range pairs {
		var ahead, behind, better, worse int
		for _, set := range fewSets {
			more, deviation := meanDifference(all[set][p[0]].each, all[set][p[1]].each)
			switch {
			case more > 0:
				ahead++
			case more < 0:
				behind++
			}
			switch {
			case more > 2*deviation:
				better++
			case more < -2*deviation:
				worse++
			}
		}
		text += fmt.Sprintf("| %s over %s | %d | %d | %d | %d |\n", p[0], p[1], ahead, behind, better, worse)
	}
	return text
}
