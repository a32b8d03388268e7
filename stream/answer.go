package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/plugin"
)

// answer is what one input becomes: messages to publish, and what to count once they are confirmed.
type answer struct {
	in      *input
	parts   []*outgoing
	result  string  // out, dead or skip
	seconds float64 // that decoding, projecting and encoding took
	rows    struct{ out, dead, skip int }
}

// The contents of Content-Type and the headers of the wire.
const (
	contentType = "application/vnd.apache.arrow.stream"

	headerSource    = "Embedd-Source"
	headerPart      = "Embedd-Part"
	headerError     = "Embedd-Error"
	headerCode      = "Embedd-Code"
	headerAttempts  = "Embedd-Attempts"
	headerKind      = "Embedd-Kind"
	headerRows      = "Embedd-Rows"
	headerTruncated = "Embedd-Truncated"
)

// ownHeaders is the room that our headers may take beside the user's.
const ownHeaders = 4 << 10

// mostRows caps the Embedd-Rows header, mostError the Embedd-Error one.
const (
	mostRows  = 100
	mostError = 1000
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
	p.tail.strike(ctx, a)
	return a
}

func (p *pipeline) transform(ctx context.Context, in *input) *answer {
	a := &answer{in: in, result: "out"}
	m, err := p.stage.Decode(in.data)
	if err != nil {
		return p.deadMessage(a, err, p.limits.dead)
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
	bodies, err := p.encode(in, r)
	if err != nil {
		return p.deadMessage(a, err, p.limits.dead)
	}
	for i, body := range bodies {
		a.parts = append(a.parts, p.outgoing(in, kindOut, i, p.Output, body, append(r.Live.Metadata(), p.pairs(in, i, len(bodies))...)))
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

// encode writes the output, in as many parts as the limits ask for. A row that alone is over the limit leaves as a dead letter and
// the others go on.
func (p *pipeline) encode(in *input, r *plugin.Result) ([][]byte, error) {
	limit := int(p.room(p.limits.out, in))
	for {
		bodies, err := p.stage.Split(r, limit, func(part, parts int) []arrowio.Pair { return p.pairs(in, part, parts) })
		var wide *arrowio.Error
		if err == nil || !errors.As(err, &wide) || wide.Code != arrowio.TooWide || wide.Row < 0 {
			return bodies, err
		}
		if r.RejectedRows() >= mostRows {
			return nil, err
		}
		r.Reject(wide.Batch, wide.Row, arrowio.Fault{Row: wide.Row, Feature: wide.Column, What: wide.Detail + "; " + wide.Hint})
	}
}

// room is how many bytes a message's body may take.
func (p *pipeline) room(streamLimit int64, in *input) int64 {
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

// pairs say where an output comes from.
func (p *pipeline) pairs(in *input, part, parts int) []arrowio.Pair {
	var out []arrowio.Pair
	if in.origin.stream != "" {
		out = append(out, arrowio.Pair{Key: headerSource, Value: in.origin.source()})
	}
	if parts > 1 {
		out = append(out, arrowio.Pair{Key: headerPart, Value: fmt.Sprintf("%d/%d", part+1, parts)})
	}
	return out
}

// outgoing is a message with the user's own headers, ours, and its identity.
func (p *pipeline) outgoing(in *input, kind string, part int, subject string, body []byte, pairs []arrowio.Pair) *outgoing {
	msg := nats.NewMsg(subject)
	msg.Data = body
	for k, v := range in.header {
		// A dead letter that is sent in again must not carry the error of its first try.
		if !strings.HasPrefix(k, "Nats-") && !strings.HasPrefix(k, "Embedd-") {
			msg.Header[k] = v
		}
	}
	msg.Header.Set("Content-Type", contentType)
	for _, pair := range pairs {
		msg.Header.Set(pair.Key, pair.Value)
	}
	o := &outgoing{msg: msg}
	if in.origin.stream != "" {
		o.id = in.origin.id(p.Name, kind, part)
	}
	return o
}

// deadMessage turns an answer into the dead letter of its whole input: the original bytes, and why. limit is that of the dead letters'
// stream.
func (p *pipeline) deadMessage(a *answer, cause error, limit int64) *answer {
	in := a.in
	pairs := append(p.deadPairs(cause), p.pairs(in, 0, 1)...)
	pairs = append(pairs, arrowio.Pair{Key: headerKind, Value: "message"})
	a.parts = []*outgoing{p.dead(in, kindDead, in.data, pairs, limit)}
	a.result = "dead"
	a.rows = struct{ out, dead, skip int }{}
	p.log.Debug("dead letter", "source", in.origin.source(), "error", cause)
	return a
}

// deadRows is the dead letter of the rejected rows of a message.
func (p *pipeline) deadRows(in *input, r *plugin.Result) (*outgoing, error) {
	f := r.Faults[0]
	cause := fmt.Errorf("%d of %d rows have features that cannot be projected: row %d, feature %q is %s; mend them, or set schema.nulls to impute or skip",
		r.RejectedRows(), r.Reduced.Message.Rows(), f.Row, f.Feature, f.What)
	pairs := []arrowio.Pair{{Key: headerError, Value: sentence(cause)}, {Key: headerCode, Value: "non_finite"}, {Key: headerAttempts, Value: "1"}}
	if f.Feature == "" {
		pairs[0].Value, pairs[1].Value = sentence(fmt.Errorf("row %d: %s", f.Row, f.What)), string(arrowio.TooWide)
	}
	pairs = append(pairs, p.pairs(in, 0, 1)...)
	pairs = append(pairs, arrowio.Pair{Key: headerKind, Value: "rows"}, arrowio.Pair{Key: headerRows, Value: rowList(r)})
	body, err := p.stage.EncodeRejected(r, pairs...)
	if err != nil {
		return nil, err
	}
	return p.dead(in, kindRows, body, pairs, p.limits.dead), nil
}

// rowList names rejected rows by their place in the message, all batches counted through.
func rowList(r *plugin.Result) string {
	var names []string
	base := 0
	for i, b := range r.Reduced.Message.Batches() {
		for _, row := range r.Rejected[i] {
			if len(names) == mostRows {
				return strings.Join(names, ",") + ",..."
			}
			names = append(names, strconv.Itoa(base+row))
		}
		base += b.Rows()
	}
	return strings.Join(names, ",")
}

// dead is a dead letter; a body that the server would refuse stays behind, and the letter says how long it was.
func (p *pipeline) dead(in *input, kind string, body []byte, pairs []arrowio.Pair, limit int64) *outgoing {
	if int64(len(body)) > p.room(limit, in) {
		pairs = append(pairs, arrowio.Pair{Key: headerTruncated, Value: strconv.Itoa(len(body))})
		body = nil
	}
	o := p.outgoing(in, kind, 0, p.Dead, body, pairs)
	if in.header.Get("Content-Type") == "" && kind == kindDead {
		o.msg.Header.Del("Content-Type") // nobody said that these bytes are Arrow
	}
	return o
}

func (p *pipeline) deadPairs(cause error) []arrowio.Pair {
	code := string(arrowio.Internal)
	var e *arrowio.Error
	if errors.As(cause, &e) {
		code = string(e.Code)
	}
	return []arrowio.Pair{{Key: headerError, Value: sentence(cause)}, {Key: headerCode, Value: code}, {Key: headerAttempts, Value: "1"}}
}

// sentence fits an error into a header: one line, not too long.
func sentence(err error) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, err.Error())
	if len(s) > mostError {
		s = strings.ToValidUTF8(s[:mostError], "") + "..."
	}
	return s
}
