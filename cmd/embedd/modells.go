package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream/registry"
)

func modelLsCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [PIPELINE]", Short: "list the versions in the model store and the rejected candidates",
		Args: cli.Arguments(0, 1),
	}
	f := cli.FlagsOf(cmd)
	where := client.StoreFlags(f)
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		store, done, err := where.Open(ctx, e)
		if err != nil {
			return err
		}
		defer done()
		there, err := registry.Pipelines(ctx, store)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			names = there
		} else if !slices.Contains(there, names[0]) {
			return fmt.Errorf("%s has no pipeline %q%s: %w", store, names[0], cli.DidYouMean(names[0], there),
				registry.ErrMissing)
		}
		var lines []registry.Listed
		for _, name := range names {
			p, err := registry.New(store, name, registry.Options{}).Pointer(ctx)
			if err != nil {
				return err
			}
			if p.Damage() != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), p.Damage())
			}
			lines = append(lines, p.List(name)...)
		}
		return printListed(out, lines)
	}
	return cmd
}

// printListed prints versions and rejected candidates, the newest last.
func printListed(out *report.Output, lines []registry.Listed) error {
	if out.JSON {
		for _, l := range lines {
			if err := out.Object(l); err != nil {
				return err
			}
		}
		return nil
	}
	t := out.Table("VERSION", "STATE", "EPOCH", "METHOD", "DIM", "ROWS", "SCORE", "CREATED", "WHY")
	for _, l := range lines {
		state := l.State
		if l.Pinned {
			state += ", pinned"
		}
		score := "-"
		if l.Score != nil {
			score = fmt.Sprintf("%.4f", *l.Score)
		}
		created := "-"
		if !l.Created.IsZero() {
			created = l.Created.Format("2006-01-02T15:04:05Z07:00")
		}
		t.Row(report.OrDash(l.Name), state, count(l.Epoch), report.OrDash(l.Method), count(l.Dim), count(l.Rows), score,
			created, report.OrDash(l.Why))
	}
	return t.Flush()
}
