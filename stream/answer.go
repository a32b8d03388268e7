package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
)

// answer is what one input becomes: messages to publish, and what to count once they are confirmed.
type answer struct {
	in      *input
	parts   []*outgoing
	result  string  // out, dead, skip or pass
	seconds float64 // that decoding, projecting and encoding took
	rows    counts
}

// counts are rows by what became of them.
type counts struct{ out, dead, skip, pass int }

// ownHeaders is how many bytes our headers may take beside the user's.
const ownHeaders = 4 << 10

// maxRows caps the Embedd-Rows header, maxError the Embedd-Error one.
const (
	maxRows  = 100
	maxError = 1000
)

// answer makes the answer to one input with the model that is live now. It never fails: what cannot be answered
// becomes a dead letter. Where ctx ends first there is no answer, nil.
func (p *pipeline) answer(ctx context.Context, in *input) *answer {
	begin := time.Now()
	a := p.transform(ctx, in)
	if a == nil {
		return nil
	}
	a.seconds = time.Since(begin).Seconds()
	p.tail.markStored(ctx, a)
	return a
}

func (p *pipeline) transform(ctx context.Context, in *input) *answer {
	a := &answer{in: in, result: "out"}
	m, err := p.stage.Decode(in.data)
	p.teach(in, m, err)
	if err != nil {
		return p.deadMessage(a, err, p.limits.dead)
	}
	age, stale := p.age()
	if stale && p.WhenStale == StalePass {
		return p.pass(a, m, mark(age, stale))
	}
	r, err := p.stage.Transform(ctx, m)
	switch {
	case errors.Is(err, plugin.ErrNoModel):
		a.result, a.rows.skip = "skip", m.Rows()
		return a
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return p.deadMessage(a, err, p.limits.dead)
	}
	marks := mark(age, stale)
	bodies, err := p.encode(in, r, marks)
	if err != nil {
		return p.deadMessage(a, err, p.limits.dead)
	}
	for i, body := range bodies {
		a.parts = append(a.parts, p.outgoing(in, wire.AnswerOut, i, p.Output, body,
			slices.Concat(r.Live.Metadata(), in.origin.Pairs(i, len(bodies)), marks)))
	}
	a.rows.skip = r.Skipped
	a.rows.dead = r.RejectedRows()
	a.rows.out = m.Rows() - a.rows.skip - a.rows.dead
	if a.rows.dead > 0 {
		part, err := p.deadRows(in, r)
		if err != nil {
			return p.deadMessage(a, err, p.limits.dead)
		}
		a.parts = append(a.parts, part)
	}
	return a
}

// pass answers a message with itself: no model is fresh enough to reduce it.
func (p *pipeline) pass(a *answer, m *arrowio.Message, marks []wire.Pair) *answer {
	in := a.in
	a.result, a.rows.pass = "pass", m.Rows()
	a.parts = []*outgoing{p.outgoing(in, wire.AnswerOut, 0, p.Output, in.data,
		slices.Concat([]wire.Pair{wire.VersionPair()}, in.origin.Pairs(0, 1), marks))}
	return a
}

// encode writes the output, in as many parts as the limits ask for. A row that alone is over the limit leaves as a
// dead letter and the others go on.
func (p *pipeline) encode(in *input, r *plugin.Result, marks []wire.Pair) ([][]byte, error) {
	limit := int(p.maxBody(p.limits.out, in))
	for {
		bodies, err := p.stage.Split(r, limit,
			func(part, parts int) []wire.Pair { return slices.Concat(in.origin.Pairs(part, parts), marks) })
		var wide *arrowio.Error
		if err == nil || !errors.As(err, &wide) || wide.Code != wire.TooWide || wide.Row < 0 {
			return bodies, err
		}
		if r.RejectedRows() >= maxRows {
			return nil, err
		}
		r.Reject(wide.Batch, wide.Row, arrowio.Fault{Row: wide.Row, Feature: wide.Column,
			What: wide.Detail + "; " + wide.Hint})
	}
}

// maxBody is how many bytes a message's body may take.
func (p *pipeline) maxBody(streamLimit int64, in *input) int64 {
	limit := p.nc.MaxPayload()
	if streamLimit > 0 {
		limit = min(limit, streamLimit)
	}
	return limit - ownHeaders - headerBytes(in.header)
}

