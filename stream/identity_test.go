package stream

import (
	"testing"
	"time"
)

// TestIdentity: an answer is named by its input and its kind and part, and by nothing else (Invariant 2).
func TestIdentity(t *testing.T) {
	o := origin{stream: "FEATURES", created: time.Unix(1, 2), seq: 7}
	seen := map[string]string{}
	for name, id := range map[string]string{
		"itself":               o.id("digits", kindOut, 0),
		"another part":         o.id("digits", kindOut, 1),
		"its dead letter":      o.id("digits", kindDead, 0),
		"its dead rows":        o.id("digits", kindRows, 0),
		"another pipeline":     o.id("digits2", kindOut, 0),
		"another message":      origin{o.stream, o.created, 8}.id("digits", kindOut, 0),
		"another stream":       origin{"FEATURES2", o.created, 7}.id("digits", kindOut, 0),
		"the stream made anew": origin{o.stream, time.Unix(9, 2), 7}.id("digits", kindOut, 0),
	} {
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s have one identity", name, other)
		}
		seen[id] = name
	}
	if o.id("digits", kindOut, 0) != (origin{"FEATURES", time.Unix(1, 2).UTC(), 7}).id("digits", kindOut, 0) {
		t.Error("one message has two identities")
	}
	if o.source() != "FEATURES:7" {
		t.Errorf("source %q", o.source())
	}
}
