// Command embedd learns a supervised projection from a stream of labelled Arrow record batches and applies it to the stream.
//
// Each verb is one file in this directory. Exit codes: 0 done (for run: drained after a signal), 1 failed, 2 wrong usage or
// configuration, 3 a check did not hold, 128+n ended by signal n.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// verb is one word of the command line. Run reads its flags from args (see newFlags), reports on env.stdout and
// logs on env.stderr. It returns nil when the work is done; when ctx is cancelled it stops and returns ctx.Err(),
// except run, for which a drained stop is success.
type verb struct {
	name, summary, usage string
	run                  func(ctx context.Context, e *env, args []string) error
}

// env is what a verb sees of the process. Tests give buffers.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	verb           *verb // the verb that is running: its flags and help are printed under its name
}

// verbs lists what there is, in the order of the help text. One line a verb.
func verbs() []verb {
	return []verb{
		{"demo", "show it: real digits through an embedded server, a table and a picture", "demo [-o embedd-demo.png] [-v]", runDemo},
		{"run", "the daemon: learn from streams and reduce them until a signal", "run [-c embedd.yaml] [--server URL]", runRun},
		{"publish", "send a file as Arrow batches", "publish --data FILE --subject SUBJECT [--label COLUMN] [--batch 256] [--rate 1000] [--loop]", runPublish},
		{"tail", "show what flows on a subject", "tail --subject SUBJECT [--limit N] [--all]", runTail},
		{"setup", "show the streams that a configuration needs, or make them", "setup [-c embedd.yaml] [--apply]", runSetup},
		{"init", "write a starter configuration", "init [-o embedd.yaml] [--force]", runInit},
		{"check", "check a configuration, with line and column", "check [-c embedd.yaml]", runCheck},
		{"fit", "learn a projection from a file of labelled rows", "fit --data FILE --method NAME -o FILE [--label COLUMN] [--dim D|auto] [--set NAME=VALUE]... [--scale S] [--features GLOB]...", runFit},
		{"transform", "apply a model to a file or a stream of rows", "transform --model FILE --data FILE|- -o FILE|- [--keep COLUMNS] [--column NAME] [--columns] [--nulls POLICY]", runTransform},
		{"eval", "compare methods by nearest neighbours over splits of a file", "eval --data FILE --label COLUMN [--methods A,B|all] [--dims 2,5,10] [--splits 10] [--scale S] [--set METHOD.NAME=VALUE]...", runEval},
		{"methods", "the methods, their parameters and papers", "methods [NAME]...", runMethods},
		{"plot", "a picture of a file in two dimensions", "plot --data FILE -o FILE.png|.svg (--method NAME | --model FILE) [--label COLUMN]", runPlot},
		{"model", "what is in a model, and its export; a file, or a version or pipeline in the store", "model show NAME | model export NAME [-o FILE.embedd|.json|.npz|.csv]", runModel},
		{"version", "print the version of embedd", "version", runVersion},
		{"help", "print this text, or the flags of a verb", "help [VERB]", runHelp},
	}
}

func main() {
	e := &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals) // a second signal ends the process at once
		cancel(signalError{s})
	}()
	os.Exit(dispatch(ctx, e, os.Args[1:]))
}

// dispatch runs the verb that args name, prints its error and returns the exit code.
func dispatch(ctx context.Context, e *env, args []string) int {
	err := run(ctx, e, args)
	code := exitCode(ctx, err)
	switch problems := (config.Problems)(nil); {
	case code > 128:
		fmt.Fprintf(e.stderr, "embedd: %v\n", context.Cause(ctx))
	case errors.As(err, &problems):
		fmt.Fprintln(e.stderr, problems) // FILE:LINE:COLUMN first, where editors look for it
	case err != nil:
		fmt.Fprintf(e.stderr, "embedd: %v\n", err)
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	var (
		ended signalError
		usage usageError
		check checkError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(context.Cause(ctx), &ended) && errors.Is(err, context.Canceled):
		if n, ok := ended.Signal.(syscall.Signal); ok {
			return 128 + int(n)
		}
		return 1
	case errors.As(err, &usage):
		return 2
	case errors.As(err, &check):
		return 3
	}
	return 1
}

func run(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		printVerbs(e.stderr)
		return usagef("no verb given: start with `embedd demo`")
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-v", "-version", "--version":
		name = "version"
	}
	v, err := lookupVerb(name)
	if err != nil {
		return err
	}
	e.verb = v
	err = v.run(ctx, e, args[1:])
	if errors.Is(err, errHelp) {
		return nil
	}
	return err
}

func lookupVerb(name string) (*verb, error) {
	var names []string
	for _, v := range verbs() {
		if v.name == name {
			return &v, nil
		}
		names = append(names, v.name)
	}
	return nil, usagef("unknown verb %q%s: `embedd help` lists the verbs", name, didYouMean(name, names))
}

func runHelp(_ context.Context, e *env, args []string) error {
	if len(args) == 0 {
		printVerbs(e.stdout)
		return nil
	}
	v, err := lookupVerb(args[0])
	if err != nil {
		return err
	}
	if v.name == "help" {
		printVerbs(e.stdout)
		return nil
	}
	// Each verb declares its flags where it reads them, so its help is what it prints for -h.
	e.verb = v
	return v.run(context.Background(), e, []string{"-h"})
}

func printVerbs(w io.Writer) {
	fmt.Fprint(w, "embedd learns a low-dimensional projection from a stream of labelled rows and applies it to the stream.\n\n"+
		"usage: embedd VERB [flags]\n\n")
	t := newTable(w)
	for _, v := range verbs() {
		t.row("  "+v.name, v.summary)
	}
	t.flush()
	fmt.Fprint(w, "\n`embedd help VERB` prints the flags of a verb.\n"+
		"exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 a check did not hold, 128+n ended by signal n\n")
}

// usageError ends the process with code 2: the command line or the configuration is wrong.
type usageError struct{ err error }

func (u usageError) Error() string { return u.err.Error() }
func (u usageError) Unwrap() error { return u.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// checkError ends the process with code 3: the command worked, and what it was asked to check does not hold.
type checkError struct{ err error }

func (c checkError) Error() string { return c.err.Error() }
func (c checkError) Unwrap() error { return c.err }

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ os.Signal }

func (s signalError) Error() string { return "stopped by " + s.Signal.String() }
