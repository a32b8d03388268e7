package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/memory"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model/eval"
	"github.com/embedd/embedd/model/fit"
)

func evalCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("eval", "compare the accuracy of methods on random splits of a file", 0, 0)
	spec := dataset.Spec{Labelled: true}
	dataset.Flags(f, &spec)
	methods := f.Commas("methods", "`NAMES` of methods, or all; auto chooses one on the training rows; raw is the "+
		"unprojected features (default raw and all)")
	f.Offer("methods", append(methodNames(), fit.Auto, eval.Raw, "all")...)
	dims := f.Commas("dims", "`NUMBERS` of outputs, or auto, which chooses on the training rows (default 2)")
	var c eval.Config
	autoFlags(f, &c.Scale, &c.Blend, &c.Nonlinear, &c.Fewest)
	landmarkFlags(f, &c.Landmarks, &c.Width)
	f.IntVar(&c.Splits, "splits", 10, "`NUMBER` of random splits, stratified by class")
	f.Float64Var(&c.TrainFraction, "train-fraction", 0.5, "`SHARE` of the rows for training")
	f.IntVar(&c.TrainPerClass, "train-per-class", 0, "`ROWS` of each class for training, instead of a share")
	f.IntVar(&c.Neighbors, "neighbors", 1, "`NUMBER` of nearest training rows that vote")
	f.Uint64Var(&c.Seed, "seed", 1, "`NUMBER` that seeds the splits")
	set := f.Settings("set", "a parameter as `METHOD.NAME=VALUE`, or as NAME=VALUE for all methods that have it; may be "+
		"repeated")
	f.BoolVar(&c.Tune, "tune", false, "choose parameters from their grids by 4-fold cross-validation on the training "+
		"rows of each split; --set fixes a parameter")
	out := report.Flag(f, e)
	f.Require("data", "label")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if f.Changed("train-per-class") && f.Changed("train-fraction") {
			return cli.Usagef("eval: --train-per-class and --train-fraction exclude each other: give one")
		}
		for name, n := range map[string]int{"splits": c.Splits, "neighbors": c.Neighbors,
			"train-per-class": c.TrainPerClass} {
			if f.Changed(name) && n < 1 {
				return cli.Usagef("eval: --%s %d: want at least 1", name, n)
			}
		}
		if !(c.TrainFraction > 0 && c.TrainFraction < 1) {
			return cli.Usagef("eval: --train-fraction %g: want a number between 0 and 1", c.TrainFraction)
		}
		var err error
		if c.Dims, err = evalDims(*dims); err != nil {
			return err
		}
		c.Methods = evalMethods(*methods)
		if c.Params, err = evalParams(set, c.Methods); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(c.Params)) {
			if _, err := fit.Lookup(name); err == nil && !slices.Contains(c.Methods, name) {
				return cli.Usagef("eval: --set for %s, which is not among the methods that are evaluated: %s", name,
					strings.Join(c.Methods, ", "))
			}
		}
		if err := c.Validate(); err != nil {
			return cli.Usagef("%w", err)
		}
		r, err := dataset.Read(ctx, e, spec)
		if err != nil {
			return err
		}
		c.Data = r.Name
		return evaluate(ctx, e, out, r, c)
	}
	return cmd
}

