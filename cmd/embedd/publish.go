package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
)

// minRate and maxRate bound --rate. At a lower one a message would wait for years, and its wait would overflow.
const (
	minRate = 0.001
	maxRate = 1e9
)

// publishing is a run of publish: its flags, and where the rows go.
type publishing struct {
	data, subject, pipeline, label, labels, key, pack string
	batch, delay                                      int
	rate                                              float64
	loop, shuffle                                     bool
	seed                                              uint64
	as                                                *string
	how                                               file.Options
	server                                            *client.Server

	e       *cli.Env
	flags   *cli.Flags
	input   *pipelineInput // nil without --pipeline
	format  wire.Format
	in      *file.Reader
	to      *publisher
	late    *lateLabels // nil: labels stay in their rows
	random  *rand.Rand  // for --shuffle
	sorted  *dataset.SortedNote
	isNoted bool // the columns need no note, or it is printed
	show    *report.Progress
	begin   time.Time
}

// publishCommand sends a file as Arrow batches.
func publishCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("publish", "publish a file as Arrow messages", 0, 0)
	p := &publishing{e: e, flags: f}
	f.Data(&p.data, dataset.Formats)
	f.StringVar(&p.label, "label", "", "label `COLUMN`; it must be in the file")
	f.StringVar(&p.subject, "subject", "", "`SUBJECT` to publish to")
	f.StringVar(&p.pipeline, "pipeline", "", "publish to the input of this pipeline, a `NAME` in the file of -c (default "+
		"embedd.yaml); it gives --subject, --label, --key and --labels unless they are set")
	f.Complete("pipeline", client.Pipelines)
	p.server = client.ServerFlags(f, "")
	f.IntVar(&p.batch, "batch", 256, "maximum `ROWS` of a message")
	f.Float64Var(&p.rate, "rate", 0, "`ROWS` a second; 0 is as fast as the server confirms")
	p.as = f.Choice("as", "`FORMAT` of the messages; auto is input.format of --pipeline, else arrow", "auto", "arrow",
		"json", "ndjson", "csv")
	f.BoolVar(&p.loop, "loop", false, "repeat the file until a signal")
	f.BoolVar(&p.shuffle, "shuffle", false, "publish the rows in random order, for a file that is sorted by its label; "+
		"with --loop in another order each time. The whole file is read into memory first")
	f.Uint64Var(&p.seed, "seed", 1, "`NUMBER` that seeds --shuffle; the same seed gives the same order")
	f.StringVar(&p.pack, "pack", "", "pack all numeric columns but label, key and the index of pandas into one list "+
		"column of this `NAME`, the fastest form")
	f.StringVar(&p.labels, "labels", "", "publish the labels separately on this `SUBJECT`, as late labels for "+
		"input.labels; needs --label and --key")
	f.StringVar(&p.key, "key", "", "`COLUMN` that joins rows and labels; if the file does not have it, it is added with "+
		"the row number")
	f.IntVar(&p.delay, "delay", 0, "with --labels: publish a label this many `ROWS` after its row")
	dataset.FileFlags(f, &p.how)
	out := report.Flag(f, e)
	f.Require("data")
	cmd.Use += " --subject SUBJECT|--pipeline NAME"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if p.pipeline == "" && p.subject == "" {
			return cli.Usagef("publish: --subject or --pipeline is required: usage: %s", cmd.UseLine())
		}
		if err := p.choosePipeline(); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
		if err := p.open(ctx); err != nil { // report an unreadable file before connecting
			return err
		}
		defer func() { p.in.Close() }()
		if err := p.connect(ctx); err != nil {
			return err
		}
		err := p.flush(ctx, p.sendAll(ctx))
		e.NoteIf(err == nil && p.to.messages == 0, "%s has no rows, so nothing was published", files.Base(p.data))
		if err != nil && (p.to.messages == 0 || errors.Is(err, nats.ErrPermissionViolation)) {
			return err
		}
		return cmp.Or(p.report(out), err)
	}
	return cmd
}

// choosePipeline reads the input of --pipeline, which has the values of the flags that are not given.
func (p *publishing) choosePipeline() (err error) {
	p.format = wire.FormatArrow
	if p.pipeline != "" {
		if p.input, err = inputOf(p.server, p.pipeline); err != nil {
			return err
		}
		in, schema := p.input.Input, p.input.Schema
		p.subject, p.labels = cmp.Or(p.subject, in.Subject), cmp.Or(p.labels, in.Labels)
		p.label, p.key = cmp.Or(p.label, schema.Label), cmp.Or(p.key, schema.Key)
		p.format = schema.Format
		if err := p.input.checkSubject(p.subject); err != nil {
			return err
		}
	}
	if *p.as != "auto" {
		p.format = wire.Format(*p.as)
	}
	return nil
}

