package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
)

func init() { cobra.EnableCommandSorting = false } // help lists verbs in the order of AddCommand

// newRoot assembles the verbs in the order of the help text.
func newRoot(e *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "embedd VERB [flags]",
		Short: "train a low-dimensional projection on a stream of labelled rows and apply it to the stream",
		Long: "embedd trains a low-dimensional projection on a stream of labelled rows and applies it to the stream.\n\n" +
			"exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 a check did not hold, 128+n ended by signal n",
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			_, e.Verb, _ = strings.Cut(cmd.CommandPath(), " ")
			return cmp.Or(cli.CheckExclusive(cmd), cli.CheckRequired(cmd, args), cli.CheckOutput(e, cmd, args))
		},
		SilenceErrors:     true, // dispatch prints them
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	version := root.Flags().BoolP("version", "v", false, "print the version of embedd")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprint(e.Stdout, buildInfo())
			return err
		}
		cmd.SetOut(e.Stderr)
		cmd.Help()
		return cli.Usagef("no verb given: start with `embedd demo`")
	}
	root.AddCommand(
		demoCommand(e), runCommand(e), statusCommand(e), retrainCommand(e), reloadCommand(e), resumeCommand(e),
		publishCommand(e), tailCommand(e), setupCommand(e), initCommand(e), checkCommand(e), doctorCommand(e),
		fitCommand(e), transformCommand(e), evalCommand(e), methodsCommand(e), plotCommand(e), benchCommand(e),
		modelCommand(e), dlqCommand(e), schemaCommand(e), versionCommand(e), completionCommand(e), manCommand(),
	)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetFlagErrorFunc(cli.ExplainFlagError)
	root.SetUsageFunc(printUsage)
	root.CompletionOptions.DisableDefaultCmd = true // completionCommand replaces it
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	everyCommand(root, finish)
	return root
}

// everyCommand calls do for a command and all its subcommands.
func everyCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		everyCommand(c, do)
	}
}

// finish adds what all commands have: the flag --help, a check of the arguments, and file completion for flags with a
// FILE.
func finish(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	if cmd.Args == nil {
		cmd.Args = cli.Arguments(0, 0)
	}
	cmd.Flags().VisitAll(func(d *pflag.Flag) {
		if value, _ := pflag.UnquoteUsage(d); value == "FILE" {
			cmd.RegisterFlagCompletionFunc(d.Name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
		}
	})
}

// find returns the command that args name. An unknown verb is a usage error.
func find(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, _ := root.Find(args) // the error is replaced below
	if !cmd.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return cmd, nil
	}
	near := cli.DidYouMean(rest[0], verbNames(cmd))
	if cmd == root {
		return nil, cli.Usagef("unknown verb %q%s: `embedd help` lists the verbs", rest[0], near)
	}
	return nil, cli.Usagef("%sunknown word %q%s: usage: %s", cli.ErrorPrefix(cmd), rest[0], near, cmd.UseLine())
}

func verbNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// printUsage prints the usage line, the subcommands and the flags of a command.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr() // set by cobra
	fmt.Fprintf(w, "usage: %s\n", cmd.UseLine())
	if cmd.HasSubCommands() {
		fmt.Fprintln(w)
		t := report.NewTable(w)
		for _, c := range cmd.Commands() {
			t.Row("  "+c.Name(), c.Short)
		}
		t.Flush()
		fmt.Fprintf(w, "\n`%s VERB` prints the flags of a verb.\n", cli.HelpCommand(cmd))
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nexamples:\n%s\n", cmd.Example)
	}
	_, err := fmt.Fprintf(w, "\nflags:\n%s", cmd.LocalFlags().FlagUsages())
	return err
}
