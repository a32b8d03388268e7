package stream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/dlq"
)

func (s *site) letters(d dlq.DeadLetters) (out []*dlq.DeadLetter) {
	s.Helper()
	if d.Subject == "" {
		d.Subject = "dead.>"
	}
	if err := d.Read(s.Context(), s.js, func(l *dlq.DeadLetter) error { out = append(out, l); return nil }); err != nil {
		s.Fatal(err)
	}
	return out
}

// TestDeadLettersAreRead: dead letters are found by code and time, complete and with their original headers and bytes,
// including those in parts; other messages of their stream are ignored.
func TestDeadLettersAreRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead", MaxMsgSize: 16 << 10})
	s.serving(nil)
	long := bytes.Repeat([]byte("no Arrow "), 5000)
	header := nats.Header{"Trace": {"a", "b"}, "Large": {strings.Repeat("h", 9000)}}
	larger := nats.Header{"Large": {strings.Repeat("h", 64_000)}}
	begin := time.Now()
	s.put(&nats.Msg{Subject: "in.x", Data: []byte("bad")})
	noLetter, err := s.js.Publish(s.Context(), "dead.x", []byte("no dead letter"))
	if err != nil {
		t.Fatal(err)
	}
	s.put(&nats.Msg{Subject: "in.x", Header: nats.Header{"Status": {"409"}}})
	s.put(&nats.Msg{Subject: "in.x", Header: header, Data: long})
	s.put(&nats.Msg{Subject: "in.x", Data: long})
	s.put(&nats.Msg{Subject: "in.x", Header: larger, Data: numbered(1, 0)})
	s.settled()
	want := []struct {
		header nats.Header
		body   []byte
		code   wire.Code
	}{{nats.Header{}, []byte("bad"), wire.NotArrow}, {nats.Header{"Status": {"409"}}, nil, wire.NotArrow},
		{header, long, wire.NotArrow}, {nats.Header{}, long, wire.NotArrow}, {larger, numbered(1, 0), wire.LargeHeaders}}
	all := s.letters(dlq.DeadLetters{Bodies: true})
	if len(all) != len(want) {
		t.Fatalf("%d letters, want %d", len(all), len(want))
	}
	for i, l := range all {
		got, body, err := l.Original()
		if err != nil || !l.IsComplete() || l.Header.Get(wire.HeaderCode) != string(want[i].code) ||
			!bytes.Equal(body, want[i].body) || fmt.Sprint(got) != fmt.Sprint(want[i].header) {
			t.Errorf("letter %d: %v, %d bytes of %d, headers %.100v", i, err, len(body), len(want[i].body), got)
		}
		one, err := dlq.DeadLetters{Subject: "dead.x", Bodies: true}.Find(s.Context(), s.js, l.Number)
		if err != nil || !bytes.Equal(one.Body, l.Body) || one.Number != l.Number {
			t.Errorf("letter %d by its number: %v", i, err)
		}
	}
	for i, l := range s.letters(dlq.DeadLetters{}) {
		if l.Body != nil || l.Bytes != all[i].Bytes || l.Parts != all[i].Parts || l.Number != all[i].Number {
			t.Errorf("letter %d without its body: %+v", i, l)
		}
	}
	for name, c := range map[string]struct {
		dlq.DeadLetters
		n int
	}{
		"a code":         {dlq.DeadLetters{Codes: []string{"large_headers", "too_wide"}}, 1},
		"another code":   {dlq.DeadLetters{Codes: []string{"too_wide"}}, 0},
		"since then":     {dlq.DeadLetters{Since: begin}, 5},
		"since tomorrow": {dlq.DeadLetters{Since: begin.Add(24 * time.Hour)}, 0},
		"until then":     {dlq.DeadLetters{Until: begin.Add(-time.Minute)}, 0},
		"until tomorrow": {dlq.DeadLetters{Until: begin.Add(24 * time.Hour)}, 5},
	} {
		if n := len(s.letters(c.DeadLetters)); n != c.n {
			t.Errorf("%s: %d letters, want %d", name, n, c.n)
		}
	}
	for _, number := range []uint64{0, noLetter.Sequence, 1000} {
		if _, err := (dlq.DeadLetters{Subject: "dead.x"}).Find(s.Context(), s.js, number); !errors.Is(err,
			dlq.ErrNoDeadLetter) {
			t.Errorf("letter %d: %v", number, err)
		}
	}
	if err := (dlq.DeadLetters{Subject: "dread.x"}).Read(s.Context(), s.js, nil); !errors.Is(err,
		jetstream.ErrStreamNotFound) {
		t.Error(err)
	}
}

