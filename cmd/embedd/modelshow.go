package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
)

func modelShowCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "show a model: a file, or a version or pipeline in the store",
		Args: cli.Arguments(1, 1), ValidArgsFunction: cli.OfferFiles,
	}
	f := cli.FlagsOf(cmd)
	where := client.StoreFlags(f)
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		m, err := findModel(ctx, e, names[0], where)
		if err != nil {
			return err
		}
		if out.JSON {
			return out.Object(m)
		}
		return printModel(out, m)
	}
	return cmd
}

func printModel(out *report.Output, m *model.Model) error {
	t := out.Table()
	if v := m.Note().Version; v != "" {
		t.Row("version", v)
	}
	t.Row("digest", m.Digest())
	t.Row("method", m.Method()+settings(m.Params()))
	t.Row("map", fmt.Sprintf("%s, %d features to %d", m.Map(), m.M(), m.Dim()))
	t.Row("informative", fmt.Sprintf("%d of %d outputs", min(m.InformativeRank(), m.Dim()), m.Dim()))
	if len(m.Eigenvalues()) > 0 {
		t.Row("eigenvalues", numbers(m.Eigenvalues(), 8))
	}
	t.Row("rows", m.Rows())
	if classes := m.Classes(); len(classes) > 0 {
		t.Row("classes", fmt.Sprintf("%d: %s", len(classes), cli.Listed(classes)))
	}
	note := m.Note()
	if !note.Created.IsZero() {
		t.Row("created", note.Created.Format("2006-01-02T15:04:05Z07:00"))
	}
	if note.Epoch > 0 {
		t.Row("epoch", note.Epoch)
	}
	for _, key := range slices.Sorted(maps.Keys(note.Source)) {
		t.Row("source "+key, note.Source[key])
	}
	if m.Unit() {
		t.Row("scale", "unit: each row is divided by its Euclidean norm")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	components, d := m.Components(), m.Dim()
	if components == nil {
		return nil
	}
	const maxRows, maxColumns = 20, 5
	out.Printf("\n")
	header := []any{"FEATURE", "MEAN", "SCALE"}
	for k := range min(d, maxColumns) {
		header = append(header, fmt.Sprintf("EMBEDDING_%d", k))
	}
	t = out.Table(header...)
	mean, scale := m.Mean(), m.Scale()
	for j, name := range m.Features() {
		if j == maxRows {
			t.Row(fmt.Sprintf("... %d more", m.M()-maxRows))
			break
		}
		row := []any{name, fmt.Sprintf("%.6g", mean[j]), fmt.Sprintf("%.6g", scale[j])}
		for k := range min(d, maxColumns) {
			row = append(row, fmt.Sprintf("% .6g", components[j*d+k]))
		}
		t.Row(row...)
	}
	return t.Flush()
}
