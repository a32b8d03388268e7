package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

const (
	// maxHead is how many of the messages that are not answered yet are examined.
	maxHead = 64
	// maxNewest is how many of the newest messages are examined where none waits for an answer.
	maxNewest = 16
	// minSample is how many messages must be examined before what they lack is a fault.
	minSample = 10
	// minUnlabelled is how many inputs there must be before their late labels are missed.
	minUnlabelled = 100
	// It is a fault if minDead, and more than maxDeadShare of the answers of the newest deadWindow, are dead letters.
	deadWindow   = 10 * time.Minute
	maxDeadShare = 0.9
	minDead      = 10
	// trendWait is the time between two looks at messages that are not answered.
	trendWait = time.Second
)

// traffic examines the messages of a pipeline's input, and what became of those that were answered.
type traffic struct {
	*diagnosis
	pipeline *spec.Pipeline
	input    jetstream.Stream

	decoder  *arrowio.Decoder
	contract *arrowio.Contract // stored, or that of a model file; nil: not known yet

	// Of the messages that were examined:
	sample     string // which they are: "next", "newest"
	messages   int
	rows       int
	columns    map[string]int // messages by their columns
	misfits    int            // that do not fit the contract
	unlabelled int            // without a label
	others     []string       // columns of the last of these that are no features
	unreadable int
	reason     error  // why the first of these cannot be read
	example    []byte // and that message
}

// check reads the messages of the input, and adds the findings about them.
func (t *traffic) check(ctx context.Context) {
	p := t.pipeline
	if !p.ModelsFromHub() {
		stored, err := ReadSchema(ctx, t.js, *p)
		if err != nil {
			t.addError("schema", p.Name, err)
			return
		}
		t.contract = stored.Contract
	}
	var err error
	if t.decoder, err = arrowio.NewDecoder(p.Stage.Spec); err != nil {
		return // an error of the configuration
	}
	t.columns = map[string]int{}
	if err := t.read(ctx); err != nil {
		// The check of permissions reports those that are missing.
		t.addIf(!errors.Is(err, natsx.ErrPermissionDenied), Finding{Check: "schema", Pipeline: p.Name, Level: LevelNote,
			Text: fmt.Sprintf("the messages of %s cannot be read, so they are not compared with the schema: %v", p.Subject, err),
			Fix:  "run doctor again; if it repeats, look at the log of the server"})
		return
	}
	known := len(t.findings)
	t.checkReadable()
	t.checkSchema()
	t.checkLabels(ctx)
	t.checkRetainedRows()
	if !slices.ContainsFunc(t.findings[known:], func(f Finding) bool { return f.Level == LevelFault }) {
		t.checkDeadShare(ctx)
	}
	t.checkTrend(ctx)
}

// read examines the messages that are not answered or, where there are none, the newest ones.
func (t *traffic) read(ctx context.Context) error {
	t.sample = "next"
	if err := t.readHead(ctx); err != nil || t.messages > 0 {
		return err
	}
	t.sample = "newest"
	state := t.input.CachedInfo().State
	next := max(state.FirstSeq, 1)
	if state.LastSeq > maxNewest {
		next = max(next, state.LastSeq-maxNewest+1)
	}
	for _, filter := range needs.Filters(t.pipeline) {
		if err := t.readFrom(ctx, next, maxNewest, filter); err != nil {
			return err
		}
	}
	return nil
}

// readHead examines the first messages that the pipeline's consumers have not acknowledged, of each partition as many.
// It reads them from the stream, so that no consumer is moved.
func (t *traffic) readHead(ctx context.Context) error {
	parts := needs.Partitions(t.pipeline)
	for _, q := range parts {
		next := max(t.input.CachedInfo().State.FirstSeq, 1)
		c, err := ask(ctx, t.permissions, func(ctx context.Context) (jetstream.Consumer, error) {
			return t.input.Consumer(ctx, q.ConsumerName(needs.ConsumerName(t.pipeline.Name, "")))
		})
		if err == nil {
			next = max(next, c.CachedInfo().AckFloor.Stream+1)
		} else if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		if err := t.readFrom(ctx, next, max(1, maxHead/len(parts)), q.Filter(t.pipeline.Subject)); err != nil {
			return err
		}
	}
	return nil
}

