package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/model"
)

func plotCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{Use: "plot", Short: "a picture of a file in two dimensions"}
	f := flagsOf(cmd)
	var spec rowsSpec
	f.dataFlags(&spec)
	o := f.fitFlags()
	modelPath := f.String("model", "", "`FILE` of a model, in place of --method")
	path := f.StringP("output", "o", "", "`FILE` of the picture: .png or .svg; - is PNG on standard output")
	f.require("data", "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if f.Changed("model") == f.Changed("method") {
			return usagef("plot: give one of --model and --method")
		}
		if _, err := newCanvas(*path); err != nil {
			return err
		}
		if err := noTerminal(e, *path); err != nil {
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
		return plotRows(m, r, y).save(e, *path)
	}
	return cmd
}

// plotModel reads the rows and the model, or fits one to the two dimensions that a picture has.
func plotModel(ctx context.Context, e *env, spec rowsSpec, o *fitFlags, path string) (*model.Model, *rows, error) {
	if path != "" {
		m, err := readModel(path)
		if err != nil {
			return nil, nil, err
		}
		spec.pinned = m.Features()
		r, err := readRows(ctx, e, spec)
		return m, r, err
	}
	o.dim = "2"
	c, err := o.config(spec.label)
	if err != nil {
		return nil, nil, err
	}
	r, err := readRows(ctx, e, spec)
	if err != nil {
		return nil, nil, err
	}
	m, err := fitRows(ctx, e, r, c)
	if bound, ok := asDimError(err); ok && bound.Max == 1 {
		c.Dim = 1 // two classes have one direction in LDA and its kin: the picture shows it
		m, err = fitRows(ctx, e, r, c)
	}
	return m, r, err
}

// plotRows is the picture of the first two outputs; a single output is spread by class.
func plotRows(m *model.Model, r *rows, y []float32) *picture {
	d := m.Dim()
	p := &picture{
		title:    fmt.Sprintf("%s by %s", strings.TrimSuffix(r.name, ".gz"), m.Method()),
		subtitle: fmt.Sprintf("%d rows, %d features to %d", r.N, r.M, d),
		xLabel:   "embedding_0", yLabel: "embedding_1",
		class: r.Y, classes: r.Classes,
	}
	if d > 2 {
		p.subtitle += ", of which the first two are shown"
	}
	for i := range r.N {
		p.x = append(p.x, float64(y[i*d]))
		if d > 1 {
			p.y = append(p.y, float64(y[i*d+1]))
		}
	}
	if d == 1 {
		p.y, p.yLabel = spread(r.Y, r.N), ""
	}
	return p
}
