package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

func fitCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("fit", "fit a projection to a file of labelled rows", 0, 0)
	var spec dataset.Spec
	dataset.Flags(f, &spec)
	o := fittingFlags(f)
	f.StringVar(&o.dim, "dim", "auto", "`NUMBER` of outputs, or auto to choose by cross-validation; without labels "+
		"the method's default")
	path := f.StringP("output", "o", "", "`FILE` to write the model to; - is standard output, and the report goes to "+
		"standard error")
	out := report.Flag(f, e)
	f.Require("data", "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		c, err := o.config(spec.Label)
		if err != nil {
			return err
		}
		if err := cmp.Or(files.RefuseTerminal(e, *path), files.RefuseNoModel(*path)); err != nil {
			return err
		}
		spec.CanSpool = c.Streams()
		r, err := dataset.Read(ctx, e, spec)
		if err != nil {
			return err
		}
		defer r.Close()
		if c.Method == fit.Auto && len(r.Classes) == 1 {
			e.Notef("%s: every row with a label is of class %q, so auto takes pca, which uses no labels: check that --label %s "+
				"is the column of the class", r.Name, r.Classes[0], spec.Label)
		}
		m, err := fitRows(ctx, e, r, c)
		if err != nil {
			return err
		}
		if err := files.Write(e, *path, func(w io.Writer) error { return model.Write(w, m) }); err != nil {
			return err
		}
		out.MakeRoomFor(e, *path)
		if out.JSON {
			return out.Object(fitReport{Data: r.Name, Model: *path, Digest: m.Digest(), Method: m.Method(),
				Dim: m.Dim(), Features: m.M(), Classes: m.Classes(),
				Rows: m.Rows(), Skipped: r.Skipped, Scale: string(o.Scale), Params: m.Params(), Report: m.Report()})
		}
		return printFit(out, m, *path, scaleText(m, o.Scale))
	}
	return cmd
}

// scaleText is the scale of a model, also if auto chose it.
func scaleText(m *model.Model, asked model.Scale) string {
	choice := m.Report().Choice
	switch {
	case asked != model.ScaleAuto:
		return string(asked)
	case choice != nil && len(choice.Members) > 0:
		return "of each member"
	case choice != nil && choice.Scale != "":
		return string(choice.Scale)
	}
	return string(model.ScaleStandard)
}

// fitReport is the JSON report of fit. `embedd model show` shows the model itself.
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

func printFit(out *report.Output, m *model.Model, path, scale string) error {
	t := out.Table()
	report := m.Report()
	t.Row("model", path)
	t.Row("digest", m.Digest()[:16])
	t.Row("method", fmt.Sprintf("%s%s, scale %s", m.Method(), settings(m.Params()), scale))
	t.Row("map", fmt.Sprintf("%d features to %d", m.M(), m.Dim()))
	rows := fmt.Sprintf("%d", m.Rows())
	if n := len(m.Classes()); n > 0 {
		rows += fmt.Sprintf(" in %d classes: %s", n, cli.Listed(m.Classes()))
	}
	if report.Unlabelled > 0 {
		rows += fmt.Sprintf("; %d more have no label and were not used", report.Unlabelled)
	}
	t.Row("rows", rows)
	columns := fmt.Sprint(m.M())
	if n := m.Params()["landmarks"]; n != "" {
		columns = n + " landmarks"
	}
	t.Row("rank", fmt.Sprintf("%d of %s; the criterion determines %d of the %d outputs", report.Rank, columns,
		min(report.Informative, m.Dim()), m.Dim()))
	t.RowIf(report.Constant > 0, "constant", fmt.Sprintf("%d features have no variance", report.Constant))
	if r := report.Ridge; r != nil {
		t.Row("ridge", fmt.Sprintf("%.3g relative (%.3g absolute), chosen by %s", r.Relative, r.Absolute, r.Rule))
	}
	t.RowIf(len(report.Eigenvalues) > 0, "eigenvalues", numbers(report.Eigenvalues, 8))
	if report.Gap != nil {
		t.Row("gap", fmt.Sprintf("%.3g: the smallest relative distance between neighbouring eigenvalues", *report.Gap))
	}
	for _, tie := range report.Ties {
		t.Row("tie", tied(tie, m.Dim()))
	}
	if report.Residual > 0 { // only for eigenvalue problems
		t.Row("residual", fmt.Sprintf("%.2g", report.Residual))
	}
	if s := report.Search; s != nil {
		t.Row("search", searched(s))
	}
	if c := report.Choice; c != nil && c.Seconds > 0 {
		t.Row("time", fmt.Sprintf("auto %.3g s", c.Seconds))
	}
	for _, p := range report.Phases {
		t.Row("time", fmt.Sprintf("%s %.3g s", p.Name, p.Seconds))
	}
	for _, n := range report.Notes {
		t.Row("note", n)
	}
	if report.Choice != nil {
		for _, n := range report.Choice.LeftOut {
			t.Row("left out", n)
		}
	}
	if err := t.Flush(); err != nil || report.Choice == nil {
		return err
	}
	return printChoice(out, report.Choice)
}