// readFrom examines up to limit messages of a subject from a sequence number on.
func (t *traffic) readFrom(ctx context.Context, next uint64, limit int, filter string) error {
	for n := 0; n < limit && next <= t.input.CachedInfo().State.LastSeq; n++ {
		msg, err := ask(ctx, t.permissions, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return natsx.NextMessage(ctx, t.js, t.input.CachedInfo().Config.Name, filter, next)
		})
		if msg == nil || err != nil {
			return err
		}
		if len(msg.Data) > 0 || !natsx.IsDeleteMarker(msg.Header) {
			t.examine(msg.Data)
		}
		next = msg.Sequence + 1
	}
	return nil
}

// examine adds a message to the counts.
func (t *traffic) examine(data []byte) {
	t.messages++
	contract := t.contract
	if t.pipeline.Stage.Fixed == nil {
		contract = nil // by itself, to count what differs
	}
	m, err := t.decoder.Decode(data, contract)
	if err != nil {
		t.unreadable++
		if t.reason == nil {
			t.reason, t.example = err, data
		}
		return
	}
	if c := m.Contract(); c != nil {
		t.columns[c.Short()]++
		if t.contract != nil && contract == nil {
			if _, err := t.decoder.Decode(data, t.contract); err != nil {
				t.misfits++
			}
		}
	}
	isLabelled := false
	for _, b := range m.Batches() {
		t.rows += b.Rows()
		for row := range b.Rows() {
			if _, ok := b.Label(row); ok {
				isLabelled = true
				break
			}
		}
	}
	if !isLabelled {
		t.unlabelled++
		t.others = nil
		for _, f := range m.Fields() {
			if !f.Feature {
				t.others = append(t.others, f.Name)
			}
		}
	}
}

// checkReadable reports messages that become dead letters because they cannot be read.
func (t *traffic) checkReadable() {
	if t.unreadable == 0 {
		return
	}
	p := t.pipeline
	f := Finding{Check: "input", Pipeline: p.Name, Text: fmt.Sprintf("%d of the %s %d messages of %s cannot be read and "+
		"become dead letters: %v", t.unreadable, t.sample, t.messages, p.Subject, t.reason),
		Fix: "send messages in input.format with the configured columns, or configure those that are sent"}
	if columns := t.sentColumns(); columns != nil && p.Stage.Fixed == nil {
		f.Fix, f.Key = "read the columns that are sent", "pipelines."+p.Name+".schema.features"
		f.Value = "[" + strings.Join(columns, ", ") + "]"
	}
	if t.messages < minSample || 2*t.unreadable <= t.messages {
		f.Level = LevelNote
	}
	t.add(f)
}

// sentColumns are the columns of numbers of the first message that cannot be read; nil where it has none.
func (t *traffic) sentColumns() (columns []string) {
	d, err := arrowio.NewDecoder(arrowio.Spec{})
	if err != nil {
		return nil
	}
	m, err := d.Decode(t.example, nil)
	if err != nil {
		return nil
	}
	c := t.pipeline.Stage.Spec
	for _, f := range m.Fields() {
		if f.Name != c.Label && f.Name != c.Key && (f.Holds == "number" || f.Holds == "list of numbers") {
			columns = append(columns, f.Name)
		}
	}
	return columns
}

