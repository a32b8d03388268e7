package relay

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/bound"
)

// FuzzHeaders: whatever headers a message has, its output has no header of the server's or of embedd's that is not our
// own, and its dead letter is whole, in messages that fit, or none is made.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte("Trace: a\r\nTrace: b\r\ntraceparent: 00-1\r\n"), []byte("body"), "what was wrong", uint16(4096))
	f.Add([]byte("nats-msg-id: 1\r\nEMBEDD-model: x\r\ncontent-type: text\r\nStatus: 409\r\n"), []byte{}, "line\r\nbreak",
		uint16(2048))
	f.Add([]byte("X: "+strings.Repeat("h", 3000)+"\r\n"), bytes.Repeat([]byte("b"), 5000), strings.Repeat("e", 2000),
		uint16(6000))
	f.Add([]byte(" 503\r\n: \r\nK:\r\n"), []byte{0}, "\x00\xff", uint16(500))
	p := &composer{hotPath: &hotPath{Scope: &scope.Scope{Pipeline: spec.Pipeline{Name: "p", Output: "out", Dead: "dead"}},
		identities: newIdentities()}}
	f.Fuzz(func(t *testing.T, lines, body []byte, text string, most uint16) {
		bound.Check(t, 64<<20+64*uint64(len(lines)+len(body)), func() {
			header, err := nats.DecodeHeadersMsg(slices.Concat([]byte("NATS/1.0\r\n"), lines, []byte("\r\n")))
			if err != nil {
				return // the client would not have handed it out
			}
			in := &input{Message: scope.Message{Header: header, Data: body, Subject: "in",
				Origin: wire.Origin{Stream: "S", Created: time.Unix(1, 0), Seq: 7}}}
			model := []wire.Pair{{Key: wire.HeaderModel, Value: "v"}, {Key: wire.HeaderEpoch, Value: "1"}}
			checkCopied(t, header, p.newOutput(in, 0, []byte("rows"), model).msg.Header, append(model,
				wire.Pair{Key: wire.HeaderContentType, Value: wire.ContentType}))
			a := &answer{in: in}
			l := p.newDeadLetter(in, wire.AnswerDead, wire.KindMessage, wire.Malformed, errors.New(text))
			l.body = body
			p.addDeadLetter(a, l, int64(most))
			if !l.isPublishable {
				if len(a.parts) > 0 {
					t.Errorf("%d parts of a letter that cannot leave", len(a.parts))
				}
				return
			}
			var whole []byte
			for _, o := range a.parts {
				if n := headerBytes(o.msg.Header) + int64(len(o.msg.Data)); n > int64(most) {
					t.Errorf("a part of %d bytes where %d fit", n, most)
				}
				if s := o.msg.Header.Get(wire.HeaderError); strings.ContainsAny(s, "\r\n") {
					t.Errorf("the sentence is %q", s)
				}
				checkCopied(t, header, o.msg.Header, l.Pairs())
				whole = append(whole, o.msg.Data...)
			}
			if cut := a.parts[0].msg.Header.Get(wire.HeaderTruncated); cut != "" {
				n, err := strconv.Atoi(cut)
				if err != nil || n > len(whole) {
					t.Fatalf("%q bytes of headers before a body of %d", cut, len(whole))
				}
				whole = whole[n:]
			}
			if !bytes.Equal(whole, body) {
				t.Errorf("%d bytes of a body of %d", len(whole), len(body))
			}
		})
	})
}

// checkCopied checks that the headers of an answer are ours, unchanged, and the user's that are not reserved.
func checkCopied(t *testing.T, in, out nats.Header, ours []wire.Pair) {
	t.Helper()
	for _, pair := range ours {
		if got := out[pair.Key]; len(got) != 1 || got[0] != pair.Value {
			t.Errorf("%s is %q, want %q", pair.Key, got, pair.Value)
		}
	}
	for k, v := range out {
		mine := slices.ContainsFunc(ours, func(p wire.Pair) bool { return p.Key == k }) || k == wire.HeaderPart ||
			k == wire.HeaderLetter || k == wire.HeaderTruncated
		if !mine && (wire.Reserved(k) || !slices.Equal(v, in[k])) {
			t.Errorf("header %q: %q leaves, and %q came", k, v, in[k])
		}
	}
}

