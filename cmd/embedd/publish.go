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
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/internal/wildcard"
)

// minRate and maxRate bound --rate. At a lower one a message would wait for years, and its wait would overflow.
const (
	minRate = 0.001
	maxRate = 1e9
)

// publishCommand sends a file as Arrow batches.
func publishCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("publish", "publish a file as Arrow messages", 0, 0)
	data := f.Data(new(string), dataset.Formats)
	label := f.String("label", "", "label `COLUMN`; it must be in the file")
	subject := f.String("subject", "", "`SUBJECT` to publish to")
	pipeline := f.String("pipeline", "", "publish to the input of this pipeline, a `NAME` in the file of -c (default "+
		"embedd.yaml); it gives --subject, --label, --key and --labels unless they are set")
	f.Complete("pipeline", client.Pipelines)
	server := client.ServerFlags(f, "")
	batch := f.Int("batch", 256, "maximum `ROWS` of a message")
	rate := f.Float64("rate", 0, "`ROWS` a second; 0 is as fast as the server confirms")
	as := f.Choice("as", "`FORMAT` of the messages; auto is input.format of --pipeline, else arrow", "auto", "arrow",
		"json", "ndjson", "csv")
	loop := f.Bool("loop", false, "repeat the file until a signal")
	shuffle := f.Bool("shuffle", false, "publish the rows in random order, for a file that is sorted by its label; with "+
		"--loop in another order each time. The whole file is read into memory first")
	seed := f.Uint64("seed", 1, "`NUMBER` that seeds --shuffle; the same seed gives the same order")
	pack := f.String("pack", "", "pack all numeric columns but label, key and the index of pandas into one list column "+
		"of this `NAME`, the fastest form")
	labels := f.String("labels", "", "publish the labels separately on this `SUBJECT`, as late labels for "+
		"input.labels; needs --label and --key")
	key := f.String("key", "", "`COLUMN` that joins rows and labels; if the file does not have it, it is added with "+
		"the row number")
	delay := f.Int("delay", 0, "with --labels: publish a label this many `ROWS` after its row")
	var how file.Options
	dataset.FileFlags(f, &how)
	out := report.Flag(f, e)
	f.Require("data")
	cmd.Use += " --subject SUBJECT|--pipeline NAME"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		var input *pipelineInput // nil without --pipeline
		switch {
		case *pipeline != "":
			var err error
			if input, err = inputOf(server, *pipeline); err != nil {
				return err
			}
			for to, from := range map[*string]string{subject: input.Input.Subject, label: input.Schema.Label,
				key: input.Schema.Key, labels: input.Input.Labels} {
				*to = cmp.Or(*to, from)
			}
			if err := input.checkSubject(*subject); err != nil {
				return err
			}
		case *subject == "":
			return cli.Usagef("publish: --subject or --pipeline is required: usage: %s", cmd.UseLine())
		}
		if err := checkSubject("publish", *subject, false); err != nil {
			return err
		}
		format := wire.Format(*as)
		if *as == "auto" {
			if format = wire.FormatArrow; input != nil {
				format = input.Schema.Format
			}
		}
		switch {
		case *batch < 1:
			return cli.Usagef("publish: --batch %d: want at least 1 row", *batch)
		case *rate != 0 && !(*rate >= minRate && *rate <= maxRate): // NaN too
			return cli.Usagef("publish: --rate %g: want 0, which is as fast as possible, or %g to %g rows a second", *rate,
				minRate, maxRate)
		case *labels != "" && (*label == "" || *key == ""):
			return cli.Usagef("publish: --labels needs --label and --key, which joins labels with rows")
		case *delay < 0 || *delay > 0 && *labels == "":
			return cli.Usagef("publish: --delay %d: want a number of rows, together with --labels", *delay)
		case cmd.Flags().Changed("seed") && !*shuffle:
			return cli.Usagef("publish: --seed %d: want it together with --shuffle", *seed)
		case *loop && *data == "-":
			return cli.Usagef("publish: --loop cannot repeat standard input")
		}
		how.Label, how.Categories = *label, input.categories()
		open := func() (*file.Reader, error) {
			in, err := files.Open(ctx, e, *data, how)
			if err != nil {
				return nil, err
			}
			if *pipeline != "" && !cmd.Flags().Changed("label") && !in.Schema().HasField(*label) {
				*label, *labels = "", "" // rows without labels
			}
			if err := (dataset.Spec{Path: *data, Label: *label}).Check(in.Schema()); err != nil {
				in.Close()
				return nil, err
			}
			return in, nil
		}
		in, err := open() // report an unreadable file before connecting
		if err != nil {
			return err
		}
		defer func() { in.Close() }()
		nc, err := server.Dial(ctx, e)
		if err != nil {
			return err
		}
		p, err := input.publisher(ctx, nc, *subject, format)
		if err != nil {
			return err
		}
		if p.others, err = inputsOf(server); err != nil {
			return err
		}
		var late *lateLabels
		if *labels != "" {
			to, err := newPublisher(ctx, nc, *labels, format)
			if err == nil && input != nil {
				err = input.checkLabels(to)
			}
			if err != nil {
				return err
			}
			late = &lateLabels{to: to, key: *key, label: *label, delay: *delay}
		}
		show := report.NewProgress(e)
		begin := time.Now()
		isNoted := input != nil && !slices.Equal(input.Schema.Features, []string{"*"}) // the first message is checked
		send := func(body []byte, rows int) error {
			if p.messages == 0 {
				if err := input.check(body, *pack); err != nil {
					return err
				}
			}
			if err := p.send(ctx, body, rows); err != nil {
				return err
			}
			if late != nil {
				if err := late.send(ctx, false); err != nil {
					return err
				}
			}
			show.Show(fmt.Sprintf("%d messages, %d rows", p.messages, p.rows), -1)
			if *rate == 0 {
				return nil
			}
			return cli.Sleep(ctx, time.Until(begin.Add(time.Duration(float64(p.rows) / *rate * float64(time.Second)))))
		}
		random := rand.New(rand.NewPCG(*seed, 0))
		sorted := &dataset.SortedNote{Name: files.Base(*data), Label: *label}
		see := func(rec arrow.Record) {
			if !isNoted {
				dataset.Columns{Name: files.Base(*data), Label: *label, Key: *key}.NoteRecord(e, in, rec)
				isNoted = true
			}
			if !*shuffle {
				sorted.See(rec)
			}
		}
		once := func() error {
			var rows dataset.Source = interruptible{in, ctx}
			if *shuffle {
				show.Show("reading "+files.Base(*data)+" to shuffle it", -1)
				all, err := dataset.Shuffle(rows, random)
				if err != nil {
					return err
				}
				defer all.Release()
				rows = interruptible{all, ctx}
			}
			b := &batches{*pack, append(in.Indexes(), *label, *key), input.packed(*pack), *batch, late, format, see, send}
			return b.all(rows)
		}
		for {
			err = once()
			if err == nil {
				sorted.Print(e)
			}
			if err != nil || !*loop || p.messages == 0 { // without rows it would loop and never send
				break
			}
			again, openErr := open()
			if err = openErr; err != nil {
				break
			}
			in.Close()
			in = again
		}
		show.End()
		if late != nil && err == nil {
			err = errors.Join(late.send(ctx, true), late.to.flush(context.WithoutCancel(ctx)))
		}
		if flushErr := p.flush(context.WithoutCancel(ctx)); err == nil || errors.Is(err, context.Canceled) &&
			flushErr != nil {
			err = flushErr
		}
		if err != nil && p.messages == 0 {
			return err
		}
		seconds := time.Since(begin).Seconds()
		if out.JSON {
			report := map[string]any{"subject": *subject, "stream": p.stream, "messages": p.messages, "rows": p.rows,
				"bytes": p.bytes, "seconds": seconds}
			if late != nil {
				report["labels"] = map[string]any{"subject": *labels, "stream": late.to.stream, "messages": late.to.messages,
					"rows": late.to.rows}
			}
			if err := out.Object(report); err != nil {
				return err
			}
		} else {
			kept := "no stream has the subject: only current subscribers received them"
			if p.stream != "" {
				kept = "stored in stream " + p.stream
			}
			out.Printf("%d messages, %d rows, %.1f MB to %s in %.1f s; %s\n", p.messages, p.rows, float64(p.bytes)/1e6,
				*subject, seconds, kept)
			if late != nil {
				out.Printf("%d messages with labels to %s\n", late.to.messages, *labels)
			}
		}
		return err
	}
	return cmd
}

