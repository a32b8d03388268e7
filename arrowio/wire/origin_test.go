package wire

import (
	"testing"
	"time"
)

// TestIdentity: the id of an answer depends only on its input, its kind and its part (Invariant 2).
func TestIdentity(t *testing.T) {
	o := Origin{Stream: "FEATURES", Created: time.Unix(1, 2), Seq: 7}
	seen := map[string]string{}
	for name, id := range map[string]string{
		"itself":               o.ID("digits", AnswerOut, 0),
		"another part":         o.ID("digits", AnswerOut, 1),
		"its dead letter":      o.ID("digits", AnswerDead, 0),
		"its dead rows":        o.ID("digits", AnswerRows, 0),
		"another pipeline":     o.ID("digits2", AnswerOut, 0),
		"another message":      Origin{o.Stream, o.Created, 8}.ID("digits", AnswerOut, 0),
		"another stream":       Origin{"FEATURES2", o.Created, 7}.ID("digits", AnswerOut, 0),
		"the recreated stream": Origin{o.Stream, time.Unix(9, 2), 7}.ID("digits", AnswerOut, 0),
	} {
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s have one identity", name, other)
		}
		seen[id] = name
	}
	if o.ID("digits", AnswerOut, 0) != (Origin{"FEATURES", time.Unix(1, 2).UTC(), 7}).ID("digits", AnswerOut, 0) {
		t.Error("one message has two identities")
	}
	if id := o.ID("digits", AnswerRows, 3); id != "93e460a679cf0d8823eecb9c05b0341a" {
		t.Errorf("identity %s: an answer of an older daemon would be published again", id)
	}
	if o.Source() != "FEATURES:7" {
		t.Errorf("source %q", o.Source())
	}
}
