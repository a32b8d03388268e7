package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// typed runs a command line against a verb v with the given flags, and returns its arguments.
func typed(t *testing.T, line string, args cobra.PositionalArgs, declare func(*cli.Flags)) (got []string, err error) {
	root := &cobra.Command{Use: "embedd", SilenceErrors: true, SilenceUsage: true, PersistentPreRunE: cli.CheckRequired}
	root.SetFlagErrorFunc(cli.ExplainFlagError)
	v := &cobra.Command{Use: "v", Args: args, RunE: func(_ *cobra.Command, args []string) error {
		got = args
		return nil
	}}
	declare(cli.FlagsOf(v))
	root.AddCommand(v)
	err = run(t.Context(), root, append([]string{"v"}, strings.Fields(line)...))
	return got, err
}

func TestFlagsAnywhere(t *testing.T) {
	for _, c := range []struct {
		line string
		args []string
		dim  int
		loop bool
		path string
	}{
		{"", nil, 0, false, ""},
		{"a", []string{"a"}, 0, false, ""},
		{"--dim 3 a b", []string{"a", "b"}, 3, false, ""},
		{"a --dim 3 b", []string{"a", "b"}, 3, false, ""},
		{"a b -dim=3", []string{"a", "b"}, 3, false, ""},
		{"-dim 3 -loop a", []string{"a"}, 3, true, ""},
		{"a --loop b", []string{"a", "b"}, 0, true, ""},
		{"--loop=false - --dim 3", []string{"-"}, 3, false, ""},
		{"-o - a", []string{"a"}, 0, false, "-"},
		{"--o x -loop", nil, 0, true, "x"},
		{"-o=x a", []string{"a"}, 0, false, "x"},
		{"-ox a", []string{"a"}, 0, false, "x"},
		{"--output x", nil, 0, false, "x"},
		{"-o -dim a", []string{"a"}, 0, false, "-dim"}, // a value, not a flag
		{"a -- --dim 3", []string{"a", "--dim", "3"}, 0, false, ""},
		{"a -- -dim", []string{"a", "-dim"}, 0, false, ""},
		{"-- -- a", []string{"--", "a"}, 0, false, ""},
	} {
		var dim *int
		var loop *bool
		var path *string
		args, err := typed(t, c.line, cli.Arguments(0, -1), func(f *cli.Flags) {
			dim, loop, path = f.Int("dim", 0, ""), f.Bool("loop", false, ""), f.StringP("output", "o", "", "")
		})
		if err != nil || !slices.Equal(args, c.args) || *dim != c.dim || *loop != c.loop || *path != c.path {
			t.Errorf("%q: %q, dim %d, loop %v, output %q, %v", c.line, args, *dim, *loop, *path, err)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct {
		line      string
		low, high int
		want      string
	}{
		{"--dmi 3", 0, 0, "v: unknown flag --dmi (did you mean \"--dim\"?): `embedd help v` lists the flags"},
		{"-dmi=3", 0, 0, "v: unknown flag --dmi (did you mean \"--dim\"?): `embedd help v` lists the flags"},
		{"-x", 0, 0, "v: unknown flag -x: `embedd help v` lists the flags"},
		{"--dim x", 0, 0, "v: --dim \"x\": want a whole number: `embedd help v` lists the flags"},
		{"--dim 99999999999999999999", 0, 0,
			"v: --dim \"99999999999999999999\": out of range; want a whole number: `embedd help v` lists the flags"},
		{"--loop=x", 0, 0, "v: --loop \"x\": want true or false: `embedd help v` lists the flags"},
		{"--dim", 0, 0, "v: --dim needs a value after it: `embedd help v` lists the flags"},
		{"-o", 0, 0, "v: -o needs a value after it: `embedd help v` lists the flags"},
		{"--data x", 0, 0, "v: -o is required: usage: embedd v --data FILE -o FILE [flags]"},
		{"-o x", 0, 0, "v: --data is required: usage: embedd v --data FILE -o FILE [flags]"},
		{"a b", 0, 1, `v: argument "b" is not expected: name a file of rows with --data b`},
		{"a --dim 1", 2, -1, "v: an argument is missing: usage: embedd v --data FILE -o FILE [flags]"},
		{"--set a", 0, 0, "v: --set \"a\": want NAME=VALUE: `embedd help v` lists the flags"},
		{"--set a=1 --set a=2", 0, 0, "v: --set \"a=2\": a is set twice: `embedd help v` lists the " +
			"flags"},
		{"--dims 1,,2", 0, 0, "v: --dims \"1,,2\": an element of the list is empty: `embedd help " +
			"v` lists the flags"},
		{"--scale big", 0, 0, "v: --scale \"big\": want one of standard, none: `embedd help v` " +
			"lists the flags"},
	} {
		_, err := typed(t, c.line, cli.Arguments(c.low, c.high), func(f *cli.Flags) {
			f.String("data", "", "`FILE` to read")
			f.StringP("output", "o", "", "`FILE` to write")
			f.Require("data", "output")
			f.Int("dim", 0, "")
			f.Bool("loop", false, "")
			f.Settings("set", "")
			f.Commas("dims", "")
			f.Choice("scale", "scaling", "standard", "none")
		})
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.line, err, c.want)
		}
		if exit, ok := err.(cli.ExitError); !ok || exit.Code != 2 {
			t.Errorf("%q: %T is not a usage error", c.line, err)
		}
	}
}

func TestRepeatedFlags(t *testing.T) {
	var dims *[]string
	var set map[string]string
	var scale *string
	_, err := typed(t, "--dims 1,2 --dims 3 --set k=v=w --set ridge= --scale none", cli.Arguments(0, 0),
		func(f *cli.Flags) {
			dims, set, scale = f.Commas("dims", ""), f.Settings("set", ""), f.Choice("scale", "", "standard", "none")
		})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*dims, []string{"1", "2", "3"}) || !maps.Equal(set, map[string]string{"k": "v=w", "ridge": ""}) ||
		*scale != "none" {
		t.Errorf("%q %q %q", *dims, set, *scale)
	}
}
