package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// contender is a method of the table with the parameters that cross-validation chooses from.
type contender struct {
	name   string
	method string // "": the raw pixels
	dim    int    // the maximum
	digits bool   // is fitted with the labels of the ten digits
	grid   []map[string]string
	paper  [2]string // error % (dimensions), even/odd and 0-4/5-9
}

var contenders = []contender{
	{name: "raw pixels", paper: [2]string{"2.72 (256)", "3.25 (256)"}},
	{name: "pca", method: "pca", dim: 100, paper: [2]string{"2.47 (37.9)", "2.93 (38.8)"}},
	{name: "lda, the two classes", method: "lda", dim: 1, paper: [2]string{"10.93 (9)", "21.25 (9)"}},
	{name: "lda, the ten digits", method: "lda", dim: 9, digits: true, paper: [2]string{"10.93 (9)", "21.25 (9)"}},
	{name: "mfa", method: "mfa", dim: 60, grid: product("k2=20,100", "ridge=0.1,1"),
		paper: [2]string{"2.79 (26.3)", "3.57 (29.5)"}},
	{name: "lsda", method: "lsda", dim: 60, grid: product("beta=0.1,0.5", "ridge=oas,1", "pca=1"),
		paper: [2]string{"3.39 (26.8)", "4.21 (27.1)"}},
	{name: "lfda", method: "lfda", dim: 60, grid: product("ridge=0.1,1"),
		paper: [2]string{"7.89 (39.3)", "9.84 (20.9)"}},
	{name: "lltsa", method: "lltsa", dim: 60, paper: [2]string{"8.16 (28.4)", "8.47 (29.9)"}},
	{name: "pmpda", method: "pmpda", dim: 60, grid: product("ridge=0.1,1,10"),
		paper: [2]string{"1.76 (28.7)", "2.20 (31.6)"}},
	{name: "mpda", method: "mpda", dim: 60, grid: product("ridge=0.1,1,10", "gamma=0,1"),
		paper: [2]string{"1.67 (35.3)", "2.28 (30.2)"}},
}

