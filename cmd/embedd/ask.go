package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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

// reloadTimeout is how long daemons have to drain and to open their pipelines again.
const reloadTimeout = 2 * time.Minute

func reloadCommand(e *cli.Env) *cobra.Command {
	cmd := askCommand(e, "reload", "ask running daemons to read their configuration files again",
		func(ctx context.Context, out *report.Output, nc *nats.Conn, pipeline string, processes []string) error {
			var failed error
			var answers []stream.Reloaded
			count := 0
			subject := stream.ServiceSubject(pipeline, "reload")
			err := client.Gather(ctx, nc, subject, nil, reloadTimeout, func(msg *nats.Msg) bool {
				count++
				r, err := readReloaded(msg)
				if err != nil {
					err = fmt.Errorf("the daemon on %s keeps its configuration: %w", r.Host, err)
					failed = errors.Join(failed, err)
				} else {
					answers = append(answers, r)
				}
				return count < len(processes)
			})
			if n := len(processes); err == nil && count < n {
				err = fmt.Errorf("%d of %d daemons of pipeline %s did not answer within %v; look at their logs", n-count, n,
					pipeline, reloadTimeout)
			}
			return errors.Join(printReloaded(out, answers), failed, err)
		})
	cmd.Long = "Ask all daemons that run a pipeline to read their configuration files again, as SIGHUP does. A file " +
		"with an error changes nothing. Keys that cannot change while a daemon runs are named; they need a restart."
	return cmd
}

func readReloaded(msg *nats.Msg) (r stream.Reloaded, err error) {
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		return r, fmt.Errorf("the answer cannot be read, perhaps from another version of embedd: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

func printReloaded(out *report.Output, answers []stream.Reloaded) error {
	if out.JSON {
		return report.Objects(out, answers)
	}
	for _, r := range answers {
		text := "nothing changed"
		if len(r.Applied) > 0 {
			text = "changed " + strings.Join(r.Applied, ", ")
		}
		if len(r.Restart) > 0 {
			text += "; these need a restart: " + strings.Join(r.Restart, ", ")
		}
		out.Printf("the daemon on %s: generation %d, %s\n", r.Host, r.Generation, text)
	}
	return nil
}