// interruptible are rows until a signal. Without a stream nothing else waits for it, since no message is confirmed.
type interruptible struct {
	dataset.Source
	ctx context.Context
}

// Next returns the next rows, or the error of the context.
func (s interruptible) Next() (arrow.Record, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	return s.Source.Next()
}

// batches cuts records into messages.
type batches struct {
	list            string   // the column into which others are packed; "": none
	except, columns []string // columns that are not packed, or all that are; nil: those of numbers
	rows            int      // of a message
	late            *lateLabels
	format          wire.Format
	see             func(arrow.Record) // is called with each record
	send            func(body []byte, rows int) error
}

// all sends all records of a source.
func (b *batches) all(in dataset.Source) error {
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = b.one(rec)
		}
		if err != nil {
			return err
		}
	}
}

// one sends a record and releases it.
func (b *batches) one(rec arrow.Record) error {
	defer func() { rec.Release() }()
	b.see(rec)
	if b.list != "" {
		packed, err := dataset.Pack(rec, b.list, b.except, b.columns)
		if err != nil {
			return err
		}
		rec.Release()
		rec = packed
	}
	for from := int64(0); from < rec.NumRows(); from += int64(b.rows) {
		if err := b.part(rec.NewSlice(from, min(from+int64(b.rows), rec.NumRows()))); err != nil {
			return err
		}
	}
	return nil
}

