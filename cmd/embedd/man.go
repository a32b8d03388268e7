package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

func manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "write the manual pages, one for each verb, into a directory",
		Args:  cli.Arguments(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o777); err != nil {
			return fmt.Errorf("man: %w", err)
		}
		header := &doc.GenManHeader{Section: "1", Source: "embedd " + buildInfo().Version}
		if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
			return fmt.Errorf("man: %w", err)
		}
		return nil
	}
	return cmd
}