// TestCopiedHeaders: which headers of an input its output has, its rows that became a dead letter, and its own dead
// letter. What describes the body is copied with the body alone; what the server acts on is never copied.
func TestCopiedHeaders(t *testing.T) {
	p := &composer{hotPath: &hotPath{Scope: &scope.Scope{Pipeline: spec.Pipeline{Name: "p", Output: "out", Dead: "dead"}},
		identities: newIdentities()}}
	const never, withBody, always = 0, 1, 2
	kinds := map[string]int{}
	for kind, names := range map[int]string{
		never: "Nats-Msg-Id Nats-Expected-Stream Nats-Expected-Last-Sequence Nats-Expected-Last-Subject-Sequence " +
			"Nats-Expected-Last-Msg-Id Nats-TTL Nats-Rollup Nats-Schedule Nats-Schedule-TTL Nats-Schedule-Target Nats-Incr " +
			"Nats-Batch-Id Nats-Batch-Sequence Nats-Batch-Commit Nats-Marker-Reason Nats-Trace-Dest Nats-Stream-Source " +
			wire.HeaderModel + " " + wire.HeaderCode,
		withBody: "Content-Encoding Content-Length Content-MD5 Content-Digest Content-Range Digest ETag Repr-Digest " +
			"Transfer-Encoding",
		always: "traceparent tracestate X-Trace Content-Language Date Status",
	} {
		for _, name := range strings.Fields(names) {
			kinds[name], kinds[strings.ToLower(name)] = kind, kind
		}
	}
	header := nats.Header{}
	for name := range kinds {
		header[name] = []string{"v"}
	}
	in := &input{Message: scope.Message{Header: header, Data: []byte("b"), Subject: "in"}}
	letter := func(kind wire.Kind) nats.Header {
		a := &answer{in: in}
		l := p.newDeadLetter(in, wire.AnswerDead, kind, wire.Malformed, errors.New("e"))
		l.body = in.Data
		p.addDeadLetter(a, l, 1<<20)
		return a.parts[0].msg.Header
	}
	for what, c := range map[string]struct {
		header nats.Header
		least  int
	}{
		"output": {p.newOutput(in, 0, []byte("rows")).msg.Header, always},
		"rows":   {letter(wire.KindRows), always},
		"dead":   {letter(wire.KindMessage), withBody},
	} {
		for name, kind := range kinds {
			if got := slices.Equal(c.header[name], []string{"v"}); got != (kind >= c.least) {
				t.Errorf("%s: %s is copied: %t", what, name, got)
			}
		}
	}
}

// TestStatusOfOutputWithoutRows: an output of NDJSON without rows is empty, and must not look like a message of the
// server.
func TestStatusOfOutputWithoutRows(t *testing.T) {
	p := &composer{hotPath: &hotPath{Scope: &scope.Scope{Pipeline: spec.Pipeline{Name: "p", Output: "out", Dead: "dead"}},
		identities: newIdentities()}}
	in := &input{Message: scope.Message{Header: nats.Header{"Status": {"409"}, "status": {"1"}, "Trace": {"a"}}}}
	for _, body := range []string{"", "rows"} {
		h := p.newOutput(in, 0, []byte(body)).msg.Header
		if hasStatus := h["Status"] != nil || h["status"] != nil; hasStatus != (body != "") || h.Get("Trace") != "a" {
			t.Errorf("%q has the headers %v", body, h)
		}
	}
}

// TestReusedHeader: a header in the memory of an earlier one has no entry of it.
func TestReusedHeader(t *testing.T) {
	c := &composer{}
	for range 100 { // a pool may return nothing
		h := c.newHeader(0)
		if len(h) > 0 {
			t.Fatalf("a new header has %v", h)
		}
		h["Trace"] = []string{"1"}
		c.reuseHeader(h)
	}
}
