package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

func completionCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: "print a completion script for bash, zsh or fish",
		Example: "embedd completion bash > ~/.local/share/bash-completion/completions/embedd\n" +
			"embedd completion zsh > \"${fpath[1]}/_embedd\"\n" +
			"embedd completion fish > ~/.config/fish/completions/embedd.fish",
		Args: cli.Arguments(1, 1),
	}
	scripts := map[string]func() error{
		"bash": func() error { return cmd.Root().GenBashCompletionV2(e.Stdout, true) },
		"zsh":  func() error { return cmd.Root().GenZshCompletion(e.Stdout) },
		"fish": func() error { return cmd.Root().GenFishCompletion(e.Stdout, true) },
	}
	shells := slices.Sorted(maps.Keys(scripts))
	cmd.ValidArgsFunction = cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		script, ok := scripts[args[0]]
		if !ok {
			near := cli.DidYouMean(args[0], shells)
			return cli.Usagef("completion: no script for %q%s: want one of %s", args[0], near, strings.Join(shells, ", "))
		}
		return script()
	}
	return cmd
}
