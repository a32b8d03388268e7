package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/memory"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/tools/bench"
)

func benchCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "measure throughput on this machine, compared with a relay, memory " +
		"bandwidth and a matrix product",
		Long: "Measure one shape of message on this machine, as ratios: the pipeline compared with a relay that " +
			"publishes as\n" +
			"many bytes without processing, the projection compared with reading the rows from memory, fits compared with a\n" +
			"matrix product X'X by gonum. The server, its storage and all that is measured run in this process, in turns.\n" +
			"A line reports the turn with the median ratio: other load changes ratios less than absolute figures."}
	f := cli.FlagsOf(cmd)
	s := bench.Shape{}
	f.IntVar(&s.Rows, "rows", 1024, "`NUMBER` of rows in a message")
	f.IntVar(&s.Features, "features", 256, "`NUMBER` of features of a row")
	f.IntVar(&s.Dim, "dim", 8, "`NUMBER` of outputs of a row")
	kind := f.Choice("type", "`TYPE` of the features", bench.TypeFloat32, bench.TypeFloat64, bench.TypeFloat16,
		bench.TypeInt16, bench.TypeInt8)
	layout := f.Choice("layout", "`FORM` of the features: one list column, or a column for each",
		bench.LayoutList, bench.LayoutColumns)
	path := f.String("model", "", "`FILE` of the model that is measured, with its features and outputs; without it a pca")
	repeats := f.Int("repeats", 5, "`NUMBER` of turns, of which the median is reported; fewer if they take long")
	out := report.Flag(f, e)
	f.BoolVar(&out.JSON, "json", false, "the same as --format json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.Type, s.Layout = *kind, *layout
		var given *model.Model
		if *path != "" {
			if cmd.Flags().Changed("features") || cmd.Flags().Changed("dim") {
				return cli.Usagef("bench: --model has the features and outputs: leave out --features and --dim")
			}
			var err error
			if given, err = files.ReadModel(*path); err == nil {
				err = s.SetModel(given)
			}
			if err != nil {
				return fmt.Errorf("bench: --model: %w", err)
			}
		}
		if err := s.Check(*repeats); err != nil {
			return cli.Usagef("bench: %w", err)
		}
		memory.Limit(&config.Config{Memory: 8 * bench.KernelBytes}) // the GC percent of the daemon
		show := report.NewProgress(e)
		defer show.End()
		var lines []bench.Ratio
		err := bench.Run(cmd.Context(), s, given, *repeats, show.Show, func(r bench.Ratio) error {
			lines = append(lines, r)
			if out.JSON {
				return out.Object(r)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		show.End()
		if out.JSON {
			return nil
		}
		return printRatios(out, s, lines)
	}
	return cmd
}

func printRatios(out *report.Output, s bench.Shape, lines []bench.Ratio) error {
	out.Printf("%d rows x %d features (%s, %s) to %d dimensions by %s\n", s.Rows, s.Features, s.Type, s.Layout, s.Dim,
		cmp.Or(s.Method, "pca"))
	t := out.Table("WHAT", "OURS", "REFERENCE", "", "UNIT", "RATIO", "TURNS", "GOAL", "")
	for _, r := range lines {
		goal, verdict := "-", ""
		if r.Goal != nil {
			goal, verdict = fmt.Sprintf(">= %g", *r.Goal), "missed"
			if r.AtMost {
				goal = fmt.Sprintf("<= %g", *r.Goal)
			}
			if *r.Met {
				verdict = "met"
			}
		}
		t.Row(r.What, figure(r.Ours), r.Reference, figure(r.Scale), r.Unit, fmt.Sprintf("%.3f", r.Ratio),
			strconv.Itoa(r.Repeats), goal, verdict)
	}
	return t.Flush()
}

// figure writes a number with three digits at least.
func figure(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
