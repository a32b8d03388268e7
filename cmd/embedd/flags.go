package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// errHelp is returned by flags.parse after -h: the help is printed, and there is nothing left to do.
var errHelp = errors.New("help was asked for")

// flags are the flags of one verb: a standard flag set that takes flags before and after arguments.
type flags struct {
	*flag.FlagSet
	env *env
}

func newFlags(e *env) *flags {
	f := &flags{flag.NewFlagSet(e.verb.name, flag.ContinueOnError), e}
	f.SetOutput(io.Discard) // errors and help are printed here, in one form for all verbs
	return f
}

// parse reads the flags and returns the arguments. It refuses fewer than low and more than high arguments; high < 0 is
// any number. Everything after "--" is an argument.
func (f *flags) parse(args []string, low, high int) ([]string, error) {
	var rest []string
	for {
		if err := f.FlagSet.Parse(args); err != nil {
			return nil, f.explain(err)
		}
		left := f.FlagSet.Args()
		if len(left) == 0 {
			break
		}
		if read := len(args) - len(left); read > 0 && args[read-1] == "--" {
			rest = append(rest, left...)
			break
		}
		rest = append(rest, left[0])
		args = left[1:]
	}
	switch {
	case high >= 0 && len(rest) > high:
		return nil, usagef("%s: argument %q is not expected: usage: embedd %s", f.Name(), rest[high], f.env.verb.usage)
	case len(rest) < low:
		return nil, usagef("%s: an argument is missing: usage: embedd %s", f.Name(), f.env.verb.usage)
	}
	return rest, nil
}

func (f *flags) explain(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		f.help(f.env.stdout)
		return errHelp
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		var names []string
		f.VisitAll(func(d *flag.Flag) { names = append(names, d.Name) })
		return usagef("%s: unknown flag %s%s: `embedd help %s` lists the flags", f.Name(), dashed(name), didYouMean(name, names), f.Name())
	}
	return usagef("%s: %v: `embedd help %s` lists the flags", f.Name(), err, f.Name())
}

// need is a usage error unless every named flag was given.
func (f *flags) need(names ...string) error {
	for _, name := range names {
		if !f.given(name) {
			return usagef("%s: %s is required: usage: embedd %s", f.Name(), dashed(name), f.env.verb.usage)
		}
	}
	return nil
}

// given says whether the flag stood on the command line.
func (f *flags) given(name string) bool {
	found := false
	f.Visit(func(d *flag.Flag) { found = found || d.Name == name })
	return found
}

// list declares a flag that may be repeated; each use adds one element.
func (f *flags) list(name, usage string) *[]string {
	var values []string
	f.Func(name, usage, func(s string) error {
		values = append(values, s)
		return nil
	})
	return &values
}

// commas declares a flag whose values are separated by commas; it may be repeated too.
func (f *flags) commas(name, usage string) *[]string {
	var values []string
	f.Func(name, usage, func(s string) error {
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part == "" {
				return errors.New("an element of the list is empty")
			}
			values = append(values, part)
		}
		return nil
	})
	return &values
}

// settings declares a repeatable KEY=VALUE flag.
func (f *flags) settings(name, usage string) map[string]string {
	values := map[string]string{}
	f.Func(name, usage, func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return errors.New("want KEY=VALUE")
		}
		if _, twice := values[key]; twice {
			return fmt.Errorf("%s is set twice", key)
		}
		values[key] = value
		return nil
	})
	return values
}

// choice declares a flag that takes one of a few words; the first is the default.
func (f *flags) choice(name, usage string, words ...string) *string {
	value := words[0]
	f.Func(name, fmt.Sprintf("%s: %s (default %s)", usage, strings.Join(words, ", "), words[0]), func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		value = s
		return nil
	})
	return &value
}

// help prints the verb's summary, usage and flags.
func (f *flags) help(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nusage: embedd %s\n", f.env.verb.summary, f.env.verb.usage)
	t := newTable(w)
	first := true
	f.VisitAll(func(d *flag.Flag) {
		if first {
			fmt.Fprint(w, "\nflags:\n")
			first = false
		}
		value, usage := flag.UnquoteUsage(d)
		left := "  " + dashed(d.Name)
		if value != "" {
			left += " " + strings.ToUpper(value)
		}
		if d.DefValue != "" && d.DefValue != "0" && d.DefValue != "false" {
			usage += fmt.Sprintf(" (default %s)", d.DefValue)
		}
		t.row(left, usage)
	})
	t.flush()
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// didYouMean is ` (did you mean "near"?)` when one of the names is close to the one given, else empty.
func didYouMean(given string, names []string) string {
	near := config.Nearest(given, names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}
