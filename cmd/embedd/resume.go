package main

import (
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/stream"
)

// resumeCommand lets a pipeline go on that limits.bad has halted.
func resumeCommand(e *env) *cobra.Command {
	return askCommand(e, "resume", "let a pipeline go on that limits.bad has halted", func(out *output, r stream.Report) {
		out.printf("%s goes on\n", r.Pipeline)
	})
}
