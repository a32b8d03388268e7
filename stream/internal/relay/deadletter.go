package relay

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
)

// maxListedRows bounds the rows in the header Embedd-Rows, maxErrorText the bytes of Embedd-Error.
const (
	maxListedRows = 100
	maxErrorText  = 1000
)

// minPartBody is the smallest body with which a part of a dead letter is worth sending, and maxParts the largest number
// of parts (Invariant 5).
const (
	minPartBody = 256
	maxParts    = 4096
)

// deadMessage turns an answer into the dead letter of its whole input: the original bytes and the error.
func (c *composer) deadMessage(a *answer, cause error) *answer {
	l := c.newDeadLetter(a.in, wire.AnswerDead, wire.KindMessage, scope.CodeOf(cause), cause)
	l.body = a.in.Data
	a.parts, a.deadLetters = nil, nil
	c.addDeadLetter(a, l, c.maxBytes(c.deadLetters))
	a.result = "dead"
	a.rows = health.RowCounts{}
	return a
}

// addRejectedRows adds the dead letter of the rejected rows of a message to its answer.
func (c *composer) addRejectedRows(a *answer, r *plugin.Result) error {
	code, cause := RejectionOf(r)
	l := c.newDeadLetter(a.in, wire.AnswerRows, wire.KindRows, code, cause)
	l.Rows = rejectedIndices(r)
	var err error
	if l.body, err = c.Running.EncodeRejected(r, l.Pairs()...); err != nil {
		return err
	}
	c.addDeadLetter(a, l, c.maxBytes(c.deadLetters))
	return nil
}

// RejectionOf returns the code and the error of the first rejected row of a result, for all of them.
func RejectionOf(r *plugin.Result) (wire.Code, error) {
	f := r.Faults[0]
	switch {
	case f.Code != "":
		return f.Code, fmt.Errorf("%d of %d rows cannot be used: %w; correct and send them again", r.RejectedRows(),
			r.Reduced.Message.Rows(), &arrowio.Error{Code: f.Code, Row: f.Row, Column: f.Feature, Detail: f.What})
	case f.Feature == "":
		return wire.TooWide, fmt.Errorf("row %d: %s", f.Row, f.What)
	}
	return wire.NonFinite, fmt.Errorf(
		"%d of %d rows have features that cannot be projected: row %d, feature %q is %s; fix them, or set "+
			"schema.nulls to impute or skip",
		r.RejectedRows(), r.Reduced.Message.Rows(), f.Row, f.Feature, f.What)
}

// newDeadLetter returns a dead letter without its body. Attempts counts failures of processing: deliveries of a message
// that waited or was postponed do not count.
func (c *composer) newDeadLetter(in *input, kind wire.Answer, what wire.Kind, code wire.Code, cause error) *deadLetter {
	return &deadLetter{kind: kind, Letter: wire.Letter{Error: HeaderText(cause), Code: code,
		Attempts: max(in.attempts, 1), Origin: in.Origin, Subject: in.Subject, Pipeline: c.Name, Kind: what}}
}

// rejectedIndices lists the indices of rejected rows in the message, counted through all batches.
func rejectedIndices(r *plugin.Result) string {
	var names []string
	base := 0
	for i, b := range r.Reduced.Message.Batches() {
		for _, row := range r.Rejected[i] {
			if len(names) == maxListedRows {
				return strings.Join(names, ",") + ",..."
			}
			names = append(names, strconv.Itoa(base+row))
		}
		base += b.Rows()
	}
	return strings.Join(names, ",")
}

// addDeadLetter adds a dead letter to an answer, in as many messages of at most limit bytes as it needs; none if not
// even the headers fit. Each message has the headers of the input. If they are too large, if the client cannot send
// them, or if a client would take an empty message with them for one of the server, they are written before the
// original bytes in the body.
func (c *composer) addDeadLetter(a *answer, l *deadLetter, limit int64) {
	a.deadLetters, l.limit = append(a.deadLetters, l), limit
	pairs, header, body := l.Pairs(), a.in.Header, l.body
	ours := int64(512) // for the headers that are added below, the identity, and line breaks
	for _, pair := range pairs {
		ours += int64(len(pair.Key) + len(pair.Value) + 4)
	}
	ours = (ours + 1023) &^ 1023 // a longer error text must not change how the body is split
	if size := headerBytes(header); size > headerRoom(limit, ours) || !canSend(header) ||
		len(body) == 0 && header.Get("Status") != "" {
		block := headerBlock(header)
		body = slices.Concat(block, body)
		pairs = append(pairs, wire.Pair{Key: wire.HeaderTruncated, Value: strconv.Itoa(len(block))})
		header = nil
	}
	room := limit - ours - headerBytes(header)
	if room < max(minPartBody, int64(len(body)/maxParts+1)) {
		return
	}
	l.isPublishable = true
	parts := max(1, (len(body)+int(room)-1)/int(room))
	kind := l.kind
	if parts > 1 {
		// The bytes of a part are in its identity, so that parts of attempts under different limits never mix.
		kind = wire.Answer(fmt.Sprintf("%s/%d", kind, room))
		id := cmp.Or(c.identities.of(l.Origin, kind, 0), rand.Text())
		pairs = append(pairs, wire.Pair{Key: wire.HeaderLetter, Value: id})
	}
	for i := range parts {
		own := pairs
		if parts > 1 {
			own = append(slices.Clip(pairs), wire.Pair{Key: wire.HeaderPart, Value: wire.PartOf(i, parts)})
		}
		body := body[i*int(room) : min((i+1)*int(room), len(body))]
		o := c.newPart(a.in, kind, i, c.deadLetters, c.Dead, body, header, own)
		if l.Kind == wire.KindRows {
			setContentType(o.msg.Header, header, c.Stage.Spec.Format)
		}
		o.deadLetter = l
		a.parts = append(a.parts, o)
	}
}

// splitDeadLetter replaces the messages of a dead letter, of which one was refused for its size, with smaller ones.
func (c *composer) splitDeadLetter(a *answer, refused *part) {
	l := refused.deadLetter
	a.parts = slices.DeleteFunc(a.parts, func(o *part) bool { return o.deadLetter == l })
	a.deadLetters = slices.DeleteFunc(a.deadLetters, func(other *deadLetter) bool { return other == l })
	l.isPublishable = false
	limit := c.maxBytes(c.deadLetters)
	if limit >= l.limit {
		limit = l.limit / 2 // the limit that is known is not the one that it exceeds
	}
	c.addDeadLetter(a, l, limit)
}

// canSend reports whether the client can send all headers of an input that are copied.
func canSend(h nats.Header) bool {
	for k := range h {
		if !wire.Reserved(k) && !natsx.CanSendHeader(k) {
			return false
		}
	}
	return true
}

// headerBlock encodes headers as NATS sends them, in the order of their names.
func headerBlock(h nats.Header) []byte {
	out := []byte("NATS/1.0\r\n")
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			out = fmt.Appendf(out, "%s: %s\r\n", k, v)
		}
	}
	return append(out, "\r\n"...)
}

// HeaderText is the text of an error as the value of a header: one line of bounded length.
func HeaderText(err error) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, err.Error())
	if len(s) > maxErrorText {
		s = strings.ToValidUTF8(s[:maxErrorText], "") + "..."
	}
	return s
}
