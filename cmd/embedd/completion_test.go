package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The installed shells read the scripts.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, script, stderr := call(t.Context(), "completion", shell)
		if code != 0 || stderr != "" || !strings.Contains(script, "__complete") {
			t.Errorf("completion %s: exit %d, %d bytes, %s", shell, code, len(script), stderr)
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		check := exec.Command(shell, "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, out)
		}
	}
}

// The request that the scripts send when TAB is pressed.
func TestCompletions(t *testing.T) {
	for _, c := range []struct {
		line string // its last word is being typed; - is an empty one
		want []string
		file bool // the shell completes names of files
	}{
		{"pub", []string{"publish"}, false},
		{"model -", []string{"ls", "show", "diff", "pin", "unpin", "rollback", "reset", "export"}, false},
		{"help model -", []string{"ls", "show", "diff", "pin", "unpin", "rollback", "reset", "export"}, false},
		{"completion -", []string{"bash", "fish", "zsh"}, false},
		{"fit --method ltsi", []string{"ltsimr"}, false},
		{"methods pair", []string{"pairacc"}, false},
		{"fit --scale -", []string{"auto", "standard", "minmax", "unit", "none", "rank"}, false},
		{"eval --format -", []string{"text", "json"}, false},
		{"tail --subject -", nil, false},
		{"fit --data -", nil, true},
		{"check -c -", nil, true},
		{"model show -", nil, true},
	} {
		words := strings.Fields(c.line)
		if last := len(words) - 1; words[last] == "-" {
			words[last] = ""
		}
		code, stdout, stderr := call(t.Context(), append([]string{cobra.ShellCompNoDescRequestCmd}, words...)...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		directive, got := lines[len(lines)-1], lines[:len(lines)-1]
		typed := words[len(words)-1]
		// as the scripts do
		got = slices.DeleteFunc(got, func(word string) bool { return !strings.HasPrefix(word, typed) })
		if code != 0 || !slices.Equal(got, c.want) || (directive == ":0") != c.file {
			t.Errorf("%s: exit %d, %q, %s\n%s", c.line, code, got, directive, stderr)
		}
	}
}
