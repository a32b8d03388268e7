package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// fitFlags are the flags that say how to fit.
type fitFlags struct {
	method *string
	dim    string
	scale  *string
	blend  *int
	curved *bool
	most   *int
	marks  *int
	width  *float64
	seed   *uint64
	params map[string]string
}

func (f *flags) fitFlags() *fitFlags {
	o := &fitFlags{
		method: f.String("method", fit.Auto,
			"`NAME` of the method, as `embedd methods` lists them, or auto, which chooses by cross-validation"),
		params: f.settings("set", "a parameter of the method, as `NAME=VALUE`; may be repeated"),
		scale:  f.choice("scale", "`SCALE` of the features; auto compares standard, none and minmax where the method is auto, else standard", scales...),
		blend:  f.Int("blend", 0, "`NUMBER` of the best candidates that method auto makes one model of; 1 is the best alone (default: all that held-out rows do not tell apart from it)"),
		curved: f.nonlinear(),
		most:   f.Int("max-dim", 0, "`NUMBER` of outputs that dim auto does not go beyond"),
		seed:   f.Uint64("seed", 1, "`NUMBER` that methods draw from; the same seed gives the same model"),
	}
	o.marks, o.width = f.landmarks()
	f.offer("method", append(methodNames(), fit.Auto)...)
	return o
}

// landmarks are the flags of features that a linear method is to see in the place of those of the rows.
func (f *flags) landmarks() (count *int, width *float64) {
	return f.Int("landmarks", 0,
			"`NUMBER` of rows whose kernels take the place of the features, so that a linear method draws curved lines; try 300"),
		f.Float64("width", 0, "`NUMBER` that divides how far these kernels reach, 0.25 to 4 as a rule (default 1)")
}

func (f *flags) nonlinear() *bool {
	return f.Bool("nonlinear", false, "let method auto draw curved lines: it tries normal scores and 300 landmarks too, and a projection costs what landmarks do")
}

var scales = []string{string(model.ScaleAuto), string(model.ScaleStandard), string(model.ScaleMinMax),
	string(model.ScaleUnit), string(model.ScaleNone), string(model.ScaleRank)}

// config checks what can be checked before the rows are read.
func (o *fitFlags) config(label string) (fit.Config, error) {
	c := fit.Config{Method: *o.method, Scale: model.Scale(*o.scale), Blend: *o.blend,
		Nonlinear: *o.curved, MaxDim: *o.most,
		Landmarks: *o.marks, Width: *o.width, Seed: *o.seed,
		Params: map[string]string{}}
	if o.dim == fit.Auto {
		c.Dim = fit.AutoDim
	} else if o.dim != "" {
		dim, err := strconv.Atoi(o.dim)
		if err != nil || dim < 1 {
			return c, usagef("--dim %s: want a number from 1, or auto to choose by cross-validation", o.dim)
		}
		c.Dim = dim
	}
	for name, value := range o.params {
		// eval's METHOD.NAME=VALUE is welcome here too.
		c.Params[strings.TrimPrefix(name, c.Method+".")] = value
	}
	if err := c.Validate(); err != nil {
		return c, usageError{err}
	}
	method, err := fit.Lookup(c.Method)
	if err != nil {
		return c, usageError{err}
	}
	if method.Supervised && label == "" {
		return c, usagef("method %s learns from labels: name their column with --label", c.Method)
	}
	return c, nil
}

// fitRows fits and shows how far it is.
func fitRows(ctx context.Context, e *env, r *rows, c fit.Config) (*model.Model, error) {
	show := newProgress(e)
	defer show.end()
	c.Memory = freeMemory()
	c.Progress = func(phase string, done float64) { show.show(c.Method+": "+phase, done) }
	m, err := fit.Fit(ctx, &r.Data, c)
	if bound, ok := asDimError(err); ok {
		return nil, usageError{fmt.Errorf("%w: give --dim %d or less, or --dim auto", err, bound.Max)}
	}
	if err != nil {
		return nil, err
	}
	return m.WithNote(model.Note{Created: time.Now(), Source: map[string]string{"file": r.name}}), nil
}

// asDimError finds the error of more outputs asked for than there are.
func asDimError(err error) (bound *model.DimError, ok bool) {
	ok = errors.As(err, &bound)
	return bound, ok
}

func fitCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{Use: "fit", Short: "learn a projection from a file of labelled rows"}
	f := flagsOf(cmd)
	var spec rowsSpec
	f.dataFlags(&spec)
	o := f.fitFlags()
	f.StringVar(&o.dim, "dim", "auto", "`NUMBER` of outputs, or auto to choose by cross-validation; without labels, the method's default")
	path := f.StringP("output", "o", "", "`FILE` of the model that is written; - is standard output, and the report goes to standard error")
	out := f.output(e)
	f.require("data", "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		c, err := o.config(spec.label)
		if err != nil {
			return err
		}
		if err := noTerminal(e, *path); err != nil {
			return err
		}
		r, err := readRows(ctx, e, spec)
		if err != nil {
			return err
		}
		m, err := fitRows(ctx, e, r, c)
		if err != nil {
			return err
		}
		if err := writeOut(e, *path, func(w io.Writer) error { return model.Write(w, m) }); err != nil {
			return err
		}
		out.beside(e, *path)
		if out.json {
			return out.object(fitReport{Data: r.name, Model: *path, Digest: m.Digest(), Method: m.Method(),
				Dim: m.Dim(), Features: m.M(), Classes: m.Classes(),
				Rows: m.Rows(), Skipped: r.skipped, Scale: *o.scale, Params: m.Params(), Report: m.Report()})
		}
		return printFit(out, m, *path, scaleText(m, *o.scale))
	}
	return cmd
}

// scaleText says which scale a model has where that was left to auto.
func scaleText(m *model.Model, asked string) string {
	choice := m.Report().Choice
	switch {
	case asked != string(model.ScaleAuto):
		return asked
	case choice != nil && len(choice.Members) > 0:
		return "of each member"
	case choice != nil && choice.Scale != "":
		return string(choice.Scale)
	}
	return string(model.ScaleStandard)
}

// fitReport is the JSON form of what fit did. `embedd model show` has the model itself.
type fitReport struct {
	Data     string            `json:"data"`
	Model    string            `json:"model"`
	Digest   string            `json:"digest"`
	Method   string            `json:"method"`
	Dim      int               `json:"dim"`
	Features int               `json:"features"`
	Classes  []string          `json:"classes"`
	Rows     int               `json:"rows"`
	Skipped  int               `json:"skipped"`
	Scale    string            `json:"scale"`
	Params   map[string]string `json:"params"`
	Report   model.Report      `json:"report"`
}

func printFit(out *output, m *model.Model, path, scale string) error {
	t := newTable(out.w)
	report := m.Report()
	t.row("model", path)
	t.row("digest", m.Digest()[:16])
	t.row("method", fmt.Sprintf("%s%s, scale %s", m.Method(), settings(m.Params()), scale))
	t.row("map", fmt.Sprintf("%d features to %d", m.M(), m.Dim()))
	rows := fmt.Sprintf("%d", m.Rows())
	if n := len(m.Classes()); n > 0 {
		rows += fmt.Sprintf(" in %d classes: %s", n, listed(m.Classes()))
	}
	if report.Unlabelled > 0 {
		rows += fmt.Sprintf("; %d more have no label and were not used", report.Unlabelled)
	}
	t.row("rows", rows)
	columns := fmt.Sprint(m.M())
	if n := m.Params()["landmarks"]; n != "" {
		columns = n + " landmarks"
	}
	t.row("rank", fmt.Sprintf("%d of %s; the criterion decides %d of the %d outputs", report.Rank, columns,
		min(report.Informative, m.Dim()), m.Dim()))
	if report.Constant > 0 {
		t.row("constant", fmt.Sprintf("%d features have no variance and carry nothing", report.Constant))
	}
	if r := report.Ridge; r != nil {
		t.row("ridge", fmt.Sprintf("%.3g relative (%.3g absolute), chosen by %s", r.Relative, r.Absolute, r.Rule))
	}
	if len(report.Eigenvalues) > 0 {
		t.row("eigenvalues", numbers(report.Eigenvalues, 8))
	}
	if report.Gap != nil {
		t.row("gap", fmt.Sprintf("%.3g: the least relative distance of an eigenvalue to the next", *report.Gap))
	}
	for _, tie := range report.Ties {
		t.row("tie", tied(tie, m.Dim()))
	}
	if report.Residual > 0 { // not of outputs from a search
		t.row("residual", fmt.Sprintf("%.2g", report.Residual))
	}
	if s := report.Search; s != nil {
		t.row("search", searched(s))
	}
	if c := report.Choice; c != nil && c.Seconds > 0 {
		t.row("time", fmt.Sprintf("auto %.3g s", c.Seconds))
	}
	for _, p := range report.Phases {
		t.row("time", fmt.Sprintf("%s %.3g s", p.Name, p.Seconds))
	}
	for _, n := range report.Notes {
		t.row("note", n)
	}
	if report.Choice != nil {
		for _, n := range report.Choice.LeftOut {
			t.row("left out", n)
		}
	}
	if err := t.flush(); err != nil || report.Choice == nil {
		return err
	}
	return printChoice(out, report.Choice)
}

