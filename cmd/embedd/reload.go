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
