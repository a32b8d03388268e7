package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/picture"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/tools/demo"
)

func demoCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("demo", "demonstration: real digits through an embedded server, with a table and a picture", 0, 0)
	path := f.StringP("output", "o", "embedd-demo.png", "`FILE` of the picture: .png or .svg")
	verbose := f.BoolP("verbose", "v", false, "log at level info")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if err := picture.CheckName(*path); err != nil || *path == "-" {
			return cli.Usagef("demo: -o %s: the picture is a file whose name ends in .png or .svg", *path)
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		level := slog.LevelError
		if *verbose {
			level = slog.LevelInfo
		}
		show := report.NewProgress(e)
		defer show.End()
		d, err := demo.Open(newLogger(e, "text", level), show.Show)
		if err != nil {
			return err
		}
		defer d.Close()
		all, labelled := d.Rows()
		out.Printf("%d handwritten digits of 64 pixels flow through a NATS server as Arrow batches;\n"+
			"%d of them carry a label. Projections to 10 and to 2 dimensions are learned on the way,\n"+
			"with landmarks: kernels of the rows replace the pixels, so that class boundaries may be curved.\n\n", all, labelled)
		r, err := d.Play(ctx, *path)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if out.JSON {
			return out.Object(r)
		}
		show.End()
		return printDemo(out, r)
	}
	return cmd
}

func printDemo(out *report.Output, r *demo.Report) error {
	t := out.Table("", "BATCHES", "ROWS")
	t.Row("in", r.BatchesIn, r.RowsIn)
	t.Row("out", r.BatchesOut, r.RowsOut)
	t.Row("dead letters", r.DeadLetters, r.RowsIn-r.RowsOut-r.Skipped)
	t.Flush()
	out.Printf("\n")
	t = out.Table("MODEL", "NEW ROWS RIGHT", "")
	for _, m := range r.Models {
		what, right := "went live", "-"
		if !m.Promoted {
			what = "not promoted: too little evidence"
		}
		if m.Score != nil {
			right = fmt.Sprintf("%.1f %%", 100**m.Score)
		}
		t.Row(strings.TrimSpace(m.Version+" "+m.Method), right, what)
	}
	t.Flush()
	out.Printf("\n1-NN accuracy on %d digits that were not learned from:\n", r.HeldOut)
	t = out.Table()
	t.Row("  64 pixels as they are", fmt.Sprintf("%.1f %%", 100*r.Accuracy.RawUnscaled))
	t.Row(fmt.Sprintf("  %d dimensions from the stream", r.DimOut), fmt.Sprintf("%.1f %%", 100*r.Accuracy.Reduced))
	t.Row("  2 dimensions, the picture", fmt.Sprintf("%.1f %%", 100*r.Accuracy.Picture))
	t.Row("  2 dimensions, without landmarks", fmt.Sprintf("%.1f %%", 100*r.Accuracy.Straight))
	t.Flush()
	out.Printf("\nThe picture is %s\nNext: embedd init, then embedd run.\n", r.Picture)
	return nil
}
