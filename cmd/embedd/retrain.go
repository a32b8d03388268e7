package main

import (
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

func retrainCommand(e *cli.Env) *cobra.Command {
	return askCommand(e, "retrain", "ask a running daemon to fit a candidate now; the gate decides about its "+
		"promotion as usual",
		func(out *report.Output, r stream.Report) {
			out.Printf("%s fits a candidate from %d rows of %d classes; see `embedd status` for the result\n",
				r.Pipeline, r.Learning.Rows, r.Learning.Classes)
		})
}
