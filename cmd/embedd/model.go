package main

import (
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

func modelCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model ls|show|diff|pin|unpin|rollback|export NAME",
		Short: "list, show, compare, pin, roll back and export models",
	}
	cmd.AddCommand(modelLsCommand(e), modelShowCommand(e), modelDiffCommand(e), modelPinCommand(e),
		modelUnpinCommand(e), modelRollbackCommand(e), modelExportCommand(e))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Usagef("model: say what to do: usage: %s", cmd.UseLine())
	}
	return cmd
}
