package relay

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
)

// composer builds the messages of answers: their headers, identities and sizes. It publishes nothing.
type composer struct {
	*hotPath
	mapping *wildcard.Mapping // of the input's subject to that of its outputs

	headers sync.Pool // of nats.Header: empty ones, of confirmed outputs
}

// maxReusedHeader is how many entries a header may have whose memory is reused. Maps with more of them take much more.
const maxReusedHeader = 8

// newHeader returns an empty header, with room for the headers of embedd and n others.
func (c *composer) newHeader(n int) nats.Header {
	if h, ok := c.headers.Get().(nats.Header); ok {
		return h
	}
	return make(nats.Header, n+8)
}

// reuseHeader makes the memory of a header available to later ones. The header must not be used after it.
func (c *composer) reuseHeader(h nats.Header) {
	if len(h) <= maxReusedHeader {
		clear(h)
		c.headers.Put(h)
	}
}

// ownHeaders is how many bytes the headers of embedd may take, without the headers that are copied from the input. One
// of them has the input's subject.
func (c *composer) ownHeaders(in *input) int64 {
	return needs.OwnHeaderBytes + max(0, int64(len(in.Subject))-usualSubject)
}

// usualSubject is how many bytes of the input's subject needs.OwnHeaderBytes has room for.
const usualSubject = 512

// maxHeaderBytes is the largest size of headers that a server stores.
const maxHeaderBytes = 64<<10 - 1

// maxOutputBody is how many bytes the body of an output may take, 1 if the headers leave none.
func (c *composer) maxOutputBody(in *input) int64 {
	return max(1, c.maxBytes(c.outputs)-c.ownHeaders(in)-headerBytes(in.Header))
}

// maxBytes is how many bytes a message may take: the lower of the server's max_payload and the stream's limit.
func (c *composer) maxBytes(to *sink) int64 {
	limit := c.Conn.MaxPayload()
	if to != nil && to.maxMsgSize.Load() > 0 {
		limit = min(limit, to.maxMsgSize.Load())
	}
	return limit
}

// headerBytes is the size of the headers of an input that are copied to its answer.
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

// headerRoom is how many bytes of a message the headers of the input may take next to ours: at most half, so that the
// headers of a body in many parts do not multiply its size.
func headerRoom(message, ours int64) int64 { return min(maxHeaderBytes-ours, message/2) }

// checkHeaders returns an error if an output has no room for the headers of its input.
func (c *composer) checkHeaders(in *input) error {
	if len(in.Header) == 0 {
		return nil
	}
	size, room := headerBytes(in.Header), headerRoom(c.maxBytes(c.outputs), c.ownHeaders(in))
	if size <= room {
		return nil
	}
	return &arrowio.Error{Code: wire.LargeHeaders, Row: -1,
		Detail: fmt.Sprintf("the message's headers take %d bytes and an output has room for %d", size, room),
		Hint:   "send fewer or shorter ones"}
}

// mapSubject finds the subject of the outputs of an input.
func (c *composer) mapSubject(in *input) (err error) {
	if in.output, err = c.mapping.Map(in.Subject); err == nil {
		return nil
	}
	return &arrowio.Error{Code: wire.BadSubject, Row: -1, Detail: fmt.Sprintf("output.subject is %s, and the message has "+
		"none there: %v", c.Output, err), Hint: "publish it to a subject without wildcards, and with shorter tokens"}
}

// newPart returns a message with the headers of the input that the client can send, those of embedd, and its identity.
func (c *composer) newPart(in *input, kind wire.Answer, index int, to *sink, subject string, body []byte,
	header nats.Header, pairs ...[]wire.Pair) *part {
	one := &struct { // one allocation in place of three
		part
		nats.Msg
		values [12]string
	}{Msg: nats.Msg{Subject: subject, Data: body, Header: c.newHeader(len(header))}}
	o := &one.part
	o.msg = &one.Msg
	for k, v := range header {
		// A dead letter that is replayed must not carry the error of its first attempt.
		if !wire.Reserved(k) && natsx.CanSendHeader(k) {
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
	addParent(o.msg.Header, in.span)
	o.in, o.kind, o.index, o.sink, o.id = in, kind, index, to, c.identities.of(in.Origin, kind, index)
	return o
}

func (c *composer) newOutput(in *input, index int, body []byte, pairs ...[]wire.Pair) *part {
	o := c.newPart(in, wire.AnswerOut, index, c.outputs, in.output, body, in.Header, pairs...)
	setContentType(o.msg.Header, in.Header, c.Stage.Output.Format)
	if len(body) == 0 { // NDJSON without rows: clients would take it for a message of the server
		maps.DeleteFunc(o.msg.Header, func(k string, _ []string) bool { return strings.EqualFold(k, "Status") })
	}
	return o
}

// setContentType replaces the headers of the input that describe its body with the content type of a format.
func setContentType(h, inputs nats.Header, f wire.Format) {
	for k := range inputs {
		if wire.DescribesBody(k) {
			delete(h, k)
		}
	}
	h[wire.HeaderContentType] = contentTypes[f]
}

// contentTypes has the value of that header for each format. They must not be changed.
var contentTypes = map[wire.Format][]string{"": {wire.ContentType}}

func init() {
	for _, f := range wire.Formats {
		contentTypes[f] = []string{f.ContentType()}
	}
}
