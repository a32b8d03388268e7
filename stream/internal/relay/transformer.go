package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// transformer makes the answers to inputs. One goroutine uses it.
type transformer struct {
	*hotPath
	opened   arrowio.Envelope
	metadata struct { // headers of the model that transformed last
		live  *plugin.Live
		pairs []wire.Pair
	}
	partPairs [][]wire.Pair // memory of the headers of parts
}

// answer answers an opened input with the live model. It never fails: an input that cannot be transformed becomes a
// dead letter. It returns nil when ctx is done first.
func (t *transformer) answer(ctx context.Context, in *input) *answer {
	begin := time.Now()
	a := t.transform(ctx, in)
	if a == nil {
		return nil
	}
	end := time.Now()
	a.seconds = end.Sub(begin).Seconds()
	t.answered.Store(int64(begin.Sub(t.began)))
	if in.Delivered > 1 {
		switch isPostponed, isNext := t.undeliverable.restore(a); {
		case isPostponed && isNext:
			if err := t.dedup.lookUp(ctx, a.doubtful()); err != nil {
				t.Log.Debug("the end of the output stream cannot be read; trying again", "error", err)
			}
			return a
		case isPostponed: // another process has had it since, and may have answered it
			t.dedup.markStored(ctx, a)
			return a
		}
	}
	// A message that was held for the ack wait may have been delivered to, and answered by, another process.
	if in.mayBeAnswered || end.Sub(in.receivedAt) > t.AckWait {
		t.dedup.markStored(ctx, a)
	}
	if failure := a.failure(); t.gate.halt.Record(failure.Code != "", failure.Error) {
		t.Log.Error("halted: too many messages are bad", "reason", t.HaltReason())
	}
	return a
}

// answerSuspect is answer for a message that may have crashed an earlier process: after too many attempts it becomes a
// dead letter. If a part of its answer is stored, a process got past the transform and crashed before the
// acknowledgement: the message is answered as any, so that it has one answer.
func (t *transformer) answerSuspect(ctx context.Context, in *input) *answer {
	t.countOwners(ctx, in)
	isUsedUp := in.Delivered > 1 && in.source.attempts.areUsedUp(&in.Message) // also while its dead letter is refused
	if !isUsedUp && (!in.isSuspect || in.Delivered < 3 || t.undeliverable.has(in)) {
		return t.answer(ctx, in)
	}
	n := in.source.attempts.record(ctx, &in.Message)
	if n <= t.Attempts || !t.hasStored(ctx, in, wire.AnswerDead) && t.hasStored(ctx, in, wire.AnswerOut, wire.AnswerRows) {
		in.isCounted = n > 0
		return t.answer(ctx, in)
	}
	in.attempts = t.Attempts
	a := t.composer.deadMessage(&answer{in: in}, &arrowio.Error{Code: wire.ProcessDied, Row: -1,
		Detail: fmt.Sprintf("the process crashed %d times while it had this message, the last time with no other message",
			in.attempts),
		Hint: "check the message and the memory limit of the process, then replay it"})
	t.dedup.markStored(ctx, a)
	return a
}

// countOwners counts the crashes of the owners of a partition for the first of its messages that is not answered:
// suspects are processed alone, so it was the one in progress.
func (t *transformer) countOwners(ctx context.Context, in *input) {
	s := in.source
	if !in.isSuspect || !s.isOrdered() || s.first == 0 {
		return
	}
	if t.hasStored(ctx, in, wire.AnswerOut, wire.AnswerDead, wire.AnswerRows) {
		return
	}
	in.Delivered = max(in.Delivered, s.current.Deaths+1)
	s.first = 0
}

// hasStored reports whether the first part of an answer of one of these kinds to an input is stored.
func (t *transformer) hasStored(ctx context.Context, in *input, kinds ...wire.Answer) bool {
	for _, kind := range kinds {
		to := t.deadLetters
		if kind == wire.AnswerOut {
			to = t.outputs
		}
		o := &part{in: in, kind: kind, id: t.identities.of(in.Origin, kind, 0), sink: to}
		if t.dedup.markStored(ctx, &answer{in: in, parts: []*part{o}}); o.isStored {
			return true
		}
	}
	return false
}

// transform decodes and projects an opened input. It returns nil when ctx is done first.
func (t *transformer) transform(ctx context.Context, in *input) *answer {
	a := &answer{in: in, result: "out"}
	decoding := childSpan(t.Scope, in, "decode", trace.SpanKindInternal)
	m, err := t.opened.Decode(t.Running.Contract())
	endSpan(decoding, err)
	t.training.OfferDecoded(&in.Message, &in.training, m, err)
	if err == nil {
		defer m.Release()
		err = t.composer.checkHeaders(in)
	}
	if err == nil {
		err = t.composer.mapSubject(in)
	}
	if err != nil && in.IsDeleteMarker() {
		a.result = "skip"
		return a
	}
	if err != nil {
		return t.composer.deadMessage(a, err)
	}
	age, isStale := t.Freshness.Stale()
	marks := StaleMark(age, isStale)
	if isStale && t.WhenStale == spec.StalePass {
		return t.pass(a, m, marks)
	}
	projecting := childSpan(t.Scope, in, "transform", trace.SpanKindInternal)
	m, r, err := t.Project(ctx, t.Running, in.Data, m, t.Running.Live())
	endSpan(projecting, err)
	switch {
	case errors.Is(err, plugin.ErrNoModel):
		a.result, a.rows.Skip = "skip", m.Rows()
		return a
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return t.composer.deadMessage(a, err)
	}
	defer t.Running.Release(r)
	nameModel(in.span, r.Live)
	return t.addOutputs(a, m, r, marks)
}