func headerBytes(h nats.Header) (n int64) {
	for k, vs := range h {
		for _, v := range vs {
			n += int64(len(k) + len(v) + 4)
		}
	}
	return n
}

// outgoing is a message with the user's own headers, ours, and its identity.
func (p *pipeline) outgoing(in *input, kind wire.Answer, part int, subject string, body []byte,
	pairs []wire.Pair) *outgoing {
	msg := nats.NewMsg(subject)
	msg.Data = body
	for k, v := range in.header {
		// A dead letter that is sent in again must not carry the error of its first try.
		if !strings.HasPrefix(k, "Nats-") && !strings.HasPrefix(k, wire.Prefix) {
			msg.Header[k] = v
		}
	}
	msg.Header.Set(wire.HeaderContentType, wire.ContentType)
	for _, pair := range pairs {
		msg.Header.Set(pair.Key, pair.Value)
	}
	o := &outgoing{msg: msg}
	if in.origin.Stream != "" {
		o.id = in.origin.ID(p.Name, kind, part)
	}
	return o
}

// deadMessage turns an answer into the dead letter of its whole input: the original bytes, and why. limit is that of
// the dead letters' stream.
func (p *pipeline) deadMessage(a *answer, cause error, limit int64) *answer {
	in := a.in
	letter := wire.Letter{Error: sentence(cause), Code: codeOf(cause), Attempts: in.delivered, Origin: in.origin,
		Kind: wire.KindMessage}
	a.parts = []*outgoing{p.dead(in, wire.AnswerDead, in.data, letter.Pairs(), limit)}
	a.result = "dead"
	a.rows = counts{}
	p.log.Debug("dead letter", "source", in.origin.Source(), "error", cause)
	return a
}

// deadRows is the dead letter of the rejected rows of a message.
func (p *pipeline) deadRows(in *input, r *plugin.Result) (*outgoing, error) {
	f := r.Faults[0]
	code, cause := wire.NonFinite, fmt.Errorf(
		"%d of %d rows have features that cannot be projected: row %d, feature %q is %s; mend them, or set schema.nulls to impute or skip",
		r.RejectedRows(), r.Reduced.Message.Rows(), f.Row, f.Feature, f.What)
	if f.Feature == "" {
		code, cause = wire.TooWide, fmt.Errorf("row %d: %s", f.Row, f.What)
	}
	letter := wire.Letter{Error: sentence(cause), Code: code, Attempts: in.delivered, Origin: in.origin,
		Kind: wire.KindRows, Rows: rowList(r)}
	pairs := letter.Pairs()
	body, err := p.stage.EncodeRejected(r, pairs...)
	if err != nil {
		return nil, err
	}
	return p.dead(in, wire.AnswerRows, body, pairs, p.limits.dead), nil
}

// rowList names rejected rows by their place in the message, all batches counted through.
func rowList(r *plugin.Result) string {
	var names []string
	base := 0
	for i, b := range r.Reduced.Message.Batches() {
		for _, row := range r.Rejected[i] {
			if len(names) == maxRows {
				return strings.Join(names, ",") + ",..."
			}
			names = append(names, strconv.Itoa(base+row))
		}
		base += b.Rows()
	}
	return strings.Join(names, ",")
}

// dead is a dead letter; a body that the server would refuse stays behind, and the letter says how long it was.
func (p *pipeline) dead(in *input, kind wire.Answer, body []byte, pairs []wire.Pair, limit int64) *outgoing {
	if int64(len(body)) > p.maxBody(limit, in) {
		pairs = append(pairs, wire.Pair{Key: wire.HeaderTruncated, Value: strconv.Itoa(len(body))})
		body = nil
	}
	o := p.outgoing(in, kind, 0, p.Dead, body, pairs)
	if in.header.Get(wire.HeaderContentType) == "" && kind == wire.AnswerDead {
		o.msg.Header.Del(wire.HeaderContentType) // these bytes need not be Arrow
	}
	return o
}

// codeOf is the code of an error; what carries none is a fault of ours.
func codeOf(cause error) wire.Code {
	var e *arrowio.Error
	if errors.As(cause, &e) {
		return e.Code
	}
	return wire.Internal
}

// sentence fits an error into a header: one line, not too long.
func sentence(err error) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, err.Error())
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "..."
	}
	return s
}
