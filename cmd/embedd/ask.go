package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

// askCommand is a verb that calls the endpoint of the same name of one pipeline, the named one or the only one that
// runs.
func askCommand(e *cli.Env, endpoint, short string,
	ask func(context.Context, *report.Output, *nats.Conn, string, []string) error) *cobra.Command {
	cmd, f := cli.Verb(endpoint+" [PIPELINE]", short, 0, 1)
	cmd.ValidArgsFunction = cli.CompleteArguments(client.Pipelines)
	server := client.ServerFlags(f, " of the daemon")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		nc, err := server.Dial(cmd.Context(), e)
		if err != nil {
			return err
		}
		names, processes, err := client.Running(cmd.Context(), nc, names)
		if err != nil {
			return err
		}
		if len(names) > 1 {
			return cli.Usagef("%s: name one of the pipelines %s", endpoint, cli.Listed(names))
		}
		return ask(cmd.Context(), out, nc.Conn, names[0], processes[names[0]])
	}
	return cmd
}

func retrainCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "retrain", "ask a running daemon to fit a candidate now; the gate decides about its "+
		"promotion as usual",
		func(_ context.Context, out *report.Output, nc *nats.Conn, pipeline string, _ []string) error {
			r, err := client.Ask(nc, pipeline, "retrain", stream.Request{By: requester()})
			if err != nil {
				return err
			}
			return out.Result(r, "%s fits a candidate from %d rows of %d classes; see `embedd status` for the result\n",
				r.Pipeline, r.Learning.Rows, r.Learning.Classes)
		})
}

func resumeCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "resume", "resume a pipeline that limits.bad has halted, in all daemons that run it",
		func(ctx context.Context, out *report.Output, nc *nats.Conn, pipeline string, _ []string) error {
			reports, silent, err := client.AskAll(ctx, nc, pipeline, "resume", stream.Request{By: requester()})
			daemons := len(reports) + len(silent)
			if len(silent) > 0 {
				err = errors.Join(err, fmt.Errorf("%d of %d daemons of pipeline %s did not report within %v that they "+
					"resume, and may be halted still: %s; `embedd status %s` lists those that answer", len(silent), daemons,
					pipeline, client.Timeout, strings.Join(silent, ", "), pipeline))
			}
			if out.JSON {
				return errors.Join(report.Objects(out, reports), err)
			}
			if len(reports) > 0 {
				out.Printf("%s resumes in %d of %d daemons\n", pipeline, len(reports), daemons)
			}
			return err
		})
}
