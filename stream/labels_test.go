package stream

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// TestLettersOfLabelsWait: a dead letter of labels that the server does not take is sent again until it does, once, and
// labels behind it are read meanwhile.
func TestLettersOfLabelsWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.make(jetstream.StreamConfig{Name: "labels"})
	full := jetstream.StreamConfig{Name: "dead", Subjects: []string{"dead.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	s.make(full)
	s.store("dead.other", nil)
	s.engine(s.url(), Pipeline{Name: "p", Stream: "in", Subject: "in.x", Labels: "labels.x", Output: "out.x",
		Dead: "dead.x",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "key"},
			Fit: fit.Config{Method: "lda"}}})
	for _, text := range []string{"no Arrow", "nor this", "nor that"} {
		s.store("labels.x", []byte(text))
	}
	s.until("they are in the status", func() bool {
		var r Report
		msg, err := s.js.Conn().Request(ServiceSubject("p", "status"), nil, ample)
		return err == nil && json.Unmarshal(msg.Data, &r) == nil && r.DeadLabels == 3
	})
	time.Sleep(4 * time.Second) // longer than a dead letter may take to be confirmed
	if n := s.state("dead").Msgs; n != 1 {
		t.Fatalf("the full stream has %d messages", n)
	}
	full.MaxMsgs = -1
	if _, err := s.js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, l := range s.stored("dead", "dead.x", 3) {
		seen[l.Header.Get(wire.HeaderSource)+" "+string(l.Data)]++
	}
	if seen["labels:1 no Arrow"] != 1 || seen["labels:2 nor this"] != 1 || seen["labels:3 nor that"] != 1 {
		t.Errorf("the dead letters are %v", seen)
	}
}
