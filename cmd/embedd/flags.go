package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// flags declares the flags of one command: those of pflag, and the kinds that the verbs share.
type flags struct {
	*pflag.FlagSet
	command *cobra.Command
}

func flagsOf(cmd *cobra.Command) *flags {
	f := &flags{cmd.Flags(), cmd}
	f.SortFlags = false // help shows them as they are declared
	return f
}

// require says that the command cannot do without the flags, and puts them on its usage line.
func (f *flags) require(names ...string) {
	for _, name := range names {
		d := f.Lookup(name)
		value, _ := pflag.UnquoteUsage(d)
		f.command.Use += " " + dashed(shortest(d)) + " " + value
		f.SetAnnotation(name, cobra.BashCompOneRequiredFlag, []string{"true"})
	}
}

// needed is a usage error unless every required flag was given.
func needed(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().VisitAll(func(d *pflag.Flag) {
		if _, required := d.Annotations[cobra.BashCompOneRequiredFlag]; required && !d.Changed && err == nil {
			err = usagef("%s%s is required: usage: %s", prefix(cmd), dashed(shortest(d)), cmd.UseLine())
		}
	})
	return err
}

// arguments refuses fewer than low and more than high arguments; high < 0 is any number.
func arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case high >= 0 && len(args) > high:
			return usagef("%sargument %q is not expected: usage: %s", prefix(cmd), args[high], cmd.UseLine())
		case len(args) < low:
			return usagef("%san argument is missing: usage: %s", prefix(cmd), cmd.UseLine())
		}
		return nil
	}
}

// commas declares a flag whose values are separated by commas; it may be repeated too.
func (f *flags) commas(name, usage string) *[]string {
	var values []string
	f.commasVar(&values, name, usage)
	return &values
}

// commasVar is commas into a variable.
func (f *flags) commasVar(values *[]string, name, usage string) {
	f.Func(name, usage, func(s string) error {
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part == "" {
				return errors.New("an element of the list is empty")
			}
			*values = append(*values, part)
		}
		return nil
	})
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
	f.offer(name, words...)
	return &value
}

// offer tells the shell which words complete a flag.
func (f *flags) offer(name string, words ...string) {
	f.command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// explain turns what pflag says of a command line into a usage error.
func explain(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	text := err.Error()
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			name, _, _ = strings.Cut(letters, "=") // one dash, and no flag of one letter
		}
		var names []string
		cmd.Flags().VisitAll(func(d *pflag.Flag) { names = append(names, d.Name) })
		text = "unknown flag " + dashed(name) + didYouMean(name, names)
	case errors.As(err, &missing):
		text = "flag needs an argument: -" + shortest(missing.GetFlag())
	case errors.As(err, &invalid):
		d, form := invalid.GetFlag(), "invalid value %q for flag -%s: %v"
		if d.Value.Type() == "bool" {
			form = "invalid boolean value %q for -%s: %v"
		}
		text = fmt.Sprintf(form, invalid.GetValue(), shortest(d), cause(invalid))
	}
	return usagef("%s%s: `%s` lists the flags", prefix(cmd), text, helpOf(cmd))
}

// cause is what is wrong with a value, without the names of Go's functions.
func cause(err *pflag.InvalidValueError) error {
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return errors.New("parse error")
	case errors.Is(err, strconv.ErrRange):
		return errors.New("value out of range")
	}
	return err.Unwrap()
}

// dashes writes -data as --data and --o as -o. Both were right before the command line had letters that combine.
func dashes(known *pflag.FlagSet, args []string) []string {
	out := append([]string{}, args...) // never nil, for which cobra takes those of the process
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		text, ok := strings.CutPrefix(args[i], "-")
		if !ok {
			continue
		}
		text = strings.TrimPrefix(text, "-")
		name, _, assigned := strings.Cut(text, "=")
		d := known.Lookup(name)
		if len(name) == 1 {
			d = known.ShorthandLookup(name)
		}
		if d == nil {
			continue
		}
		out[i] = dashed(name) + text[len(name):]
		if d.NoOptDefVal == "" && !assigned {
			i++ // its value, which may begin with a dash
		}
	}
	return out
}

// shortest is the name that a message gives a flag.
func shortest(d *pflag.Flag) string {
	if d.Shorthand != "" {
		return d.Shorthand
	}
	return d.Name
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
