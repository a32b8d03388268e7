// Package cli is what every verb shares with the process that runs it: the standard streams, the errors that choose the
// exit code, and the kinds of flags.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/internal/spell"
)

// Env is the process as a verb uses it. Tests pass buffers.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Clock          func() time.Time // nil: the system's clock
	Verb           string           // the verb that runs, such as "model pin"; set before it starts
	Hangups        <-chan os.Signal // SIGHUPs, at which run reads its configuration again; nil for other verbs

	explain []func(error) error
	ends    []func()
}

// OnError registers a function that may add context to the error with which the verb fails, such as what a connection
// knows about a permission that was denied.
func (e *Env) OnError(explain func(error) error) { e.explain = append(e.explain, explain) }

// Explain passes an error through all functions that OnError registered.
func (e *Env) Explain(err error) error {
	for _, explain := range e.explain {
		err = explain(err)
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(p, fs.ErrPermission) {
		err = fmt.Errorf("%w: let this user in (chmod, chown), or name another file", err)
	}
	return err
}

// OnEnd registers a function that is called after the verb, such as the one that closes its connection.
func (e *Env) OnEnd(end func()) { e.ends = append(e.ends, end) }

// End calls all functions that OnEnd registered, the last one first.
func (e *Env) End() {
	for _, end := range slices.Backward(e.ends) {
		end()
	}
}

// Print prints a text on stderr.
func (e *Env) Print(text string) { io.WriteString(e.Stderr, Printable(text)) }

// Infof prints a line on stderr.
func (e *Env) Infof(format string, args ...any) {
	e.Print(fmt.Sprintf("embedd: "+format+"\n", args...))
}

// Notef prints a note on stderr, in one line: names of columns may have line breaks.
func (e *Env) Notef(format string, args ...any) {
	e.Infof("note: %s", escapeBreaks(fmt.Sprintf(format, args...)))
}

// NoteIf prints a note if there is something to note.
func (e *Env) NoteIf(noted bool, format string, args ...any) {
	if noted {
		e.Notef(format, args...)
	}
}

// IsTerminal reports whether a standard stream is a terminal.
func IsTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ExitError is an error that sets the exit code of the process.
type ExitError struct {
	Code int
	error
}

func (e ExitError) Unwrap() error { return e.error }

// Usagef returns the error of a wrong command line or configuration: code 2.
func Usagef(format string, args ...any) error { return ExitError{2, fmt.Errorf(format, args...)} }

// Checkf returns the error of a command that worked, if what it checked does not hold: code 3.
func Checkf(format string, args ...any) error { return ExitError{3, fmt.Errorf(format, args...)} }

// DidYouMean suggests one of the names if it is close to the given one.
func DidYouMean(given string, names []string) string { return spell.Suggest(given, names) }

// Listed joins names with commas, in one line; of more than twelve it counts the rest.
func Listed(names []string) string {
	listed := escapeBreaks(strings.Join(names[:min(12, len(names))], ", "))
	if len(names) > 12 {
		return fmt.Sprintf("%s and %d more", listed, len(names)-12)
	}
	return listed
}

// Sleep waits for d, or until ctx is cancelled.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Flags declares the flags of one command: those of pflag, and the kinds that verbs share.
type Flags struct {
	*pflag.FlagSet
	command *cobra.Command
}

// FlagsOf returns the flags of a command. Help lists them in the order of their declaration.
func FlagsOf(cmd *cobra.Command) *Flags {
	f := &Flags{cmd.Flags(), cmd}
	f.SortFlags = false
	return f
}

// Require marks flags as required and adds them to the usage line.
func (f *Flags) Require(names ...string) {
	for _, name := range names {
		d := f.Lookup(name)
		value, _ := pflag.UnquoteUsage(d)
		f.command.Use += " " + dashed(shortest(d)) + " " + value
		f.SetAnnotation(name, cobra.BashCompOneRequiredFlag, []string{"true"})
	}
}

// CheckRequired returns a usage error if a required flag is missing.
func CheckRequired(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().VisitAll(func(d *pflag.Flag) {
		if _, required := d.Annotations[cobra.BashCompOneRequiredFlag]; required && !d.Changed && err == nil {
			err = Usagef("%s%s is required: usage: %s", ErrorPrefix(cmd), dashed(shortest(d)), cmd.UseLine())
		}
	})
	return err
}

// CheckOutput returns a usage error if the file of --output is one that the command reads: a flag with a FILE, an
// argument, or standard input, also through a link. Standard output may be such a file too.
func CheckOutput(e *Env, cmd *cobra.Command, args []string) (err error) {
	output := cmd.Flags().Lookup("output")
	if output == nil || !output.Changed && output.DefValue == "" {
		return nil
	}
	path := output.Value.String()
	out, statErr := os.Stat(path)
	switch {
	case path == "":
		return Usagef("%s-o is empty: name a file", ErrorPrefix(cmd))
	case statErr == nil && out.IsDir():
		return Usagef("%s-o %s is a directory: name a file in it", ErrorPrefix(cmd), path)
	case statErr != nil && path != "-": // before the work that would be lost
		if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return Usagef("%s-o %s: there is no directory %s: make it, or name another file", ErrorPrefix(cmd), path,
				filepath.Dir(path))
		}
		if _, err := durable.CheckWritable(filepath.Dir(path)); err != nil {
			return Usagef("%s-o %s cannot be created: %w: name a file in another directory", ErrorPrefix(cmd), path, err)
		}
	}
	if data := cmd.Flags().Lookup("data"); data != nil && path != "-" {
		in, inErr := os.Stat(data.Value.String())
		if directory, err := os.Stat(filepath.Dir(path)); err == nil && inErr == nil && os.SameFile(in, directory) {
			return Usagef("%s-o %s is in the directory that --data names, whose files are rows: name a file in another one",
				ErrorPrefix(cmd), path)
		}
	}
	if file, ok := e.Stdout.(*os.File); ok && path == "-" {
		out, statErr = file.Stat()
	}
	if statErr != nil || !out.Mode().IsRegular() {
		return nil // it does not exist, or nothing can be lost
	}
	refuse := func(name string, in os.FileInfo, statErr error) {
		if statErr == nil && os.SameFile(in, out) {
			err = Usagef("%s-o %s would overwrite the file that %s names: name another file", ErrorPrefix(cmd),
				output.Value, name)
		}
	}
	cmd.Flags().VisitAll(func(d *pflag.Flag) {
		if value, _ := pflag.UnquoteUsage(d); value == "FILE" && d != output {
			paths, _ := Expand(d.Value.String()) // the read reports an error
			for _, read := range paths {
				in, statErr := os.Stat(read)
				refuse(dashed(d.Name), in, statErr)
			}
		}
	})
	for _, arg := range args {
		in, statErr := os.Stat(arg)
		refuse(fmt.Sprintf("the argument %q", arg), in, statErr)
	}
	if file, ok := e.Stdin.(*os.File); ok {
		in, statErr := file.Stat()
		refuse("standard input", in, statErr)
	}
	return err
}