// TestDeadLetterWithoutAPart: the remaining parts of a letter are shown as incomplete, and are not replayed.
func TestDeadLetterWithoutAPart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead", MaxMsgSize: 16 << 10})
	s.serving(nil)
	s.put(&nats.Msg{Subject: "in.x", Data: bytes.Repeat([]byte("no Arrow "), 5000)})
	s.settled()
	dead, err := s.js.Stream(s.Context(), "dead")
	if err != nil {
		t.Fatal(err)
	}
	// On a loaded machine the server may fail here (stream store EOF): it cannot read yet what it has just stored.
	s.until("a part is deleted", func() bool { return dead.DeleteMsg(s.Context(), 2) == nil })
	all := s.letters(dlq.DeadLetters{Bodies: true})
	if len(all) != 1 || all[0].IsComplete() || all[0].Parts != all[0].Of-1 {
		t.Fatalf("%+v", all)
	}
	for _, isDry := range []bool{false, true} {
		if one, err := (dlq.Replays{DryRun: isDry}).Do(s.Context(), s.js, all[0]); err != nil ||
			!strings.Contains(one.Error, "2 of 3 parts") {
			t.Errorf("a dry run (%v) says %+v, %v", isDry, one, err)
		}
	}
}

// TestReplay: a letter is published once on its subject, unchanged, and is gone if it is removed.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "dead", MaxMsgSize: 16 << 10})
	s.serving(nil)
	long := bytes.Repeat([]byte("no Arrow "), 5000)
	header := nats.Header{nats.MsgIdHdr: {"mine"}, "Trace": {"a", "b"}, wire.HeaderModel: {"of another"}}
	s.put(&nats.Msg{Subject: "in.x", Header: header, Data: long})
	s.settled()
	l := s.letters(dlq.DeadLetters{Bodies: true})[0]
	for i := range 2 {
		r, err := dlq.Replays{Keep: true}.Do(s.Context(), s.js, l)
		if err != nil || r.Error != "" || r.As != "in:2" || r.Again != (i == 1) || !r.Kept {
			t.Errorf("replay %d: %+v, %v", i, r, err)
		}
	}
	again := s.stored("in", "in.x", 2)[1]
	if !bytes.Equal(again.Data, long) || !slices.Equal(again.Header.Values("Trace"), []string{"a", "b"}) ||
		len(again.Header) != 2 {
		t.Errorf("%d bytes with headers %v", len(again.Data), again.Header)
	}
	s.settled()
	all := s.letters(dlq.DeadLetters{})
	if len(all) != 2 || all[1].Header.Get(wire.HeaderSource) != "in:2" {
		t.Errorf("%d letters: what is bad again is a new one", len(all))
	}
	if r, err := (dlq.Replays{}).Do(s.Context(), s.js, l); err != nil || r.Error != "" || r.Kept {
		t.Errorf("%+v, %v", r, err)
	}
	if all = s.letters(dlq.DeadLetters{}); len(all) != 1 {
		t.Errorf("%d letters after one was removed", len(all))
	}
	for _, to := range []string{"$JS.API.STREAM.DELETE.in", "in.*", "_INBOX.a", "in x"} {
		if r, err := (dlq.Replays{To: to}).Do(s.Context(), s.js, l); err != nil ||
			!strings.Contains(r.Error, "cannot be one of messages") {
			t.Errorf("to %s: %+v, %v", to, r, err)
		}
	}
	if r, err := (dlq.Replays{To: "missing.x"}).Do(s.Context(), s.js, l); err != nil ||
		!strings.Contains(r.Error, "no stream takes") {
		t.Errorf("%+v, %v", r, err)
	}
}
