package main

import (
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

// reloadTimeout is how long daemons have to drain and to open their pipelines again.
const reloadTimeout = 2 * time.Minute

func reloadCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "reload [PIPELINE]", Short: "ask running daemons to read their configuration files again",
		Long: "Ask all daemons that run a pipeline to read their configuration files again, as SIGHUP does. A file with an " +
			"error changes nothing. Keys that cannot change while a daemon runs are named; they need a restart.",
		Args: cli.Arguments(0, 1), ValidArgsFunction: cli.CompleteArguments(client.Pipelines),
	}
	f := cli.FlagsOf(cmd)
	server := client.ServerFlags(f, " of the daemon")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		nc, err := server.Dial(ctx, e)
		if err != nil {
			return err
		}
		defer nc.Close()
		names, instances, err := client.Running(ctx, nc, names)
		if err != nil {
			return err
		}
		if len(names) > 1 {
			return cli.Usagef("reload: name one of the pipelines %s; its daemons read their whole files", cli.Listed(names))
		}
		var failed error
		var answers []stream.Reloaded
		count, running := 0, len(instances[names[0]])
		subject := stream.ServiceSubject(names[0], "reload")
		err = client.Gather(ctx, nc.Conn, subject, nil, reloadTimeout, func(msg *nats.Msg) bool {
			count++
			r, err := readReloaded(msg)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("the daemon on %s keeps its configuration: %w", r.Host, err))
			} else {
				answers = append(answers, r)
			}
			return count < running
		})
		if err == nil && count < running {
			err = fmt.Errorf("%d of %d daemons of pipeline %s did not answer within %v; look at their logs", running-count,
				running, names[0], reloadTimeout)
		}
		return errors.Join(printReloaded(out, answers), failed, err)
	}
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
