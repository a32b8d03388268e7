package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream/admin"
)

// replayedLetter is one line of `embedd dlq replay --format json`.
type replayedLetter struct {
	Stream string `json:"stream"`
	Number uint64 `json:"number"`
	Code   string `json:"code"`
	Source string `json:"source,omitempty"`
	To     string `json:"to"`
	Bytes  int    `json:"bytes"`
	As     string `json:"as,omitempty"`    // STREAM:NUMBER of the new message
	Again  bool   `json:"again,omitempty"` // it was replayed before, and the stream took no second message
	Kept   bool   `json:"kept"`            // it is still among the dead letters
	DryRun bool   `json:"dry_run,omitempty"`
	Error  string `json:"error,omitempty"` // why it was not replayed
}

func dlqReplayCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay [PIPELINE|NUMBER...]",
		Short: "publish the messages of dead letters again, and delete the dead letters",
		Long: "Publish the messages of dead letters again: the original bytes and headers, to the original subject, under " +
			"a new identity.\n" +
			"A replayed dead letter is deleted from its stream, so that it is replayed once; a message that is still bad " +
			"becomes a new\n" +
			"one. Without arguments and flags all that exist at the start are replayed: --dry-run lists them.",
		Example: "embedd dlq replay --dry-run --code non_finite --since 2h digits\n" +
			"embedd dlq replay --code non_finite --since 2h digits\n" +
			"embedd dlq replay 17 23",
		Args: cli.Arguments(0, -1),
	}
	f := cli.FlagsOf(cmd)
	which := letterFlagsOf(f, true)
	to := f.String("to", "", "publish to this `SUBJECT` instead of the original one")
	keep := f.Bool("keep", false, "do not delete the dead letters; a second replay within the stream's duplicate "+
		"window is dropped, a later one is not")
	dry := f.Bool("dry-run", false, "list what would be replayed, and do nothing")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		pipeline, numbers, err := chosen(args)
		if err != nil {
			return err
		}
		if len(numbers) > 0 && which.hasFilters() {
			return cli.Usagef("dlq replay: numbers select the dead letters; omit --code, --since and --until")
		}
		js, done, err := which.open(ctx, e)
		if err != nil {
			return err
		}
		defer done()
		r := &replay{js: js, to: *to, keep: *keep, dry: *dry, out: out}
		letters := which.of(pipeline, true)
		for _, number := range numbers {
			l, err := letters.Find(ctx, js, number)
			if err != nil {
				return err
			}
			if err := r.one(ctx, l); err != nil {
				return err
			}
		}
		if numbers == nil {
			if err := letters.Read(ctx, js, func(l *admin.DeadLetter) error { return r.one(ctx, l) }); err != nil {
				return err
			}
		}
		return r.end()
	}
	return cmd
}

// chosen separates sequence numbers from the name of a pipeline.
func chosen(args []string) (pipeline string, numbers []uint64, err error) {
	if len(args) == 1 && strings.Trim(args[0], "0123456789") != "" {
		return args[0], nil, nil
	}
	for _, arg := range args {
		n, err := letterNumber(arg)
		if err != nil {
			return "", nil, err
		}
		numbers = append(numbers, n)
	}
	return "", numbers, nil
}

// replay replays dead letters one after another, and reports each.
type replay struct {
	js           jetstream.JetStream
	to           string
	keep, dry    bool
	out          *report.Output
	done, failed int
}

func (r *replay) one(ctx context.Context, l *admin.DeadLetter) error {
	one := replayedLetter{Stream: l.Stream, Number: l.Number, Code: l.Header.Get(wire.HeaderCode),
		Source: l.Header.Get(wire.HeaderSource), To: cmp.Or(r.to, l.Header.Get(wire.HeaderSubject)), Bytes: l.Bytes,
		Kept: true, DryRun: r.dry}
	what := "would be replayed"
	var failed error // of the removal, which would fail for each
	if !r.dry {
		ctx, cancel := context.WithTimeout(ctx, client.Timeout)
		defer cancel()
		sent, err := l.Replay(ctx, r.js, r.to)
		one.As, one.Again = sent.As, sent.Duplicate
		switch {
		case err != nil:
			one.Error = err.Error()
			what = "not replayed: " + one.Error
		case sent.Duplicate:
			what = "was replayed before, as " + sent.As
		default:
			what = strings.TrimSuffix("replayed as "+sent.As, " as ")
		}
		if err == nil && !r.keep {
			if failed = l.Remove(ctx, r.js); failed != nil {
				one.Error = fmt.Sprintf("it was not deleted, and would be replayed again: %v", failed)
				what += ", but " + one.Error
			}
			one.Kept = failed != nil
		}
	}
	if one.Error == "" {
		r.done++
	} else {
		r.failed++
	}
	if r.out.JSON {
		if err := r.out.Object(one); err != nil {
			return err
		}
	}
	r.out.Printf("%s:%d  %s  %s, %d bytes to %s: %s\n", one.Stream, one.Number, one.Code, report.OrDash(one.Source),
		one.Bytes, one.To, what)
	if failed != nil {
		return fmt.Errorf("%w; --keep does not delete dead letters", failed)
	}
	return nil
}

func (r *replay) end() error {
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d dead letters were replayed and %d could not be", r.done, r.failed)
	case r.dry:
		r.out.Printf("%d dead letters would be replayed\n", r.done)
	default:
		r.out.Printf("%d dead letters were replayed\n", r.done)
	}
	return nil
}
