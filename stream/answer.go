package stream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
)

// answer is what one input becomes: messages to publish, and what to count once they are confirmed.
type answer struct {
	in      *input
	parts   []*outgoing
	part1   [1]*outgoing // most have one: few objects a message
	letters []*letter    // that parts bring; one that none brings cannot leave in any form
	result  string       // out, dead, skip or pass
	seconds float64      // that decoding, projecting and encoding took
	rows    health.RowCounts

	// Where order is kept:
	next   *answer // of its key: it leaves once this one is settled
	passed bool    // it may
}

// stored tells whether every part is.
func (a *answer) stored() bool {
	return a != nil && !slices.ContainsFunc(a.parts, func(o *outgoing) bool { return !o.stored })
}

// bytes are those of its messages.
func (a *answer) bytes() (n int64) {
	for _, o := range a.parts {
		n += int64(len(o.msg.Data))
	}
	return n
}

// ownHeaders is how many bytes our headers may take in addition to the user's.
const ownHeaders = needs.OwnHeaderBytes

// answer makes the answer to one input with the model that is live now. It never fails: what cannot be answered
// becomes a dead letter. Where ctx ends first there is no answer, nil.
func (p *relay) answer(ctx context.Context, in *input) *answer {
	begin := time.Now()
	a := p.transform(ctx, in)
	if a == nil {
		return nil
	}
	a.seconds = time.Since(begin).Seconds()
	p.busy.Store(begin.UnixNano())
	if in.Delivered > 1 && p.parked.known(a) {
		if err := p.tail.lookUp(ctx, a.doubtful()); err != nil {
			p.Log.Debug("the end of the output cannot be read; it is tried again", "error", err)
		}
		return a
	}
	// What was held for as long as the server waits may have been delivered to, and answered by, another process.
	p.tail.markStored(ctx, a, in.doubt || time.Since(in.at) > p.AckWait)
	p.judge(a) // once
	return a
}

// doubtful are the parts that may be stored.
func (a *answer) doubtful() (parts []*outgoing) {
	for _, o := range a.parts {
		if o.doubt && !o.stored {
			parts = append(parts, o)
		}
	}
	return parts
}

func (p *relay) transform(ctx context.Context, in *input) *answer {
	a := &answer{in: in, result: "out"}
	m, err := p.Running.Decode(in.Data)
	p.training.HandDecoded(&in.Message, &in.training, m, err)
	if err == nil {
		err = p.fits(in)
	}
	if err != nil {
		return p.deadMessage(a, err)
	}
	age, stale := p.Freshness.Age()
	if stale && p.WhenStale == StalePass {
		return p.pass(a, m, p.marks(in, age, stale))
	}
	m, r, err := p.project(ctx, in.Data, m)
	switch {
	case errors.Is(err, plugin.ErrNoModel):
		a.result, a.rows.Skip = "skip", m.Rows()
		return a
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return p.deadMessage(a, err)
	}
	defer p.Running.Release(r)
	marks := p.marks(in, age, stale)
	bodies, pairs, err := p.encode(in, r, marks)
	if err != nil {
		return p.deadMessage(a, err)
	}
	if p.names.live != r.Live {
		p.names.live, p.names.pairs = r.Live, r.Live.Metadata()
	}
	a.parts = a.part1[:0]
	for i, body := range bodies {
		a.parts = append(a.parts, p.reduced(in, i, body, p.names.pairs, pairs[i]))
	}
	a.rows.Skip = r.Skipped
	a.rows.Dead = r.RejectedRows()
	a.rows.Out = m.Rows() - a.rows.Skip - a.rows.Dead
	if a.rows.Dead > 0 {
		if err := p.deadRows(a, r); err != nil {
			return p.deadMessage(a, err)
		}
	}
	return a
}

// project transforms a message. One that was decoded before the schema was known is decoded again.
func (p *relay) project(ctx context.Context, data []byte, m *arrowio.Message) (*arrowio.Message, *plugin.Result,
	error) {
	r, err := p.Running.Transform(ctx, m)
	if errors.Is(err, plugin.ErrContract) {
		if m, err = p.Running.Decode(data); err != nil {
			return nil, nil, err
		}
		r, err = p.Running.Transform(ctx, m)
	}
	return m, r, err
}

