package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream/dlq"
)

func dlqCommand(e *cli.Env) *cobra.Command {
	return cli.Group("dlq ls|show|replay", "list, show and replay dead letters: inputs that could not be answered",
		dlqLsCommand(e), dlqShowCommand(e), dlqReplayCommand(e))
}

// letterFlags select dead letters.
type letterFlags struct {
	server       *client.Server
	subject      *string
	codes        *[]string
	since, until time.Time
}

// letterFlagsOf declares the flags of a verb that reads dead letters; with many, those that filter them too.
func letterFlagsOf(f *cli.Flags, many bool) *letterFlags {
	l := &letterFlags{
		server: client.ServerFlags(f, ""),
		subject: f.String("subject", "",
			"`SUBJECT` of the dead letters, output.dead; wildcards as in NATS (default output.dead "+
				"of the configuration, else dead.PIPELINE or dead.>)"),
		codes: &[]string{},
	}
	if many {
		l.codes = f.Commas("code", "only dead letters with these `CODES`, as not_arrow,non_finite")
		timeVar := func(at *time.Time, name, usage string) {
			f.Func(name, usage, func(s string) (err error) {
				*at, err = parseTime(s)
				return err
			})
		}
		timeVar(&l.since, "since", "only dead letters since a `TIME`: RFC 3339, or a duration ago, as 1h30m")
		timeVar(&l.until, "until", "only dead letters until a `TIME`")
	}
	return l
}

// of returns the selection of the flags, for one pipeline unless its name is empty. The subject is that of --subject,
// else that of the configuration, else the default. It notes a pipeline that the configuration lacks: one that was
// removed may have dead letters.
func (l *letterFlags) of(e *cli.Env, pipeline string, bodies bool) (dlq.DeadLetters, error) {
	d := dlq.DeadLetters{Subject: *l.subject, Pipeline: pipeline, Codes: *l.codes, Since: l.since, Until: l.until,
		Bodies: bodies}
	if d.Subject != "" {
		return d, nil
	}
	d.Subject = "dead." + cmp.Or(pipeline, ">")
	c, err := l.server.OptionalConfig()
	if err != nil {
		return d, err
	}
	if there := c.Names(); pipeline != "" && len(there) > 0 && !slices.Contains(there, pipeline) {
		e.Notef("the configuration has no pipeline %q%s; it has %s", pipeline, cli.DidYouMean(pipeline, there),
			cli.Listed(there))
	}
	for _, p := range c.Pipelines {
		if p.Name == pipeline || pipeline == "" && len(c.Pipelines) == 1 {
			d.Subject = p.Output.Dead
		}
	}
	return d, nil
}

// hasFilters reports whether the flags exclude dead letters.
func (l *letterFlags) hasFilters() bool {
	return len(*l.codes) > 0 || !l.since.IsZero() || !l.until.IsZero()
}

// parseTime parses a time, or a duration before now.
func parseTime(s string) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, fmt.Errorf("want a time as 2026-01-02T15:04:05Z, or a duration as 1h30m")
	}
	return at, nil
}

func dlqLsCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("ls [PIPELINE]", "list dead letters, the newest last", 0, 1)
	cmd.ValidArgsFunction = cli.CompleteArguments(client.Pipelines)
	which := letterFlagsOf(f, true)
	out := report.TableFlag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		letters, err := which.of(e, append(names, "")[0], false)
		if err != nil {
			return err
		}
		js, err := client.JetStream(which.server.Dial(ctx, e))
		if err != nil {
			return err
		}
		const page = 500 // rows whose columns are aligned together
		n := 0
		var t *report.Table
		err = letters.Read(ctx, js, func(l *dlq.DeadLetter) error {
			one := l.Listed()
			if out.JSON {
				return out.Object(one)
			}
			if n%page == 0 {
				if t != nil {
					if err := t.Flush(); err != nil {
						return err
					}
				}
				t = out.Table("NUMBER", "TIME", "SUBJECT", "CODE", "KIND", "SOURCE", "BYTES")
			}
			n++
			size := strconv.Itoa(one.Bytes)
			if !l.IsComplete() {
				size += fmt.Sprintf(" (%d of %d parts)", l.Parts, l.Of)
			}
			t.Row(one.Number, one.Time.Format(time.RFC3339), one.Subject, one.Code, one.Kind,
				report.OrDash(one.Source), size)
			t.Below(one.Error)
			return nil
		})
		if err == nil && t != nil {
			err = t.Flush()
		}
		if err == nil && n == 0 {
			out.Printf("no dead letters\n")
		}
		return err
	}
	return cmd
}

// shownLetter is what `embedd dlq show --format json` prints.
type shownLetter struct {
	dlq.ListedLetter
	Headers nats.Header `json:"headers"` // of the message, without the server's and embedd's
	File    string      `json:"file,omitempty"`
}

func dlqShowCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("show NUMBER", "show a dead letter: its error, its headers, and its bytes in a file", 1, 1)
	which := letterFlagsOf(f, false)
	path := f.StringP("output", "o", "", "write the original bytes to `FILE` (of kind rows, those rows in the "+
		"input's format); - is standard output, without the report")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		number, err := letterNumber(args[0])
		if err != nil {
			return err
		}
		js, err := client.JetStream(which.server.Dial(ctx, e))
		if err != nil {
			return err
		}
		letters, err := which.of(e, "", true)
		if err != nil {
			return err
		}
		l, err := letters.Find(ctx, js, number)
		if err != nil {
			return err
		}
		if !l.IsComplete() {
			return fmt.Errorf("dead letter %d: %d of %d parts exist; the others were deleted, or come before it", number,
				l.Parts, l.Of)
		}
		header, body, err := l.Original()
		if err != nil {
			return fmt.Errorf("dead letter %d: %w", number, err)
		}
		if *path != "" {
			err := files.Write(e, *path, func(file io.Writer) error {
				_, err := file.Write(body)
				return err
			})
			if err != nil || *path == "-" {
				return err
			}
		}
		one := l.Listed()
		one.Bytes = len(body)
		if out.JSON {
			return out.Object(shownLetter{one, header, *path})
		}
		return printLetter(out, one, header, body, *path)
	}
	return cmd
}

// letterNumber parses a sequence number.
func letterNumber(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, cli.Usagef("%q is not the number of a dead letter: `embedd dlq ls` lists them", s)
	}
	return n, nil
}

func printLetter(out *report.Output, l dlq.ListedLetter, header nats.Header, body []byte, path string) error {
	t := out.Table()
	t.Row("error", l.Error)
	t.Row("code", l.Code)
	t.Row("letter", fmt.Sprintf("%s:%d on %s, %s", l.Stream, l.Number, l.Subject, l.Time.Format(time.RFC3339)))
	t.Row("input", strings.TrimSpace(l.Source+" on "+l.Input))
	t.Row("attempts", l.Attempts)
	t.Row("kind", l.Kind)
	t.RowIf(l.Rows != "", "rows", l.Rows)
	for _, k := range slices.Sorted(maps.Keys(header)) {
		for _, v := range header[k] {
			t.Row("header "+k, report.Shorten(v, 200))
		}
	}
	t.Row("bytes", fmt.Sprintf("%d, the first are %s", len(body), excerpt(body)))
	t.RowIf(path != "", "saved in", path)
	return t.Flush()
}

// excerpt is the begin of a message: its text or, of other bytes, Go's notation.
func excerpt(body []byte) string {
	const n = 60
	if text := string(body[:min(len(body), n)]); utf8.Valid(body) {
		return strings.ToValidUTF8(text, "")
	} else {
		return fmt.Sprintf("%q", text)
	}
}

func dlqReplayCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay [PIPELINE|NUMBER...]",
		Short: "publish the messages of dead letters again, and delete the dead letters",
		Long: "Publish the messages of dead letters again, with their original headers, to the original subject, under a " +
			"new identity:\n" +
			"the original bytes or, if only some rows of a message were rejected, a message of these rows.\n" +
			"A replayed dead letter is deleted from its stream, so that it is replayed once; a message that is still bad " +
			"becomes a new\n" +
			"one. Without arguments all that exist on the subject at the start are replayed: --dry-run lists them.",
		Example: "embedd dlq replay --dry-run --code non_finite --since 2h digits\n" +
			"embedd dlq replay --code non_finite --since 2h digits\n" +
			"embedd dlq replay 17 23",
		Args: cli.Arguments(0, -1), ValidArgsFunction: cli.CompleteArguments(client.Pipelines),
	}
	f := cli.FlagsOf(cmd)
	which := letterFlagsOf(f, true)
	to := f.String("to", "", "publish to this `SUBJECT` instead of the original one")
	keep := f.Bool("keep", false, "do not delete the dead letters; a second replay within the stream's duplicate "+
		"window is dropped, a later one is not")
	dry := f.Bool("dry-run", false, "list what would be replayed and what could not be, and do nothing")
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
		js, err := client.JetStream(which.server.Dial(ctx, e))
		if err != nil {
			return err
		}
		r := &replay{js: js, how: dlq.Replays{To: *to, Keep: *keep, DryRun: *dry}, out: out}
		letters, err := which.of(e, pipeline, true)
		if err != nil {
			return err
		}
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
			if err := letters.Read(ctx, js, func(l *dlq.DeadLetter) error { return r.one(ctx, l) }); err != nil {
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
	how          dlq.Replays
	out          *report.Output
	done, failed int
}

func (r *replay) one(ctx context.Context, l *dlq.DeadLetter) error {
	one, failed := r.how.Do(ctx, r.js, l)
	what := strings.TrimSuffix("replayed as "+one.As, " as ")
	switch {
	case one.DryRun && one.Error != "":
		what = "would not be replayed: " + one.Error
	case one.DryRun:
		what = "would be replayed"
	case one.Error != "" && failed == nil:
		what = "not replayed: " + one.Error
	case one.Again:
		what = "was replayed before, as " + one.As
	}
	if failed != nil {
		what += ", but " + one.Error
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
	case r.failed > 0 && r.how.DryRun:
		return fmt.Errorf("%d dead letters would be replayed and %d could not be", r.done, r.failed)
	case r.failed > 0:
		return fmt.Errorf("%d dead letters were replayed and %d could not be", r.done, r.failed)
	case r.how.DryRun:
		r.out.Printf("%d dead letters would be replayed\n", r.done)
	default:
		r.out.Printf("%d dead letters were replayed\n", r.done)
	}
	return nil
}
