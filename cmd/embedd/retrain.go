package main

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/stream"
)

// retrainCommand makes a fit due in a running daemon.
func retrainCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retrain [PIPELINE]",
		Short: "ask a running daemon to fit a candidate now; what speaks for it decides, as for any",
		Args:  arguments(0, 1),
	}
	f := flagsOf(cmd)
	server := f.server(" of the daemon")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		nc, err := server.dial(ctx, e)
		if err != nil {
			return err
		}
		defer nc.Close()
		names, _, err = running(ctx, nc, names)
		if err != nil {
			return err
		}
		if len(names) > 1 {
			return usagef("retrain: name one of the pipelines %s", listed(names))
		}
		msg, err := nc.Request(stream.ServiceSubject(names[0], "retrain"), nil, askWait)
		if errors.Is(err, nats.ErrTimeout) {
			return fmt.Errorf("pipeline %s does not answer within %v", names[0], askWait)
		}
		if err != nil {
			return fmt.Errorf("asking pipeline %s: %w", names[0], err)
		}
		r, err := reportOf(msg)
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", names[0], err)
		}
		if out.json {
			return out.object(r)
		}
		out.printf("%s fits a candidate from %d rows of %d classes; `embedd status` says what came of it\n", r.Pipeline,
			r.Learning.Rows, r.Learning.Classes)
		return nil
	}
	return cmd
}