// tied describes outputs, counted from 1, that share an eigenspace.
func tied(run [2]int, dim int) string {
	from, to := run[0]+1, min(run[1], dim)
	text := fmt.Sprintf("outputs %d to %d share one eigenspace", from, to)
	if from == to {
		text = fmt.Sprintf("output %d shares its eigenspace", from)
	}
	if more := run[1] - dim; more > 0 {
		text += fmt.Sprintf(" with %d left out", more)
	}
	return text + ": other directions in it are equally good"
}

// searched summarises an iterative search.
func searched(s *model.Search) string {
	end := "converged"
	if !s.Converged {
		end = "not converged"
	}
	text := fmt.Sprintf("criterion %.6g -> %.6g in %d steps, %s, gradient %.2g at the end", s.Start, s.End, s.Steps, end,
		s.Gradient)
	if s.StartAccuracy != nil && s.EndAccuracy != nil {
		text += fmt.Sprintf("; leave-one-out accuracy %.1f %% -> %.1f %%", 100**s.StartAccuracy, 100**s.EndAccuracy)
	}
	return text
}

// landmarksText describes the landmarks of a method.
func landmarksText(landmarks int, width float64) string {
	if landmarks == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d landmarks of width %g", landmarks, width)
}

// printChoice prints what auto chose, what comes next, and the scores.
func printChoice(out *report.Output, c *model.Choice) error {
	text := fmt.Sprintf("auto chose the %s: %s with dim %d", c.Chosen, c.Method, c.Dim)
	out.Printf("\n")
	switch {
	case c.Rule != "cv":
		out.Printf("%s (%s)\n", text, c.Rule)
		return nil
	case len(c.Members) > 0:
		out.Printf("%s, of these members:\n", text)
		if err := printMembers(out, c.Members); err != nil {
			return err
		}
		text = ""
	case c.RunnerUp == nil:
		out.Printf("%s, the only candidate\n", text)
		return nil
	}
	if c.RunnerUp != nil {
		text = strings.TrimPrefix(fmt.Sprintf("%s; next is %s with dim %d", text, c.RunnerUp.Method, c.RunnerUp.Dim), "; ")
	}
	for _, line := range []string{text, c.Note} {
		if line != "" {
			out.Paragraph("", line, 0)
		}
	}
	return printScores(out, c)
}

// printMembers prints the members of a blend.
func printMembers(out *report.Output, members []model.Member) error {
	t := out.Table("MEMBER", "DIM", "SCALE", "ADDS")
	listed := map[string]bool{}
	for _, m := range members {
		name := m.Method + landmarksText(m.Landmarks, m.Width) + settings(m.Params)
		t.Row(name, m.Dim, m.Scale, fmt.Sprintf("%+d", m.Adds))
		listed[fmt.Sprint(name, " ", m.Dim, m.Scale)] = true
	}
	if err := t.Flush(); err != nil {
		return err
	}
	out.Printf("ADDS: how many more held-out rows of a round are classified correctly with it than without it\n")
	if len(listed) < len(members) {
		out.Printf("Members that are listed again take the place of other scales with similar outputs\n")
	}
	return nil
}

// printScores prints the scores of candidates: a row for each method, a column for each dimension.
func printScores(out *report.Output, c *model.Choice) error {
	folds := "3 folds"
	if c.Rounds > 1 {
		folds = fmt.Sprintf("3 folds in %d rounds", c.Rounds)
	}
	out.Paragraph("", fmt.Sprintf("accuracy on held-out rows (%s, %d rows, each counted once; too optimistic if "+
		"near-duplicates follow each other); * is chosen, - is worse by more than two standard errors of the difference on "+
		"the same rows:", folds, c.Scores[0].Scored), 0)
	var methods []string
	var dims []int
	cell := map[string]string{}
	for _, s := range c.Scores {
		name := s.Method
		if s.Scale != "" {
			name += " " + string(s.Scale) + landmarksText(s.Landmarks, s.Width)
		}
		if !slices.Contains(methods, name) {
			methods = append(methods, name)
		}
		dims = append(dims, s.Dim)
		mark := ""
		if s.Behind > 2*s.BehindError {
			mark = " -"
		}
		if s.Method == c.Method && s.Scale == c.Scale && s.Landmarks == c.Landmarks && s.Width == c.Width && s.Dim == c.Dim {
			mark = " *"
		}
		if at := fmt.Sprint(name, s.Dim); cell[at] == "" { // the best parameters come first
			cell[at] = fmt.Sprintf("%.1f %%%s", 100*s.Correct/float64(s.Scored), mark)
		}
	}
	slices.Sort(dims)
	dims = slices.Compact(dims)
	header := []any{"METHOD"}
	for _, d := range dims {
		header = append(header, fmt.Sprintf("DIM %d", d))
	}
	t := out.Table(header...)
	for _, m := range methods {
		row := []any{m}
		for _, d := range dims {
			row = append(row, report.OrDash(cell[fmt.Sprint(m, d)]))
		}
		t.Row(row...)
	}
	return t.Flush()
}