// pass answers a message with itself: no model is fresh enough to reduce it.
func (p *relay) pass(a *answer, m *arrowio.Message, marks []wire.Pair) *answer {
	in := a.in
	a.result, a.rows.Pass = "pass", m.Rows()
	a.parts = []*outgoing{p.reduced(in, 0, in.Data,
		slices.Concat([]wire.Pair{wire.VersionPair()}, in.Origin.Pairs(0, 1), marks))}
	return a
}

// encode writes the output, in as many parts as the limits ask for, and says what names each of them beside its
// model. A row that alone is over the limit leaves as a dead letter and the others go on.
func (p *relay) encode(in *input, r *plugin.Result, marks []wire.Pair) (bodies [][]byte, pairs [][]wire.Pair,
	err error) {
	limit := int(p.maxBody(in))
	for {
		pairs = pairs[:0]
		bodies, err = p.Running.Split(r, limit, func(part, parts int) []wire.Pair {
			pairs = append(pairs, append(in.Origin.Pairs(part, parts), marks...))
			return pairs[part]
		})
		var wide *arrowio.Error
		if err == nil || !errors.As(err, &wide) || wide.Code != wire.TooWide || wide.Row < 0 {
			return bodies, pairs, err
		}
		if r.RejectedRows()+len(wide.Also) >= maxRows {
			return nil, nil, err
		}
		for _, w := range append([]*arrowio.Error{wide}, wide.Also...) {
			r.Reject(w.Batch, w.Row, arrowio.Fault{Row: w.Row, Feature: w.Column, What: w.Detail + "; " + w.Hint})
		}
	}
}

// maxBody is how many bytes an output's body may take.
func (p *relay) maxBody(in *input) int64 {
	return p.most(&p.limits.out) - ownHeaders - headerBytes(in.Header)
}

// most is how many bytes a message may take: what the server takes, and the stream where it has a limit of its own.
func (p *relay) most(stream *atomic.Int64) int64 {
	most := p.Conn.MaxPayload()
	if limit := stream.Load(); limit > 0 {
		most = min(most, limit)
	}
	return most
}

// headerBytes is what of the user's headers is copied.
func headerBytes(h nats.Header) (n int64) {
	for k, vs := range h {
		if wire.Reserved(k) {
			continue
		}
		for _, v := range vs {
			n += int64(len(k) + len(v) + 4)
		}
	}
	return n
}

// outgoing is a message with the user's own headers, ours, and its identity.
func (p *relay) outgoing(in *input, kind wire.Answer, part int, subject string, body []byte, header nats.Header,
	pairs ...[]wire.Pair) *outgoing {
	one := &struct { // few objects a message: a small one takes no longer than they do
		outgoing
		nats.Msg
		values [10]string
	}{Msg: nats.Msg{Subject: subject, Data: body, Header: make(nats.Header, len(header)+8)}}
	o := &one.outgoing
	o.msg = &one.Msg
	for k, v := range header {
		// A dead letter that is sent in again must not carry the error of its first try.
		if !wire.Reserved(k) {
			o.msg.Header[k] = v
		}
	}
	values := one.values[:0]
	for _, some := range pairs {
		for _, pair := range some {
			values = append(values, pair.Value)
			o.msg.Header[pair.Key] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	if in.Origin.Stream != "" {
		o.id, o.sink = in.Origin.ID(p.Name, kind, part), p.tail.of(subject)
	}
	return o
}

// reduced is a part of an output.
func (p *relay) reduced(in *input, part int, body []byte, pairs ...[]wire.Pair) *outgoing {
	o := p.outgoing(in, wire.AnswerOut, part, p.Output, body, in.Header, pairs...)
	setContentType(o.msg.Header, in.Header)
	return o
}

// setContentType says that a body is Arrow, whatever the input said of its own and in whatever case of letters.
func setContentType(h, users nats.Header) {
	for k := range users {
		if strings.EqualFold(k, wire.HeaderContentType) {
			delete(h, k)
		}
	}
	h[wire.HeaderContentType] = arrowStream
}

// arrowStream is the value of that header, which no one writes to.
var arrowStream = []string{wire.ContentType}