// Verb returns a command with between low and high arguments, and its flags; high < 0 is no limit.
func Verb(use, short string, low, high int) (*cobra.Command, *Flags) {
	cmd := &cobra.Command{Use: use, Short: short, Args: Arguments(low, high)}
	return cmd, FlagsOf(cmd)
}

// Group returns a command that does nothing itself and has verbs.
func Group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, _ []string) error {
		return Usagef("%sname a verb: usage: %s", ErrorPrefix(cmd), cmd.UseLine())
	}}
	cmd.AddCommand(verbs...)
	return cmd
}

// Arguments accepts between low and high arguments; high < 0 is no limit.
func Arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case high >= 0 && len(args) > high && cmd.Flags().Lookup("data") != nil && !cmd.Flags().Changed("data"):
			return Usagef("%sargument %q is not expected: name a file of rows with --data %s", ErrorPrefix(cmd), args[high],
				args[high])
		case high == 0 && len(args) > 1 && cmd.Flags().Lookup("data") != nil: // the shell expanded a pattern
			return Usagef("%sargument %q is not expected: quote a pattern of files, such as --data 'rows/*.csv'",
				ErrorPrefix(cmd), args[0])
		case high >= 0 && len(args) > high:
			return Usagef("%sargument %q is not expected: %s", ErrorPrefix(cmd), args[high], flagFor(cmd, args[high]))
		case len(args) < low:
			return Usagef("%san argument is missing: usage: %s", ErrorPrefix(cmd), cmd.UseLine())
		}
		return nil
	}
}