// evalMethods puts raw first, as the baseline.
func evalMethods(asked []string) []string {
	names := []string{eval.Raw}
	if len(asked) == 0 {
		asked = []string{"all"}
	}
	for _, name := range asked {
		more := []string{name}
		if name == "all" {
			more = methodNames()
		}
		for _, n := range more {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

func evalDims(asked []string) ([]int, error) {
	if len(asked) == 0 {
		return []int{2}, nil
	}
	var dims []int
	for _, s := range asked {
		if s == fit.Auto {
			dims = append(dims, fit.AutoDim)
			continue
		}
		d, err := strconv.Atoi(s)
		if err != nil || d < 1 {
			return nil, cli.Usagef("eval: --dims %s: want numbers from 1 or auto, such as 2,5,10", s)
		}
		dims = append(dims, d)
	}
	return dims, nil
}

// evalParams are the parameters by method. One without a method is for all methods that have it, unless they are named
// with another value.
func evalParams(set map[string]string, methods []string) (map[string]map[string]string, error) {
	params := map[string]map[string]string{}
	give := func(method, name, value string) {
		if params[method] == nil {
			params[method] = map[string]string{}
		}
		params[method][name] = value
	}
	for key, value := range set {
		if strings.Contains(key, ".") {
			continue
		}
		takes := false
		for _, name := range methods {
			m, err := fit.Lookup(name)
			if err == nil && slices.ContainsFunc(m.Params, func(p fit.Param) bool { return p.Name == key }) {
				give(name, key, value)
				takes = true
			}
		}
		if !takes {
			return nil, cli.Usagef("eval: --set %s=%s: none of the methods %s has this parameter: `embedd methods NAME` lists "+
				"those of a method", key, value, strings.Join(methods[1:], ", "))
		}
	}
	for key, value := range set {
		method, name, ok := strings.Cut(key, ".")
		switch {
		case ok && (name == "" || method == ""):
			return nil, cli.Usagef("eval: --set %s=%s: want METHOD.NAME=VALUE, such as lda.ridge=0", key, value)
		case ok:
			give(method, name, value)
		}
	}
	return params, nil
}

// evaluate prints each row as soon as it is known.
func evaluate(ctx context.Context, e *cli.Env, out *report.Output, r *dataset.Rows, c eval.Config) error {
	show := report.NewProgress(e)
	defer show.End()
	c.Memory = memory.Free()
	c.Progress = func(method string, dim int, done float64) {
		show.Show(fmt.Sprintf("%s: %s, dim %s", r.Name, method, dimText(dim)), done)
	}
	width := len("METHOD")
	for _, name := range c.Methods {
		width = max(width, len(name))
	}
	line := fmt.Sprintf("%%-%ds  %%5s  %%8s  %%6s  %%9s  %%s\n", width)
	out.Printf("%s: %d rows, %d features, %d classes; %d splits, %d-nearest-neighbour accuracy\n", r.Name, r.N, r.M,
		len(r.Classes), c.Splits, c.Neighbors)
	out.Printf(line, "METHOD", "DIM", "ACCURACY", "SD", "FIT", "NOTE")
	var best eval.Result
	asked, failed, large := 0, 0, 0 // combinations of method and dimension; raw cannot fail
	err := eval.Evaluate(ctx, &r.Data, c, func(res eval.Result) error {
		show.End()
		if res.Method != eval.Raw {
			asked++
		}
		if res.Error != "" {
			failed++
		}
		if res.TooLarge {
			large++
		}
		if out.JSON {
			return out.Object(res)
		}
		if res.Method != eval.Raw && res.Error == "" && (best.Recall == nil || res.AccuracyMean > best.AccuracyMean) {
			best = res
		}
		if res.Error != "" {
			out.Printf(line, res.Method, dimText(res.Dim), "-", "-", "-", res.Error)
			return nil
		}
		out.Printf(line, res.Method, usedText(res), fmt.Sprintf("%.4f", res.AccuracyMean),
			fmt.Sprintf("%.4f", res.AccuracySD),
			fmt.Sprintf("%.3g s", res.FitSeconds), evalNote(res))
		return nil
	})
	if err != nil {
		return err
	}
	if best.Recall != nil {
		if err := printRecall(out, best, r.Classes); err != nil {
			return err
		}
	}
	if failed > 0 && failed == asked {
		return fmt.Errorf("%s: no method could be evaluated; see the table", r.Name)
	}
	e.NoteIf(large > 0, "%d of %d left out for memory, %d MB free", large, asked, c.Memory/1_000_000)
	return nil
}

// maxRecalls is the maximum number of classes in the report: those with the lowest recall, which a user looks for.
const maxRecalls = 10

// printRecall prints the recall of the classes by the method with the highest accuracy, the lowest first.
func printRecall(out *report.Output, best eval.Result, classes []string) error {
	classes = slices.Clone(classes)
	slices.SortStableFunc(classes, func(a, b string) int { return cmp.Compare(best.Recall[a], best.Recall[b]) })
	out.Printf("\nrecall of the classes by %s, dim %s", best.Method, usedText(best))
	if len(classes) > maxRecalls {
		out.Printf("; the %d lowest of %d, --format json has all", maxRecalls, len(classes))
	}
	out.Printf("\n")
	t := out.Table("CLASS", "RECALL")
	for _, name := range classes[:min(len(classes), maxRecalls)] {
		if share, ok := best.Recall[name]; ok {
			t.Row(name, fmt.Sprintf("%.4f", share))
		}
	}
	return t.Flush()
}

func dimText(d int) string {
	if d == fit.AutoDim {
		return fit.Auto
	}
	return strconv.Itoa(d)
}

// usedText is the number of outputs of a result; auto if the splits chose several, which the note lists.
func usedText(r eval.Result) string {
	if r.Dim == fit.AutoDim && len(r.Chosen) > 1 {
		return fit.Auto
	}
	return strconv.Itoa(r.DimUsed)
}

// evalNote adds what the figures do not show; notes of a fit are those of the first split.
func evalNote(r eval.Result) string {
	var notes []string
	if r.Method == eval.Raw {
		notes = append(notes, "the unprojected features")
	} else if r.DimUsed < r.Dim {
		notes = append(notes, fmt.Sprintf("%d requested, %d is the maximum", r.Dim, r.DimUsed))
	}
	if len(r.Chosen) > 0 {
		notes = append(notes, "chosen "+chosenText(r.Chosen))
	}
	if len(r.Tuned) > 0 {
		notes = append(notes, "tuned "+chosenText(r.Tuned))
	}
	if r.Rank < r.DimUsed {
		notes = append(notes, fmt.Sprintf("the criterion determines %d", r.Rank))
	}
	if r.Report != nil {
		notes = append(notes, r.Report.Notes...)
	}
	return strings.Join(notes, "; ")
}

// chosenText lists the choices and the number of their splits, most frequent first: "lda 2 in 7, mfa 5 in 3".
func chosenText(chosen map[string]int) string {
	names := slices.Sorted(maps.Keys(chosen))
	slices.SortStableFunc(names, func(a, b string) int { return chosen[b] - chosen[a] })
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s in %d", name, chosen[name]))
	}
	return strings.Join(parts, ", ")
}