// addOutputs adds the outputs and rejected rows of a projected message to its answer.
func (t *transformer) addOutputs(a *answer, m *arrowio.Message, r *plugin.Result, marks []wire.Pair) *answer {
	in := a.in
	a.maxBody = t.composer.maxOutputBody(in)
	if in.Delivered > 1 { // parts that are stored must not mix with those of another split
		a.maxBody = cmp.Or(t.undeliverable.maxBody(in), a.maxBody)
	}
	bodies, pairs, err := t.encode(in, r, marks, int(a.maxBody))
	if err != nil {
		return t.composer.deadMessage(a, err)
	}
	if t.metadata.live != r.Live {
		t.metadata.live, t.metadata.pairs = r.Live, r.Live.Metadata()
	}
	a.parts = a.single[:0]
	for i, body := range bodies {
		a.parts = append(a.parts, t.composer.newOutput(in, i, body, t.metadata.pairs, pairs[i]))
	}
	a.rows.Unseen, a.rows.Skip, a.rows.Dead = m.Unseen(), r.Skipped, r.RejectedRows()
	a.rows.Out = m.Rows() - a.rows.Skip - a.rows.Dead
	if a.rows.Dead > 0 {
		if err := t.composer.addRejectedRows(a, r); err != nil {
			return t.composer.deadMessage(a, err)
		}
	}
	return a
}

// pass answers a message with itself, because the live model is stale.
func (t *transformer) pass(a *answer, m *arrowio.Message, marks []wire.Pair) *answer {
	in := a.in
	a.result, a.rows.Pass = "pass", m.Rows()
	a.parts = []*part{t.composer.newOutput(in, 0, in.Data, appendPairs([]wire.Pair{wire.VersionPair()}, in, 0, 1, marks))}
	setContentType(a.parts[0].msg.Header, nil, t.Stage.Spec.Format)
	return a
}

// encode encodes the output in as many parts as a limit of their bytes requires, and returns the headers of each part
// in addition to those of the model, until the next call. A row that exceeds the limit alone is rejected.
func (t *transformer) encode(in *input, r *plugin.Result, marks []wire.Pair, limit int) (bodies [][]byte,
	pairs [][]wire.Pair, err error) {
	for {
		bodies, err = t.Running.Split(r, limit, func(part, parts int) []wire.Pair {
			if part == len(t.partPairs) {
				t.partPairs = append(t.partPairs, nil)
			}
			t.partPairs[part] = appendPairs(t.partPairs[part][:0], in, part, parts, marks)
			return t.partPairs[part]
		})
		var wide *arrowio.Error
		if errors.As(err, &wide) {
			t.nameLimit(wide)
		}
		if err == nil || wide == nil || wide.Code != wire.TooWide || wide.Row < 0 {
			return bodies, t.partPairs, err
		}
		if r.RejectedRows()+len(wide.Also) >= maxListedRows {
			return nil, nil, err
		}
		for _, w := range append([]*arrowio.Error{wide}, wide.Also...) {
			r.Reject(w.Batch, w.Row, arrowio.Fault{Row: w.Row, Feature: w.Column, What: w.Detail + "; " + w.Hint})
		}
	}
}

// nameLimit replaces the server's limit in the hint of an error with that of the output's stream, if that is lower.
func (t *transformer) nameLimit(e *arrowio.Error) {
	limit := t.composer.maxBytes(t.outputs)
	if limit == t.Conn.MaxPayload() {
		return
	}
	for _, wide := range append([]*arrowio.Error{e}, e.Also...) {
		wide.Hint = strings.ReplaceAll(wide.Hint, "the server's max_payload",
			fmt.Sprintf("max_msg_size of the stream of %s, which is %d bytes", t.Output, limit))
	}
}

// appendPairs appends the headers of a part of an output in addition to its model.
func appendPairs(to []wire.Pair, in *input, part, parts int, marks []wire.Pair) []wire.Pair {
	to = append(in.Origin.AppendPairs(to, part, parts), marks...)
	to = append(to, wire.Pair{Key: wire.HeaderSubject, Value: in.Subject})
	if in.isRedelivered {
		to = append(to, wire.Pair{Key: wire.HeaderRedelivered, Value: "1"})
	}
	return to
}

// StaleMark is the header of an output of a stale model; none of a fresh one.
func StaleMark(age time.Duration, isStale bool) []wire.Pair {
	if !isStale {
		return nil
	}
	return []wire.Pair{{Key: wire.HeaderStale, Value: strconv.FormatInt(int64(age/time.Second), 10)}}
}
