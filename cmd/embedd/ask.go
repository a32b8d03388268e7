package main

import (
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

// askCommand is a verb that calls the endpoint of the same name of one pipeline and prints the result.
func askCommand(e *cli.Env, endpoint, short string, say func(*report.Output, stream.Report)) *cobra.Command {
	cmd := &cobra.Command{Use: endpoint + " [PIPELINE]", Short: short, Args: cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteArguments(client.Pipelines)}
	f := cli.FlagsOf(cmd)
	server := client.ServerFlags(f, " of the daemon")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		r, err := client.Ask(cmd.Context(), e, server, endpoint, names)
		if err != nil {
			return err
		}
		if out.JSON {
			return out.Object(r)
		}
		say(out, r)
		return nil
	}
	return cmd
}

func retrainCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "retrain", "ask a running daemon to fit a candidate now; the gate decides about its "+
		"promotion as usual",
		func(out *report.Output, r stream.Report) {
			out.Printf("%s fits a candidate from %d rows of %d classes; see `embedd status` for the result\n",
				r.Pipeline, r.Learning.Rows, r.Learning.Classes)
		})
}

func resumeCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "resume", "resume a pipeline that limits.bad has halted", func(out *report.Output,
		r stream.Report) {
		out.Printf("%s resumes\n", r.Pipeline)
	})
}