// part sends a message, without labels if they are late, and releases its record.
func (b *batches) part(part arrow.Record) error {
	defer part.Release()
	if b.late != nil {
		rows, err := b.late.split(part)
		if err != nil {
			return err
		}
		defer rows.Release()
		part = rows
	}
	body, err := encoded(part, b.format)
	if err != nil {
		return err
	}
	return b.send(body, int(part.NumRows()))
}

// encoded is a record as a message in a format.
func encoded(rec arrow.Record, as wire.Format) ([]byte, error) {
	if !as.IsText() {
		return arrowio.FromRecords(rec.Schema(), rec)
	}
	d, err := arrowio.NewDecoder(arrowio.Spec{Limits: file.Limits()})
	if err != nil {
		return nil, err
	}
	m, err := d.FromRecord(rec, nil)
	if err != nil {
		return nil, err
	}
	return arrowio.Text(m, as)
}

// publisher publishes to a subject, through JetStream if a stream has it.
type publisher struct {
	nc      *connection.Conn
	js      jetstream.JetStream
	subject string
	format  wire.Format
	stream  string
	others  []string // subjects that the user may have meant
	pending []jetstream.PubAckFuture
	wait    time.Duration // for the confirmation of a message

	messages, rows int
	bytes          int64
}

// maxUnconfirmed is the maximum number of unconfirmed messages.
const maxUnconfirmed = 64

// confirmTimeout is how long a stream may take to confirm a message, flushTimeout how long for all that are left at the
// end.
const (
	confirmTimeout = time.Minute
	flushTimeout   = 10 * time.Second
)

func newPublisher(ctx context.Context, nc *connection.Conn, subject string, as wire.Format) (*publisher, error) {
	p := &publisher{nc: nc, subject: subject, format: as, wait: confirmTimeout}
	js, err := nc.JetStream()
	if err != nil {
		return nil, err
	}
	switch name, err := js.StreamNameBySubject(ctx, subject); {
	case err == nil:
		p.js, p.stream = js, name
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, nats.ErrNoResponders):
	default:
		return nil, fmt.Errorf("finding the stream of subject %s: %w", subject, err)
	}
	return p, nil
}

func (p *publisher) send(ctx context.Context, body []byte, rows int) error {
	if most := p.nc.MaxPayload(); int64(len(body)) > most {
		return fmt.Errorf("a message of %d rows has %d bytes, more than the %d that the server accepts; use a smaller "+
			"--batch", rows, len(body), most)
	}
	msg := nats.NewMsg(p.subject)
	msg.Header.Set(wire.HeaderContentType, p.format.ContentType())
	msg.Data = body
	switch {
	case p.js == nil && p.messages == 0:
		if err := p.sendFirst(ctx, msg); err != nil {
			return err
		}
	case p.js == nil:
		if err := p.nc.PublishMsg(msg); err != nil {
			return err
		}
	default:
		future, err := p.js.PublishMsgAsync(msg)
		if err != nil {
			return err
		}
		p.pending = append(p.pending, future)
		if len(p.pending) >= maxUnconfirmed {
			if err := p.confirm(ctx); err != nil {
				return err
			}
		}
	}
	p.messages++
	p.rows += rows
	p.bytes += int64(len(body))
	return nil
}

