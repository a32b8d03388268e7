package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/daemon"
	"github.com/embedd/embedd/cmd/embedd/report"
)

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

// What a release sets by the linker (-ldflags "-X main.version=v1.2.3"), since it is not built from a clone. Otherwise
// the build information has them.
var version, revision, date string

func buildInfo() daemon.Build {
	b := daemon.Build{Version: version, Revision: revision, Date: date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = cmp.Or(b.Revision, s.Value)
			case "vcs.time":
				b.Date = cmp.Or(b.Date, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

func versionCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("version", "print the version of embedd", 0, 0)
	out := report.Flag(f, e)
	cmd.RunE = func(*cobra.Command, []string) error {
		if out.JSON {
			return out.Object(buildInfo())
		}
		_, err := fmt.Fprint(e.Stdout, buildInfo())
		return err
	}
	return cmd
}
