package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/picture"
	"github.com/embedd/embedd/model"
)

func plotCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("plot", "draw a file in two dimensions", 0, 0)
	var spec dataset.Spec
	dataset.Flags(f, &spec)
	o := fittingFlags(f)
	modelPath := f.String("model", "", "`FILE` of a model, instead of --method")
	path := f.StringP("output", "o", "", "`FILE` of the picture: .png or .svg; - is PNG on standard output")
	f.Require("data", "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if f.Changed("model") && f.Changed("method") {
			return cli.Usagef("plot: give one of --model and --method")
		}
		if err := picture.CheckName(*path); err != nil {
			return cli.Usagef("%w", err)
		}
		if err := files.RefuseTerminal(e, *path); err != nil {
			return err
		}
		m, r, err := plotModel(ctx, e, spec, o, *modelPath)
		if err != nil {
			return err
		}
		y := make([]float32, r.N*m.Dim())
		if err := m.Project(y, model.DenseRows(r.X, r.N, r.M)); err != nil {
			return err
		}
		drawn, err := plotRows(m, r, y).Render(*path)
		if err != nil {
			return err
		}
		if err := files.Write(e, *path, func(out io.Writer) error {
			_, err := drawn.WriteTo(out)
			return err
		}); err != nil {
			return err
		}
		e.Infof("%d rows, by %s %s, to %s", r.N, m.Method(), m.Digest()[:16], *path)
		return nil
	}
	return cmd
}

// plotModel reads the rows and the model, or fits a model of two dimensions.
func plotModel(ctx context.Context, e *cli.Env, spec dataset.Spec, o *fitFlags, path string) (*model.Model,
	*dataset.Rows, error) {
	if path != "" {
		m, err := files.ReadModel(path)
		if err != nil {
			return nil, nil, err
		}
		n := m.Note()
		spec.ModelFeatures, spec.Categories, spec.Dates = m.Features(), n.Categories, n.Dates
		spec.Nulls = cmp.Or(spec.Nulls, n.Nulls)
		r, err := dataset.Read(ctx, e, spec)
		return m, r, err
	}
	o.dim = "2"
	c, err := o.config(spec.Label)
	if err != nil {
		return nil, nil, err
	}
	r, err := dataset.Read(ctx, e, spec)
	if err != nil {
		return nil, nil, err
	}
	m, err := fitRows(ctx, e, r, c)
	if bound, ok := errors.AsType[*model.DimError](err); ok && bound.Max == 1 {
		c.Dim = 1 // LDA and similar methods have one direction for two classes: draw that
		m, err = fitRows(ctx, e, r, c)
	}
	return m, r, err
}

// plotRows draws the first two outputs. A single output is spread by class.
func plotRows(m *model.Model, r *dataset.Rows, y []float32) *picture.Scatter {
	d := m.Dim()
	p := &picture.Scatter{
		Title:    fmt.Sprintf("%s by %s", strings.TrimSuffix(r.Name, ".gz"), m.Method()),
		Subtitle: fmt.Sprintf("%d rows, %d features to %d", r.N, r.M, d),
		XLabel:   "embedding_0", YLabel: "embedding_1",
		Class: r.Y, Classes: r.Classes,
	}
	if d > 2 {
		p.Subtitle += ", of which the first two are shown"
	}
	for i := range r.N {
		p.X = append(p.X, float64(y[i*d]))
		if d > 1 {
			p.Y = append(p.Y, float64(y[i*d+1]))
		}
	}
	if d == 1 {
		p.Y, p.YLabel = picture.Spread(r.Y, r.N), ""
	}
	return p
}