// namesOf returns the names of contenders.
func namesOf(contenders []contender) (names []string) {
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

// product returns every combination of the values of lists "name=value,value"; the first name varies slowest.
func product(lists ...string) []map[string]string {
	all := []map[string]string{{}}
	for _, list := range lists {
		name, values, _ := strings.Cut(list, "=")
		var longer []map[string]string
		for _, p := range all {
			for v := range strings.SplitSeq(values, ",") {
				q := maps.Clone(p)
				q[name] = v
				longer = append(longer, q)
			}
		}
		all = longer
	}
	return all
}

// labelling is a way to make two classes of the ten digits.
type labelling struct {
	name    string
	classes []string
	class   func(digit int) int
}

var labellings = []labelling{
	{"even/odd", []string{"even", "odd"}, func(digit int) int { return digit % 2 }},
	{"0-4/5-9", []string{"0-4", "5-9"}, func(digit int) int { return digit / 5 }},
}

// fixedDim is the dimension of the second column, which is not chosen in hindsight.
const fixedDim = 30

// trial is the result of one contender in one repeat and one labelling.
type trial struct {
	best, fixed float64 // error %, at the best dimension and at fixedDim
	dim         int     // the best dimension
	params      map[string]string
}

func usps(ctx context.Context, b *bench, out *bytes.Buffer) error {
	d, err := readData(b.data, "usps")
	if err != nil {
		return err
	}
	trials := make([][2][]trial, len(contenders))
	for r := range b.repeats {
		b.say("repeat %d of %d", r+1, b.repeats)
		train, test := drawImages(d, 100, uint64(r+1))
		for i, c := range contenders {
			if !b.isRequested(c.name) {
				continue
			}
			got, err := c.try(ctx, train, test)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			for k, t := range got {
				trials[i][k] = append(trials[i][k], t)
				b.say("%s, %s: %.2f %% at %d, %.2f %% at %d %v", c.name, labellings[k].name, t.best, t.dim, t.fixed,
					fixedDim, t.params)
			}
		}
	}
	writeUSPS(b, out, trials)
	return nil
}

// drawImages draws count training rows and count test rows of each class.
func drawImages(d *model.Data, count int, seed uint64) (train, test *model.Data) {
	in, rest := score.StratifiedPerClass(d.Y, count, seed)
	others := d.Subset(rest)
	picked, _ := score.StratifiedPerClass(others.Y, count, seed)
	return d.Subset(in), others.Subset(picked)
}

// try fits the contender for both labellings and counts its errors. A method that uses no labels, or those of the
// digits, is fitted once for both.
func (c contender) try(ctx context.Context, train, test *model.Data) (got [2]trial, err error) {
	ref, query, width := train.X, test.X, train.M
	for k, r := range labellings {
		of := func(d *model.Data) *model.Data { return relabelled(d, r.classes, r.class) }
		if c.method != "" && (k == 0 || c.byLabelling()) {
			fitted := of(train)
			if c.digits {
				fitted = train
			}
			if got[k].params, err = c.tune(ctx, fitted); err != nil {
				return got, err
			}
			if ref, query, width, err = c.outputs(ctx, fitted, test, got[k].params); err != nil {
				return got, err
			}
		}
		wrong := wrongByDim(ref, of(train).Y, query, of(test).Y, width)
		if c.method == "" {
			wrong = slices.Repeat(wrong[width-1:], width) // all pixels, or none
		}
		share := 100 / float64(test.N)
		got[k].dim = least(wrong) + 1
		got[k].best = share * float64(wrong[got[k].dim-1])
		got[k].fixed = share * float64(wrong[min(fixedDim, width)-1])
		if c.method == "" {
			got[k].dim = width
		}
	}
	return got, nil
}

// byLabelling reports whether the fit depends on the labelling.
func (c contender) byLabelling() bool {
	m, err := fit.Lookup(c.method)
	return err == nil && m.Supervised && !c.digits
}

// outputs fits on train, once at the largest dimension, and returns the outputs of both parts.
func (c contender) outputs(ctx context.Context, train, test *model.Data, params map[string]string) (ref,
	query []float64, width int, err error) {
	m, err := fit.Fit(ctx, train, fit.Config{Method: c.method, Dim: c.dim, Scale: model.ScaleNone, Params: params})
	if err != nil {
		return nil, nil, 0, err
	}
	ref, query, err = outputsOf(ctx, m, train, test)
	return ref, query, m.Dim(), err
}

// tune chooses from the grid by 4-fold cross-validation on the training rows: the fewest errors at the best dimension;
// ties go to the first.
func (c contender) tune(ctx context.Context, train *model.Data) (map[string]string, error) {
	switch len(c.grid) {
	case 0:
		return nil, nil
	case 1:
		return c.grid[0], nil
	}
	const folds = 4
	fewest, best := math.MaxInt, map[string]string(nil)
	for _, params := range c.grid {
		wrong := make([]int, c.dim)
		for f := range folds {
			in, held := fold(train.Y, folds, f)
			part, test := train.Subset(in), train.Subset(held)
			ref, query, width, err := c.outputs(ctx, part, test, params)
			if err != nil {
				return nil, err
			}
			for d, n := range wrongByDim(ref, part.Y, query, test.Y, width) {
				wrong[d] += n
			}
		}
		if n := slices.Min(wrong); n < fewest {
			fewest, best = n, params
		}
	}
	return best, nil
}

// fold holds out every folds-th row of each class, beginning with row f.
func fold(y []int, folds, f int) (in, held []int) {
	seen := map[int]int{}
	for i, c := range y {
		if seen[c]%folds == f {
			held = append(held, i)
		} else {
			in = append(in, i)
		}
		seen[c]++
	}
	return in, held
}

// mean returns the mean of a figure over trials.
func mean(trials []trial, figure func(trial) float64) float64 {
	sum := 0.0
	for _, t := range trials {
		sum += figure(t)
	}
	return sum / float64(len(trials))
}

func bestError(t trial) float64 { return t.best }

func writeUSPS(b *bench, out *bytes.Buffer, trials [][2][]trial) {
	fmt.Fprintf(out, `| method | grid | even/odd | d = %d | paper | 0-4/5-9 | d = %d | paper |
|---|---|---|---|---|---|---|---|
`, fixedDim, fixedDim)
	for i, c := range contenders {
		if !b.isRequested(c.name) {
			continue
		}
		fmt.Fprintf(out, "| %s | %s |", c.name, c.gridText())
		for k := range labellings {
			t := trials[i][k]
			fixed := fmt.Sprintf("%.2f", mean(t, func(t trial) float64 { return t.fixed }))
			if c.dim < fixedDim {
				fixed = "-"
			}
			fmt.Fprintf(out, " %.2f (%.1f) | %s | %s |", mean(t, bestError),
				mean(t, func(t trial) float64 { return float64(t.dim) }), fixed, c.paper[k])
		}
		fmt.Fprintln(out)
	}
	if b.computesOneRow() {
		return
	}
	fmt.Fprint(out, `
| | even/odd | paper | fewer errors in | 0-4/5-9 | paper | fewer errors in |
|---|---|---|---|---|---|---|
`)
	for _, other := range []string{"pca", "raw pixels"} {
		fmt.Fprintf(out, "| mpda to %s |", other)
		for k := range labellings {
			ours, its, fewer := trials[place("mpda")][k], trials[place(other)][k], 0
			for r := range ours {
				if ours[r].best < its[r].best {
					fewer++
				}
			}
			fmt.Fprintf(out, " %.2f | %.2f | %d of %d |", mean(ours, bestError)/mean(its, bestError),
				leading(contenders[place("mpda")].paper[k])/leading(contenders[place(other)].paper[k]), fewer, len(ours))
		}
		fmt.Fprintln(out)
	}
}

// place is the index of a contender.
func place(name string) int { return slices.Index(namesOf(contenders), name) }

// gridText formats a grid: "k2 20, 100; ridge 0.1, 1".
func (c contender) gridText() string {
	if len(c.grid) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.grid[0])) {
		var values []string
		for _, p := range c.grid {
			if !slices.Contains(values, p[name]) {
				values = append(values, p[name])
			}
		}
		parts = append(parts, name+" "+strings.Join(values, ", "))
	}
	return strings.Join(parts, "; ")
}

// leading returns the number at the beginning of a text.
func leading(text string) (v float64) {
	fmt.Sscan(text, &v)
	return v
}
