package main

import "github.com/spf13/cobra"

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "print this text, or the flags of a verb",
		Args:  cobra.ArbitraryArgs, // a verb may have two words
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			about, err := find(cmd.Root(), args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return verbNames(about), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := find(cmd.Root(), args)
			if err != nil {
				return err
			}
			if about == cmd {
				about = cmd.Root()
			}
			return about.Help()
		},
	}
}