// check refuses values of flags, and flags that do not go together.
func (p *publishing) check() error {
	if err := checkSubject("publish", p.subject, false); err != nil {
		return err
	}
	switch {
	case p.batch < 1:
		return cli.Usagef("publish: --batch %d: want at least 1 row", p.batch)
	case p.rate != 0 && !(p.rate >= minRate && p.rate <= maxRate): // NaN too
		return cli.Usagef("publish: --rate %g: want 0, which is as fast as possible, or %g to %g rows a second", p.rate,
			minRate, maxRate)
	case p.labels != "" && (p.label == "" || p.key == ""):
		return cli.Usagef("publish: --labels needs --label and --key, which joins labels with rows")
	case p.delay < 0 || p.delay > 0 && p.labels == "":
		return cli.Usagef("publish: --delay %d: want a number of rows, together with --labels", p.delay)
	case p.flags.Changed("seed") && !p.shuffle:
		return cli.Usagef("publish: --seed %d: want it together with --shuffle", p.seed)
	case p.loop && p.data == "-":
		return cli.Usagef("publish: --loop cannot repeat standard input")
	}
	return nil
}

// open opens the file. Of one without the label column of the pipeline, rows are sent without labels.
func (p *publishing) open(ctx context.Context) error {
	p.how.Label, p.how.Categories = p.label, p.input.categories()
	in, err := files.Open(ctx, p.e, p.data, p.how)
	if err != nil {
		return err
	}
	if p.pipeline != "" && !p.flags.Changed("label") && !in.Schema().HasField(p.label) {
		isTraining := p.label != "" && p.input.features == nil // the label is "" when --loop opens the file again
		p.e.NoteIf(isTraining, "%s: the rows are published without labels, since it has no column %q, the label of pipeline "+
			"%s%s", files.Base(p.data), p.label, p.pipeline, cli.DidYouMean(p.label, dataset.ColumnNames(in.Schema())))
		p.label, p.labels = "", ""
	}
	if err := (dataset.Spec{Path: p.data, Label: p.label}).Check(in.Schema()); err != nil {
		in.Close()
		return err
	}
	p.in = in
	return nil
}

// connect connects to the server, and prepares to send the rows and their labels.
func (p *publishing) connect(ctx context.Context) error {
	nc, err := p.server.Dial(ctx, p.e)
	if err != nil {
		return err
	}
	if p.to, err = p.input.publisher(ctx, nc, p.subject, p.format); err != nil {
		return err
	}
	if p.to.others, err = inputsOf(p.server); err != nil {
		return err
	}
	if p.labels != "" {
		to, err := newPublisher(ctx, nc, p.labels, p.format)
		if err == nil && p.input != nil {
			err = p.input.checkLabels(to)
		}
		if err != nil {
			return err
		}
		p.late = &lateLabels{to: to, key: p.key, label: p.label, delay: p.delay}
	}
	p.random = rand.New(rand.NewPCG(p.seed, 0))
	p.sorted = &dataset.SortedNote{Name: files.Base(p.data), Label: p.label}
	p.isNoted = p.input != nil && !slices.Equal(p.input.Schema.Features, []string{"*"}) // the first message is checked
	p.show, p.begin = report.NewProgress(p.e), time.Now()
	return nil
}

// sendAll sends the file, again and again with --loop.
func (p *publishing) sendAll(ctx context.Context) error {
	defer p.show.End()
	for {
		if err := p.sendFile(ctx); err != nil {
			return err
		}
		p.sorted.Print(p.e)
		if !p.loop || p.to.messages == 0 { // without rows it would loop and never send
			return nil
		}
		sent := p.in
		if err := p.open(ctx); err != nil {
			return err
		}
		sent.Close()
	}
}

