package main

import (
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

// retrainCommand makes a fit due in a running daemon.
func retrainCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "retrain", "ask a running daemon to fit a candidate now; what speaks for it decides, as for any",
		func(out *report.Output, r stream.Report) {
			out.Printf("%s fits a candidate from %d rows of %d classes; `embedd status` says what came of it\n",
				r.Pipeline, r.Learning.Rows, r.Learning.Classes)
		})
}
