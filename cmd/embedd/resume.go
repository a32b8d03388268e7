package main

import (
	"github.com/spf13/cobra"
)

// resumeCommand lets a pipeline go on that limits.bad has halted.
func resumeCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [PIPELINE]",
		Short: "let a pipeline go on that limits.bad has halted",
		Args:  arguments(0, 1),
	}
	f := flagsOf(cmd)
	server := f.server(" of the daemon")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		r, err := askOne(cmd.Context(), e, server, "resume", names)
		if err != nil {
			return err
		}
		if out.json {
			return out.object(r)
		}
		out.printf("%s goes on\n", r.Pipeline)
		return nil
	}
	return cmd
}