// checkSchema compares the columns of the messages with the stored schema and with each other.
func (t *traffic) checkSchema() {
	p := t.pipeline
	if p.Stage.Fixed != nil || p.ModelsFromHub() {
		return
	}
	known := "the schema is not known yet"
	if t.contract != nil {
		known = "the schema is " + t.contract.Short()
	}
	all := t.messages - t.unreadable
	if all == 0 || len(t.columns) == 0 || t.sample != "next" {
		t.addOK("schema", p.Name, "%s; no message waits for an answer", known)
		return
	}
	names := slices.SortedFunc(maps.Keys(t.columns), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.columns[b], t.columns[a]), cmp.Compare(a, b))
	})
	var counts []string
	for _, name := range names[:min(len(names), 4)] {
		counts = append(counts, fmt.Sprintf("%d with %s", t.columns[name], name))
	}
	text := fmt.Sprintf("%s; of the next %d messages %s", known, all, strings.Join(counts, "; "))
	switch {
	case t.contract != nil && 2*t.misfits > all:
		t.add(Finding{Check: "schema", Pipeline: p.Name, Text: fmt.Sprintf("%s: %d do not fit and become dead letters",
			text, t.misfits),
			Fix:     "send the features of the schema, or change it: set schema.features with sizes, or count again",
			Command: "embedd schema reset " + p.Name})
	case t.misfits > 0 || t.contract == nil && len(names) > 1:
		t.add(Finding{Check: "schema", Pipeline: p.Name, Level: LevelNote, Text: text,
			Fix: "send the same features from each publisher"})
	default:
		t.addOK("schema", p.Name, "%s", text)
	}
}

// checkLabels reports rows without labels: nothing is learned from them.
func (t *traffic) checkLabels(ctx context.Context) {
	p, label := t.pipeline, t.pipeline.Stage.Spec.Label
	readable := t.messages - t.unreadable
	switch {
	case p.Stage.Fixed != nil || p.Role == spec.RoleTransform:
	case p.Labels != "":
		t.checkLateLabels(ctx)
	case label != "" && readable >= minSample && t.unlabelled == readable:
		others := "no column"
		if len(t.others) > 0 {
			others = strings.Join(t.others, ", ")
		}
		t.add(Finding{Check: "labels", Pipeline: p.Name, Text: fmt.Sprintf("none of the %s %d messages has a label in "+
			"column %q: nothing is learned; in addition to features they have %s", t.sample, readable, label, others),
			Fix: "send labels, or name the column that has them in schema.label", Key: "pipelines." + p.Name + ".schema.label"})
	}
}

// checkLateLabels reports that inputs arrive and labels do not.
func (t *traffic) checkLateLabels(ctx context.Context) {
	p := t.pipeline
	name := ""
	count, err := ask(ctx, t.permissions, func(ctx context.Context) (n struct{ inputs, labels uint64 }, err error) {
		if n.inputs, err = natsx.CountMessages(ctx, t.js, p.Stream, p.Subject); err != nil {
			return n, err
		}
		if name, err = natsx.StreamName(ctx, t.js, p.Labels); err != nil {
			return n, err // reported by the check of the stream
		}
		n.labels, err = natsx.CountMessages(ctx, t.js, name, p.Labels)
		return n, err
	})
	if err == nil && count.labels == 0 && count.inputs >= minUnlabelled {
		t.add(Finding{Check: "labels", Pipeline: p.Name, Text: fmt.Sprintf("stream %s has no message of labels on %s, and "+
			"the input has %d messages: nothing is learned", name, p.Labels, count.inputs),
			Fix: "publish labels with the keys of the rows: 'embedd publish --labels'"})
	}
}

// checkRetainedRows notes that the stream keeps fewer rows than the window has: a restart continues with fewer.
func (t *traffic) checkRetainedRows() {
	p, info := t.pipeline, t.input.CachedInfo()
	c, readable := info.Config, t.messages-t.unreadable
	window := p.Stage.Training.Window.Rows
	isTrimmed := info.State.FirstSeq > 1 && (c.MaxAge > 0 || c.MaxMsgs > 0 || c.MaxBytes > 0)
	if p.Stage.Fixed != nil || readable == 0 || window <= 0 || !isTrimmed || c.Retention != jetstream.LimitsPolicy {
		return
	}
	if rows := info.State.Msgs * uint64(t.rows) / uint64(readable); rows < uint64(window)/2 {
		t.add(Finding{Check: "input", Pipeline: p.Name, Level: LevelNote, Text: fmt.Sprintf("stream %s keeps about %d rows, "+
			"and the window has up to %d: after a restart the window is smaller, and the next models differ", c.Name, rows,
			window),
			Fix: "keep messages longer, or set a smaller window", Key: "training.window.rows"})
	}
}