// flagFor returns the flag that names the file in an argument, or else the usage of the command.
func flagFor(cmd *cobra.Command, arg string) string {
	switch suffix := filepath.Ext(arg); {
	case suffix == ".embedd" && cmd.Flags().Lookup("model") != nil && !cmd.Flags().Changed("model"):
		return "name a model file with --model " + arg
	case (suffix == ".yaml" || suffix == ".yml") && cmd.Flags().Lookup("config") != nil:
		return "name a configuration with -c " + arg
	case cmd.Flags().Lookup("data") != nil:
		if _, err := os.Stat(arg); err == nil {
			return SeveralFiles
		}
	case cmd.Flags().Lookup("subject") != nil && strings.Contains(arg, "."):
		return "name a subject with --subject " + arg
	}
	return "usage: " + cmd.UseLine()
}

// SeveralFiles is the advice for more than one file of rows.
const SeveralFiles = "several files are a directory, or a quoted pattern such as --data 'rows/*.csv'"

// Data declares the flag of the rows that a verb reads. One that is given twice would replace the first.
func (f *Flags) Data(path *string, usage string) *string {
	f.Var((*once)(path), "data", usage)
	return path
}

type once string

func (v *once) String() string { return string(*v) }
func (*once) Type() string     { return "string" }

func (v *once) Set(s string) error {
	if *v != "" {
		return errors.New("it is given twice: " + SeveralFiles)
	}
	*v = once(s)
	return nil
}

// Commas declares a flag that takes values separated by commas and may be repeated.
func (f *Flags) Commas(name, usage string) *[]string {
	var values []string
	f.CommasVar(&values, name, usage)
	return &values
}

// CommasVar is Commas with the variable that receives the values.
func (f *Flags) CommasVar(values *[]string, name, usage string) {
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

// Settings declares a KEY=VALUE flag that may be repeated.
func (f *Flags) Settings(name, usage string) map[string]string {
	values := map[string]string{}
	f.Func(name, usage, func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return errors.New("want NAME=VALUE")
		}
		if _, twice := values[key]; twice {
			return fmt.Errorf("%s is set twice", key)
		}
		values[key] = value
		return nil
	})
	return values
}

// Choice declares a flag that takes one of the words; the first is the default.
func (f *Flags) Choice(name, usage string, words ...string) *string {
	value := words[0]
	f.Words(name, fmt.Sprintf("%s: %s (default %s)", usage, strings.Join(words, ", "), words[0]),
		func(word string) { value = word }, words...)
	return &value
}

// Words declares a flag that takes one of the words and passes it to set.
func (f *Flags) Words(name, usage string, set func(word string), words ...string) {
	f.Func(name, usage, func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		set(s)
		return nil
	})
	f.Offer(name, words...)
}

// exclusive is the annotation of a flag with those that it excludes.
const exclusive = "embedd_exclusive"

// Exclusive refuses a command line that has more than one of the flags.
func (f *Flags) Exclusive(names ...string) {
	for _, name := range names {
		d := f.Lookup(name)
		f.SetAnnotation(name, exclusive, append(d.Annotations[exclusive], names...))
	}
}