// sendFirst publishes a message on core NATS. It is an error if nothing receives it: the server reports that on the
// reply subject, before the flush ends.
func (p *publisher) sendFirst(ctx context.Context, msg *nats.Msg) error {
	msg.Reply = p.nc.NewInbox()
	sub, err := p.nc.SubscribeSync(msg.Reply)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := p.nc.PublishMsg(msg); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	if n, _, err := sub.Pending(); err != nil || n == 0 {
		return err
	}
	if answer, err := sub.NextMsgWithContext(ctx); !errors.Is(err, nats.ErrNoResponders) &&
		(err != nil || answer.Header.Get("Status") != "503") {
		return err
	}
	fix := cli.DidYouMean(p.subject, p.others)
	if wildcard.CoveredBy(p.subject, p.others) {
		fix = " (embedd setup --apply creates the stream of the pipeline that reads it)"
	}
	return fmt.Errorf("nothing receives %s: no stream stores it and it has no subscriber%s; nothing was published",
		p.subject, fix)
}

// confirm waits for the oldest unconfirmed message. The client waits indefinitely for a confirmation that is lost.
func (p *publisher) confirm(ctx context.Context) error {
	f := p.pending[0]
	p.pending = p.pending[1:]
	lost := time.NewTimer(p.wait)
	defer lost.Stop()
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return fmt.Errorf("stream %s refused a message: %w", p.stream, err)
	case <-lost.C:
		return p.unconfirmed(p.wait)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unconfirmed is the error of a message that the stream did not confirm in time.
func (p *publisher) unconfirmed(wait time.Duration) error {
	return fmt.Errorf("stream %s did not confirm a message within %v, and may lack it: look whether the stream has a "+
		"leader, and confirms (`nats stream info %s`: no_ack), and publish the rows again", p.stream, wait, p.stream)
}

// flush waits until all messages are confirmed.
func (p *publisher) flush(ctx context.Context) error {
	wait := min(p.wait, flushTimeout)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for len(p.pending) > 0 {
		err := p.confirm(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = p.unconfirmed(wait)
		}
		if err != nil {
			return fmt.Errorf("the last %d of %d messages are not confirmed: %w", len(p.pending)+1, p.messages, err)
		}
	}
	if err := p.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	// Without a stream, this is the only sign that a message was refused.
	if err := p.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

// lateLabels publishes labels on a separate subject, delay rows after their rows.
type lateLabels struct {
	to         *publisher
	key, label string
	delay      int
	rows       int64 // rows sent, the keys if the file has no key column
	waiting    []dueLabels
}

// dueLabels is a message of labels that is sent after a number of rows.
type dueLabels struct {
	body []byte
	rows int
	due  int64
}

// split removes the label column from a record, queues it as late labels, and returns the record with a key column.
func (a *lateLabels) split(rec arrow.Record) (arrow.Record, error) {
	n, at := rec.NumRows(), rec.Schema().FieldIndices(a.label)[0] // open has checked that it has the label
	label, rest := rec.Column(at), without(rec, a.label)
	if !rest.Schema().HasField(a.key) {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		defer b.Release()
		for i := range n {
			b.Append(a.rows + i)
		}
		numbers := b.NewArray()
		defer numbers.Release()
		defer rest.Release()
		meta := rec.Schema().Metadata()
		fields := append(rest.Schema().Fields(), arrow.Field{Name: a.key, Type: numbers.DataType()})
		rest = array.NewRecord(arrow.NewSchema(fields, &meta), append(rest.Columns(), numbers), n)
	}
	key := rest.Column(rest.Schema().FieldIndices(a.key)[0])
	labels := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: a.key, Type: key.DataType(), Nullable: true},
		rec.Schema().Field(at)}, nil), []arrow.Array{key, label}, n)
	defer labels.Release()
	body, err := encoded(labels, a.to.format)
	if err != nil {
		rest.Release()
		return nil, fmt.Errorf("late labels: %w", err)
	}
	a.rows += n
	a.waiting = append(a.waiting, dueLabels{body, int(n), a.rows + int64(a.delay)})
	return rest, nil
}

// send publishes the labels that are due, or all.
func (a *lateLabels) send(ctx context.Context, all bool) error {
	for len(a.waiting) > 0 && (all || a.waiting[0].due <= a.rows) {
		if err := a.to.send(ctx, a.waiting[0].body, a.waiting[0].rows); err != nil {
			return err
		}
		a.waiting = a.waiting[1:]
	}
	return nil
}

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
