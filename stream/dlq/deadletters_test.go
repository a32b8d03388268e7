package dlq

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
)

// TestTransformedSubject: dead letters are read where their stream stores them under another subject, and no others
// where it stores those of another subject so.
func TestTransformedSubject(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.p.>", "dead.q"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "dead.p.>", Destination: "stored.>"}})
	for _, c := range [][2]string{{"dead.p.x", "stored.x"}, {"dead.q", "dead.q"}} {
		subject, want := c[0], c[1]
		s.Publish(&nats.Msg{Subject: subject, Header: nats.Header{wire.HeaderCode: {"not_arrow"}}})
		var read []string
		err := DeadLetters{Subject: subject}.Read(t.Context(), s.JS, func(l *DeadLetter) error {
			read = append(read, l.Subject)
			return nil
		})
		if !slices.Equal(read, []string{want}) || err != nil {
			t.Errorf("on %s: %q are read, want %s; %v", subject, read, want, err)
		}
	}
}

// TestSlowRead: a read that ends early because the server is slow is an error.
func TestSlowRead(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
	s.Publish(&nats.Msg{Subject: "dead.p", Header: nats.Header{wire.HeaderCode: {"not_arrow"}}})
	var isSlow atomic.Bool
	js, err := jetstream.New(s.ConnectSlow(&isSlow), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	for _, slow := range []bool{true, false} {
		isSlow.Store(slow)
		n := 0
		err := DeadLetters{Subject: "dead.p"}.Read(t.Context(), js, func(*DeadLetter) error { n++; return nil })
		if (err == nil) == slow || (n == 1) == slow {
			t.Errorf("a slow server, %t: %d dead letters are read, %v", slow, n, err)
		}
	}
}

// TestPartsAreAssembled: parts of a dead letter arrive in any order and more than once; one that is incomplete comes
// last.
func TestPartsAreAssembled(t *testing.T) {
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
	part := func(letter string, number, of int) {
		m := &nats.Msg{Subject: "dead.p", Data: fmt.Appendf(nil, "%s%d", letter, number), Header: nats.Header{}}
		m.Header.Set(wire.HeaderCode, "not_arrow")
		m.Header.Set(wire.HeaderLetter, letter)
		m.Header.Set(wire.HeaderPart, wire.PartOf(number, of))
		s.Publish(m)
	}
	part("lost", 0, 2)
	part("a", 2, 3)
	part("b", 1, 2)
	part("a", 0, 3)
	part("a", 2, 3)
	part("a", 1, 3)
	part("b", 0, 2)
	var got []string
	err := DeadLetters{Subject: "dead.>", Bodies: true}.Read(t.Context(), s.JS, func(l *DeadLetter) error {
		got = append(got, fmt.Sprintf("%d %s %v", l.Number, l.Body, l.IsComplete()))
		return nil
	})
	want := "[2 a0a1a2 true 3 b0b1 true 1 lost0 false]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v (%v), want %s", got, err, want)
	}
	for number, want := range map[uint64]string{1: "lost0 false", 2: "a0a1a2 true", 3: "b0b1 true"} {
		l, err := DeadLetters{Subject: "dead.>", Bodies: true}.Find(t.Context(), s.JS, number)
		if err != nil || fmt.Sprintf("%s %v", l.Body, l.IsComplete()) != want {
			t.Errorf("letter %d: %+v (%v)", number, l, err)
		}
	}
	l, err := DeadLetters{Subject: "dead.>"}.Find(t.Context(), s.JS, 3)
	if err != nil {
		t.Fatal(err)
	}
	const without = "the body of 4 bytes was not read; read the dead letter with DeadLetters.Bodies"
	l.Header.Set(wire.HeaderSubject, "dead.p") // a stream takes it
	if one, err := (Replays{}).Do(t.Context(), s.JS, l); err != nil || one.Error != without || !one.Kept || one.As != "" {
		t.Errorf("a replay without the body: %+v (%v)", one, err)
	}
	if err := (DeadLetters{}).Read(t.Context(), s.JS, nil); err == nil ||
		err.Error() != "the subject of the dead letters is missing; set DeadLetters.Subject" {
		t.Errorf("without a subject: %v", err)
	}
	if _, err := (DeadLetters{Subject: "dead.>"}).Find(t.Context(), s.JS, 99); !errors.Is(err, ErrNoDeadLetter) {
		t.Errorf("a dead letter that does not exist: %v", err)
	}
}
