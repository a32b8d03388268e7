package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

var update = flag.Bool("update", false, "write docs/command-line.md")

// TestPage compares docs/command-line.md with the declarations of the commands.
func TestPage(t *testing.T) {
	const path = "../../docs/command-line.md"
	page := commandLine(newRoot(&cli.Env{}))
	if *update {
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page) {
		t.Error("docs/command-line.md is stale: go test ./cmd/embedd -run TestPage -update")
	}
}

// commandLine returns the page: a section for each command, in the order of the help text.
func commandLine(root *cobra.Command) []byte {
	var page bytes.Buffer
	fmt.Fprint(&page, "# The command line\n\n"+
		"Written from the declarations of the flags by `go test ./cmd/embedd -run TestPage -update`.\n\n"+
		"Flags may come before or after arguments, and what follows `--` is an argument. `-` is standard input or output. "+
		"Reports go to\n"+
		"stdout, progress and logs to stderr. `embedd completion SHELL` prints completions for bash, zsh or fish;\n"+
		"`embedd man DIR` writes manual pages.\n")
	everyCommand(root, func(cmd *cobra.Command) {
		about := cmd.Long
		if about == "" {
			about = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
		}
		fmt.Fprintf(&page, "\n## %s\n\n", cmd.CommandPath())
		fmt.Fprintf(&page, "%s\n\n```\n%s\n\n%s```\n", about, cmd.UseLine(), cmd.LocalFlags().FlagUsages())
		if cmd.HasExample() {
			fmt.Fprintf(&page, "\n```sh\n%s\n```\n", cmd.Example)
		}
	})
	return page.Bytes()
}
