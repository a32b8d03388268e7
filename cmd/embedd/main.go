// Command embedd learns a supervised projection from a stream of labelled Arrow record batches and applies it to the
// stream. Each verb is a function that declares the flags and does the work. When its context is
// cancelled a verb returns ctx.Err(), except run, which drains and returns nil.
//
// Exit codes: 0 done (for run: drained after a signal), 1 failed, 2 wrong usage or configuration, 3 a check did not
// hold, 128+n ended by signal n.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
)

func main() {
	e := &cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	switch {
	case len(os.Args) > 1 && os.Args[1] == "run": // from the start on, so that none ends the daemon
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		e.Hangups = hangups
	case !signal.Ignored(syscall.SIGHUP): // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		s := <-signals
		signal.Stop(signals) // a second signal ends the process immediately
		cancel(signalError{s})
	}()
	os.Exit(dispatch(ctx, e, os.Args[1:]))
}

// dispatch runs the verb that args name, prints its error and returns the exit code.
func dispatch(ctx context.Context, e *cli.Env, args []string) int {
	defer e.End()
	err := run(ctx, newRoot(e), args)
	err = e.Explain(err)
	code := exitCode(ctx, err)
	switch problems := (config.Problems)(nil); {
	case code > 128:
		e.Infof("%v", context.Cause(ctx))
	case errors.As(err, &problems):
		e.Print(problems.Error() + "\n") // FILE:LINE:COLUMN first, as editors expect
	case err != nil:
		e.Infof("%v", err)
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	ended, isSignal := context.Cause(ctx).(signalError)
	exit, hasCode := errors.AsType[cli.ExitError](err)
	switch {
	case err == nil:
		return 0
	case isSignal && errors.Is(err, context.Canceled):
		return 128 + int(ended.Signal.(syscall.Signal)) // Go has no others here
	case hasCode:
		return exit.Code
	}
	return 1
}

func run(ctx context.Context, root *cobra.Command, args []string) error {
	if !completing(args) { // cobra completes the line
		cmd, err := find(root, args)
		if err != nil {
			return err
		}
		args = cli.NormalizeFlags(cmd.Flags(), args)
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// completing reports whether the shell requests completions.
func completing(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ os.Signal }

func (s signalError) Error() string { return "stopped by " + s.Signal.String() }
