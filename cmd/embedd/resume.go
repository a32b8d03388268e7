package main

import (
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

func resumeCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "resume", "resume a pipeline that limits.bad has halted", func(out *report.Output,
		r stream.Report) {
		out.Printf("%s resumes\n", r.Pipeline)
	})
}
