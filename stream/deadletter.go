package stream

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
)

// maxRows caps the Embedd-Rows header, maxError the Embedd-Error one.
const (
	maxRows  = 100
	maxError = 1000
)

// maxHeader is what a server takes as the headers of one message of a stream. minPart is the least of a body that makes
// a part of a dead letter worth sending, and maxParts the most parts (Invariant 5).
const (
	maxHeader = 64<<10 - 1
	minPart   = 256
	maxParts  = 4096
)

// letter is a dead letter before it is divided among messages: what it says, and the body, which leaves whole.
type letter struct {
	wire.Letter
	in   *input
	kind wire.Answer
	body []byte

	enclosed bool  // in messages that can leave
	most     int64 // bytes that each of them may take
}

// deadMessage turns an answer into the dead letter of its whole input: the original bytes, and why.
func (p *relay) deadMessage(a *answer, cause error) *answer {
	l := newLetter(a.in, wire.AnswerDead, wire.KindMessage, codeOf(cause), cause)
	l.body = a.in.Data
	a.parts, a.letters = nil, nil
	p.enclose(a, l, p.most(&p.limits.dead))
	a.result = "dead"
	a.rows = health.RowCounts{}
	return a
}

// deadRows adds the dead letter of the rejected rows of a message to its answer.
func (p *relay) deadRows(a *answer, r *plugin.Result) error {
	f := r.Faults[0]
	code, cause := wire.NonFinite, fmt.Errorf(
		"%d of %d rows have features that cannot be projected: row %d, feature %q is %s; mend them, or set schema.nulls "+
			"to impute or skip",
		r.RejectedRows(), r.Reduced.Message.Rows(), f.Row, f.Feature, f.What)
	if f.Feature == "" {
		code, cause = wire.TooWide, fmt.Errorf("row %d: %s", f.Row, f.What)
	}
	l := newLetter(a.in, wire.AnswerRows, wire.KindRows, code, cause)
	l.Rows = rowList(r)
	var err error
	if l.body, err = p.Running.EncodeRejected(r, l.Pairs()...); err != nil {
		return err
	}
	p.enclose(a, l, p.most(&p.limits.dead))
	return nil
}

// newLetter is a letter without its body. What is wrong with a message is wrong at its first attempt; that it was held,
// put off or delivered again says nothing of it.
func newLetter(in *input, kind wire.Answer, what wire.Kind, code wire.Code, cause error) *letter {
	return &letter{in: in, kind: kind, Letter: wire.Letter{Error: sentence(cause), Code: code, Attempts: max(in.attempts,
		1),
		Origin: in.Origin, Subject: in.Subject, Kind: what}}
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

// enclose adds a letter to an answer, in messages of at most so many bytes: one, or as many parts as the body needs.
// It adds none where not even the headers fit: then the input cannot leave in any form.
//
// The user's headers go with each part. Those that are too many, and those by which a client would take an empty
// message for the server's own, go into the body instead, before the original bytes.
func (p *relay) enclose(a *answer, l *letter, most int64) {
	a.letters, l.most = append(a.letters, l), most
	pairs, header, body := l.Pairs(), l.in.Header, l.body
	ours := int64(512) // what is added below, the identity, and lines between
	for _, pair := range pairs {
		ours += int64(len(pair.Key) + len(pair.Value) + 4)
	}
	ours = (ours + 1023) &^ 1023 // a longer sentence must not move the borders between the parts
	if users := headerBytes(header); users > headerRoom(most, ours) || len(body) == 0 && header.Get("Status") != "" {
		block := headerBlock(header)
		body = slices.Concat(block, body)
		pairs = append(pairs, wire.Pair{Key: wire.HeaderTruncated, Value: strconv.Itoa(len(block))})
		header = nil
	}
	room := most - ours - headerBytes(header)
	if room < max(minPart, int64(len(body)/maxParts+1)) {
		return
	}
	l.enclosed = true
	parts := max(1, (len(body)+int(room)-1)/int(room))
	kind := l.kind
	if parts > 1 {
		// Parts under other limits are other parts: those of two attempts never mix.
		kind = wire.Answer(fmt.Sprintf("%s/%d", kind, room))
		id := rand.Text()
		if l.Origin.Stream != "" {
			id = l.Origin.ID(p.Name, kind, 0)
		}
		pairs = append(pairs, wire.Pair{Key: wire.HeaderLetter, Value: id})
	}
	for i := range parts {
		of := pairs
		if parts > 1 {
			of = append(slices.Clip(pairs), wire.Pair{Key: wire.HeaderPart, Value: wire.PartOf(i, parts)})
		}
		o := p.outgoing(l.in, kind, i, p.Dead, body[i*int(room):min((i+1)*int(room), len(body))], header, of)
		if l.Kind == wire.KindRows {
			setContentType(o.msg.Header, header)
		}
		o.letter = l
		a.parts = append(a.parts, o)
	}
}

// encloseAgain makes a letter anew in smaller messages than one that was refused.
func (p *relay) encloseAgain(a *answer, refused *outgoing) {
	l := refused.letter
	a.parts = slices.DeleteFunc(a.parts, func(o *outgoing) bool { return o.letter == l })
	a.letters = slices.DeleteFunc(a.letters, func(other *letter) bool { return other == l })
	l.enclosed = false
	most := p.most(&p.limits.dead)
	if most >= l.most {
		most = l.most / 2 // it is not what is known of the stream that it was over
	}
	p.enclose(a, l, most)
}

// headerRoom is how much of a message of so many bytes the user's headers may take beside ours: half of it at most, so
// that a body of many parts does not become many times as long.
func headerRoom(most, ours int64) int64 { return min(maxHeader-ours, most/2) }

// headerBlock writes headers as they travel, the names in order.
func headerBlock(h nats.Header) []byte {
	out := []byte("NATS/1.0\r\n")
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			out = fmt.Appendf(out, "%s: %s\r\n", k, v)
		}
	}
	return append(out, "\r\n"...)
}

// fits tells whether an output has room for the headers of its input.
func (p *relay) fits(in *input) error {
	if len(in.Header) == 0 {
		return nil
	}
	users, room := headerBytes(in.Header), headerRoom(p.most(&p.limits.out), ownHeaders)
	if users <= room {
		return nil
	}
	return &arrowio.Error{Code: wire.LargeHeaders, Row: -1,
		Detail: fmt.Sprintf("the message's headers take %d bytes and an output has room for %d", users, room),
		Hint:   "send fewer or shorter ones"}
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