// CheckExclusive returns a usage error if two flags exclude each other.
func CheckExclusive(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(d *pflag.Flag) {
		for _, name := range d.Annotations[exclusive] {
			if other := cmd.Flags().Lookup(name); other != d && other.Changed && err == nil {
				err = Usagef("%s%s and %s exclude each other: leave one out", ErrorPrefix(cmd), dashed(shortest(d)),
					dashed(shortest(other)))
			}
		}
	})
	return err
}

// Offer registers the words with which the shell completes a flag.
func (f *Flags) Offer(name string, words ...string) {
	f.command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Complete registers a function that returns the words with which the shell completes a flag.
func (f *Flags) Complete(name string, words func(*cobra.Command) []string) {
	f.command.RegisterFlagCompletionFunc(name, CompleteArguments(words))
}

// CompleteArguments completes arguments with the words that a function returns.
func CompleteArguments(words func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words(cmd), cobra.ShellCompDirectiveNoFileComp
	}
}

// ExplainFlagError turns an error of pflag into a usage error with a suggestion.
func ExplainFlagError(cmd *cobra.Command, err error) error {
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
			name, _, _ = strings.Cut(letters, "=") // a long name after one dash, which pflag reads as letters
		}
		var names []string
		if name == "pipeline" && (strings.Contains(cmd.Use, "PIPELINE") || strings.Contains(cmd.Use, " NAME")) {
			return Usagef("%sunknown flag --pipeline: the pipeline is an argument: usage: %s", ErrorPrefix(cmd), cmd.UseLine())
		}
		cmd.Flags().VisitAll(func(d *pflag.Flag) { names = append(names, d.Name) })
		text = "unknown flag " + dashed(name)
		if near := spell.Nearest(name, names); near != "" { // the dashes of both would count as letters that agree
			text += fmt.Sprintf(" (did you mean %q?)", dashed(near))
		}
	case errors.As(err, &missing):
		text = dashed(shortest(missing.GetFlag())) + " needs a value after it"
	case errors.As(err, &invalid):
		d := invalid.GetFlag()
		text = fmt.Sprintf("%s %q: %v", dashed(shortest(d)), invalid.GetValue(), cause(invalid))
	}
	return Usagef("%s%s: `%s` lists the flags", ErrorPrefix(cmd), text, HelpCommand(cmd))
}

// cause is the reason that a value is invalid, without the names of Go's functions.
func cause(err *pflag.InvalidValueError) error {
	kind := err.GetFlag().Value.Type()
	want := map[string]string{"bool": "true or false", "int": "a whole number", "uint64": "a whole number from 0",
		"float64": "a number", "duration": "a duration such as 1h30m"}[kind]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("out of range; want %s", want)
	case want != "":
		return errors.New("want " + want)
	}
	return err.Unwrap()
}

// withoutValue is the annotation of a flag whose value may be left out. It is the value then.
const withoutValue = "embedd_without_value"

// Optional lets the value of a flag be left out; value is what it is then.
func (f *Flags) Optional(name, value string) {
	_ = f.SetAnnotation(name, withoutValue, []string{value}) // the flag exists
}

// NormalizeFlags writes -data as --data and --o as -o, which older versions accepted, and adds values that were left
// out.
func NormalizeFlags(known *pflag.FlagSet, args []string) []string {
	out := append([]string{}, args...) // never nil: cobra would read os.Args
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
		isLast := i+1 == len(args) || strings.HasPrefix(args[i+1], "-")
		switch value := d.Annotations[withoutValue]; {
		case assigned || d.NoOptDefVal != "":
		case value != nil && isLast:
			out[i] += "=" + value[0]
		default:
			i++ // skip its value, which may begin with a dash
		}
	}
	return out
}

// shortest is the name of a flag in messages.
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

// HelpCommand is the command line that prints the help of cmd.
func HelpCommand(cmd *cobra.Command) string {
	return strings.Replace(cmd.CommandPath(), "embedd", "embedd help", 1)
}

// ErrorPrefix names the command at the start of an error, such as "model show: ". It is empty for embedd itself.
func ErrorPrefix(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), "embedd ") + ": "
}
