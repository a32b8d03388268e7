package main

import (
	"github.com/spf13/cobra"
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
		r, err := askOne(cmd.Context(), e, server, "retrain", names)
		if err != nil {
			return err
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