// checkDeadShare reports that nearly all answers are dead letters. A user that may not read answers does not see it.
func (t *traffic) checkDeadShare(ctx context.Context) {
	p := t.pipeline
	n, err := ask(ctx, t.permissions, t.countAnswers)
	if err != nil || n.dead < minDead || float64(n.dead) <= maxDeadShare*float64(n.all) {
		return
	}
	t.add(Finding{Check: "dead letters", Pipeline: p.Name, Text: fmt.Sprintf("%d of the %d answers of the %v before the "+
		"newest are dead letters, the last because: %s", n.dead, n.all, deadWindow, n.reason),
		Fix: "read them, correct the cause, and replay them", Command: "embedd dlq ls " + p.Name})
}

// answers are the dead letters and all answers of deadWindow before the newest, and why the last dead letter is one.
type answers struct {
	dead, all uint64
	reason    string
}

// countAnswers counts nothing if the user may not read the answers, or none is a dead letter.
func (t *traffic) countAnswers(ctx context.Context) (n answers, err error) {
	p := t.pipeline
	var newest time.Time
	streams := map[string]jetstream.Stream{}
	for _, subject := range []string{p.Dead, p.OutputPattern()} {
		s, err := natsx.StreamOf(ctx, t.js, subject)
		if err != nil || !t.mayRead(s.CachedInfo().Config.Name, subject) {
			return n, err
		}
		msg, err := natsx.LastMessage(ctx, s, subject)
		if err != nil || msg == nil && subject == p.Dead {
			return n, err
		}
		if msg != nil && msg.Time.After(newest) {
			newest = msg.Time
		}
		if subject == p.Dead {
			n.reason, _, _ = strings.Cut(msg.Header.Get(wire.HeaderError), "\n")
		}
		streams[subject] = s
	}
	since := newest.Add(-deadWindow)
	for subject, s := range streams {
		r, err := natsx.OpenReader(ctx, t.js, s.CachedInfo().Config.Name, jetstream.ConsumerConfig{
			FilterSubject: subject, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, HeadersOnly: true,
			InactiveThreshold: time.Minute, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since})
		if err != nil {
			return n, err
		}
		n.all += r.Pending()
		if subject == p.Dead {
			n.dead = r.Pending()
		}
		r.Close(ctx)
	}
	return n, nil
}

// mayRead reports whether the user may read a subject of a stream: the last message, and through a consumer.
func (t *traffic) mayRead(stream, subject string) bool {
	if !t.permissions.IsKnown() {
		return false
	}
	prefix := natsx.APIPrefix(t.js)
	return !slices.ContainsFunc([]string{"STREAM.MSG.GET." + stream, "CONSUMER.CREATE." + stream + ".*." + subject,
		"CONSUMER.DELETE." + stream + ".*"}, func(request string) bool {
		return t.permissions.IsDenied(natsx.Permission{Action: natsx.Publish, Subject: prefix + request})
	})
}

// checkTrend looks twice at messages that are not answered while a daemon pulls them.
func (t *traffic) checkTrend(ctx context.Context) {
	name := needs.ConsumerName(t.pipeline.Name, "")
	look := func() (unanswered uint64, isPulled bool, err error) {
		c, err := ask(ctx, t.permissions, func(ctx context.Context) (jetstream.Consumer, error) {
			return t.input.Consumer(ctx, name)
		})
		if err != nil {
			return 0, false, err
		}
		return natsx.Unacknowledged(c.CachedInfo()), c.CachedInfo().NumAckPending > 0 || c.CachedInfo().NumWaiting > 0, nil
	}
	before, isPulled, err := look()
	if err != nil || before < maxHead || !isPulled || !natsx.Sleep(ctx, trendWait) {
		return
	}
	after, _, err := look()
	if err != nil || after <= before {
		return
	}
	t.add(Finding{Check: "consumer", Pipeline: t.pipeline.Name, Level: LevelNote, Text: fmt.Sprintf("%d messages are not "+
		"answered, %d more than %v ago: they arrive faster than they are answered", after, after-before, trendWait),
		Fix: "run another daemon with this configuration, if embedd_busy_ratio is near 1"})
}