// tied says which outputs, from 1, share an eigenspace.
func tied(run [2]int, dim int) string {
	from, to := run[0]+1, min(run[1], dim)
	text := fmt.Sprintf("outputs %d to %d share one eigenspace", from, to)
	if from == to {
		text = fmt.Sprintf("output %d shares its eigenspace", from)
	}
	if more := run[1] - dim; more > 0 {
		text += fmt.Sprintf(" with %d left out", more)
	}
	return text + ": other directions in it are as good"
}

// searched is how a search went.
func searched(s *model.Search) string {
	text := fmt.Sprintf("criterion %.6g -> %.6g in %d steps, gradient %.2g at the end", s.Start, s.End, s.Steps,
		s.Gradient)
	if s.StartAccuracy != nil && s.EndAccuracy != nil {
		text += fmt.Sprintf("; leave-one-out accuracy %.1f %% -> %.1f %%", 100**s.StartAccuracy, 100**s.EndAccuracy)
	}
	return text
}

// behind names the landmarks that a method stands behind.
func behind(landmarks int, width float64) string {
	if landmarks == 0 {
		return ""
	}
	return fmt.Sprintf(" behind %d landmarks of width %g", landmarks, width)
}

// printChoice shows what was chosen and the table that decided: a row for each method, a column for each dimension.
func printChoice(out *output, c *model.Choice) error {
	out.printf("\nauto chose the %s: %s at %d", c.Chosen, c.Method, c.Dim)
	if c.Rule != "cv" {
		out.printf(" (%s)\n", c.Rule)
		return nil
	}
	if len(c.Members) > 0 {
		out.printf(" of")
		for i, m := range c.Members {
			out.printf("%s %s at %d on scale %s%s%s: %+d", strings.Repeat(",", min(i, 1)), m.Method, m.Dim, m.Scale,
				behind(m.Landmarks, m.Width), settings(m.Params), m.Adds)
		}
		out.printf("\n(behind each: how many more held-out rows of a round are right with it than in a blend of the others)\n")
	} else if c.RunnerUp == nil {
		out.printf(", the only candidate\n")
		return nil
	}
	if c.RunnerUp != nil {
		out.printf("; next is %s at %d\n", c.RunnerUp.Method, c.RunnerUp.Dim)
	}
	if c.Note != "" {
		out.printf("%s\n", c.Note)
	}
	folds := "3 folds"
	if c.Rounds > 1 {
		folds = fmt.Sprintf("3 folds in %d rounds", c.Rounds)
	}
	out.printf("accuracy on held-out rows (%s, %d rows; too good where nearly the same rows follow each other):\n",
		folds, c.Scores[0].Scored/max(c.Rounds, 1))
	var methods []string
	var dims []int
	cell := map[string]string{}
	for _, s := range c.Scores {
		name := s.Method
		if s.Scale != "" {
			name += " " + string(s.Scale) + behind(s.Landmarks, s.Width)
		}
		if !slices.Contains(methods, name) {
			methods = append(methods, name)
		}
		if !slices.Contains(dims, s.Dim) {
			dims = append(dims, s.Dim)
		}
		mark := ""
		if s.Method == c.Method && s.Scale == c.Scale && s.Landmarks == c.Landmarks && s.Width == c.Width &&
			s.Dim == c.Dim {
			mark = " *"
		}
		if at := fmt.Sprint(name, s.Dim); cell[at] == "" { // the best of its parameters comes first
			cell[at] = fmt.Sprintf("%.1f %%%s", 100*float64(s.Correct)/float64(s.Scored), mark)
		}
	}
	slices.Sort(dims)
	header := []any{"METHOD"}
	for _, d := range dims {
		header = append(header, fmt.Sprintf("DIM %d", d))
	}
	t := out.table(header...)
	for _, m := range methods {
		row := []any{m}
		for _, d := range dims {
			row = append(row, orDash(cell[fmt.Sprint(m, d)]))
		}
		t.row(row...)
	}
	return t.flush()
}

// numbers is the first few of a list.
func numbers(v []float64, most int) string {
	var b strings.Builder
	for i, x := range v {
		if i == most {
			fmt.Fprintf(&b, " ... (%d)", len(v))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.4g", x)
	}
	return b.String()
}

// settings is " (a=1, b=2)", or nothing.
func settings(params map[string]string) string {
	var parts []string
	for name, value := range params {
		parts = append(parts, name+"="+value)
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return " (" + strings.Join(parts, ", ") + ")"
}

// readModel reads a model file.
func readModel(path string) (*model.Model, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := model.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}
