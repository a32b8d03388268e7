package relay

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/dlq"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// FuzzEnclose: whatever the headers and the bytes of a message, and however little a message of the dead letters may
// take, its letter is within that, and gives them back.
func FuzzEnclose(f *testing.F) {
	f.Add([]byte("Trace: a\r\nTrace: b\r\n"), []byte("no Arrow"), 1<<20)
	f.Add([]byte("Status: 409\r\n"), []byte{}, 1<<20)
	f.Add([]byte("X: "+string(bytes.Repeat([]byte("h"), 1500))+"\r\n"), bytes.Repeat([]byte("b"), 3000), 2500)
	f.Add([]byte("nats-msg-id: a\r\nembedd-code: b\r\nContent-Type: c\r\n"), bytes.Repeat([]byte("b"), 5000), 3000)
	f.Fuzz(func(t *testing.T, raw, body []byte, most int) {
		raw = append([]byte("NATS/1.0\r\n"), raw...)
		header, err := nats.DecodeHeadersMsg(append(raw, "\r\n\r\n"...))
		if err != nil {
			return // no message of that kind arrives
		}
		for _, stream := range []string{"in", ""} {
			p := &composer{hotPath: &hotPath{Scope: &scope.Scope{Pipeline: spec.Pipeline{Name: "p", Dead: "dead"}},
				dedup: newDedup(nil, nil, spec.DefaultAckPending, nil), identities: newIdentities()}}
			in := &input{Message: scope.Message{Subject: "in.x", Header: header, Data: body,
				Origin: wire.Origin{Stream: stream, Created: time.Unix(1, 2), Seq: 7}}}
			l := p.newDeadLetter(in, wire.AnswerDead, wire.KindMessage, wire.NotArrow, wire.NotArrow)
			l.body = body
			a := &answer{in: in}
			p.addDeadLetter(a, l, int64(most))
			if l.isPublishable != (len(a.parts) > 0) || !l.isPublishable && most > 64<<10 && len(body) < 1<<26 {
				t.Fatalf("isPublishable %t in %d messages of %d bytes", l.isPublishable, len(a.parts), most)
			}
			if !l.isPublishable {
				continue
			}
			whole := dlq.DeadLetter{Header: a.parts[0].msg.Header, Parts: len(a.parts), Of: len(a.parts)}
			for i, o := range a.parts {
				if o.id != "" {
					o.msg.Header.Set(nats.MsgIdHdr, o.id)
				}
				if size := o.msg.Size() - len(o.msg.Subject); size > most {
					t.Fatalf("part %d has %d bytes of %d", i, size, most)
				}
				if len(o.msg.Data) == 0 && o.msg.Header.Get("Status") != "" {
					t.Fatal("a client would take it for the server's own")
				}
				part, parts, ok := wire.ParsePart(o.msg.Header.Get(wire.HeaderPart))
				if !ok || part != i || parts != len(a.parts) {
					t.Fatalf("part %d of %d is called %s", i, len(a.parts), o.msg.Header.Get(wire.HeaderPart))
				}
				whole.Body = append(whole.Body, o.msg.Data...)
			}
			own, got, err := whole.Original()
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%d bytes of %d: %v", len(got), len(body), err)
			}
			want := nats.Header{}
			for k, v := range header {
				if !wire.Reserved(k) {
					want[k] = v
				}
			}
			if !reflect.DeepEqual(own, want) {
				t.Fatalf("headers %q, want %q", own, want)
			}
		}
	})
}