// sendFile sends all rows of the open file, until a signal.
func (p *publishing) sendFile(ctx context.Context) error {
	var rows dataset.Source = p.in
	if p.shuffle {
		p.show.Show("reading "+files.Base(p.data)+" to shuffle it", -1)
		all, err := dataset.Shuffle(ctx, rows, p.random)
		if err != nil {
			return err
		}
		defer all.Release()
		rows = all
	}
	for ctx.Err() == nil { // without a stream nothing else waits for a signal
		rec, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = p.sendRecord(ctx, rec)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sendRecord sends a record in messages of --batch rows, and releases it.
func (p *publishing) sendRecord(ctx context.Context, rec arrow.Record) error {
	defer func() { rec.Release() }()
	if !p.isNoted {
		dataset.Columns{Name: files.Base(p.data), Label: p.label, Key: p.key}.NoteRecord(p.e, p.in, rec)
		p.isNoted = true
	}
	if !p.shuffle {
		p.sorted.See(rec)
	}
	if p.pack != "" {
		packed, err := dataset.Pack(rec, p.pack, append(p.in.Indexes(), p.label, p.key), p.input.packed(p.pack))
		if err != nil {
			return err
		}
		rec.Release()
		rec = packed
	}
	for from := int64(0); from < rec.NumRows(); from += int64(p.batch) {
		if err := p.sendRows(ctx, rec.NewSlice(from, min(from+int64(p.batch), rec.NumRows()))); err != nil {
			return err
		}
	}
	return nil
}

// sendRows sends a message, without labels if they are late, and releases its record. It waits as --rate says.
func (p *publishing) sendRows(ctx context.Context, part arrow.Record) error {
	defer part.Release()
	if p.late != nil {
		rows, err := p.late.split(part)
		if err != nil {
			return err
		}
		defer rows.Release()
		part = rows
	}
	body, err := encoded(part, p.format)
	if err != nil {
		return err
	}
	if p.to.messages == 0 {
		if err := p.input.check(body, p.pack, p.in); err != nil {
			return err
		}
	}
	if err := p.to.send(ctx, body, int(part.NumRows())); err != nil {
		return err
	}
	if p.late != nil {
		if err := p.late.send(ctx, false); err != nil {
			return err
		}
	}
	p.show.Show(fmt.Sprintf("%d messages, %d rows", p.to.messages, p.to.rows), -1)
	if p.rate == 0 {
		return nil
	}
	return cli.Sleep(ctx, time.Until(p.begin.Add(time.Duration(float64(p.to.rows)/p.rate*float64(time.Second)))))
}

// flush waits until all messages are confirmed, and sends the last labels if all rows were sent. err is the error of
// sending, which may be a signal.
func (p *publishing) flush(ctx context.Context, err error) error {
	if p.late != nil && err == nil {
		err = errors.Join(p.late.send(ctx, true), p.late.to.flush(context.WithoutCancel(ctx)))
	}
	if flushErr := p.to.flush(context.WithoutCancel(ctx)); err == nil || errors.Is(err, context.Canceled) &&
		flushErr != nil {
		return flushErr
	}
	return err
}

// report prints how much was sent, and where to.
func (p *publishing) report(out *report.Output) error {
	seconds, to := time.Since(p.begin).Seconds(), p.to
	if out.JSON {
		report := map[string]any{"subject": p.subject, "stream": to.stream, "messages": to.messages, "rows": to.rows,
			"bytes": to.bytes, "seconds": seconds}
		if p.late != nil {
			report["labels"] = map[string]any{"subject": p.labels, "stream": p.late.to.stream,
				"messages": p.late.to.messages, "rows": p.late.to.rows}
		}
		return out.Object(report)
	}
	kept := "no stream has the subject: only current subscribers received them"
	if to.stream != "" {
		kept = "stored in stream " + to.stream
	}
	out.Printf("%d messages, %d rows, %.1f MB to %s in %.1f s; %s\n", to.messages, to.rows, float64(to.bytes)/1e6,
		p.subject, seconds, kept)
	if p.late != nil {
		out.Printf("%d messages with labels to %s\n", p.late.to.messages, p.labels)
	}
	return nil
}

// confirmTimeout is how long a stream may take to confirm a message, flushTimeout how long for all that are left at the
// end.
const (
	confirmTimeout = time.Minute
	flushTimeout   = 10 * time.Second
)

// checkSubject checks the subject of a flag. NATS takes features.* as a word of a subject to publish to.
func checkSubject(verb, subject string, isPattern bool) error {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "" || strings.ContainsAny(token, " \t\r\n"):
			return cli.Usagef("%s: --subject %q is no subject: it is words without spaces, with a point between two", verb,
				subject)
		case !isPattern && (token == "*" || token == ">"):
			return cli.Usagef("%s: --subject %s has the wildcard %s: name one subject", verb, subject, token)
		case token == ">" && i < len(tokens)-1:
			return cli.Usagef("%s: --subject %s: > can only be its end", verb, subject)
		}
	}
	return nil
}
