package wire

import (
	"testing"
	"time"
)

// TestIdentity: the id of an answer depends only on its input, its kind and its part (Invariant 2).
func TestIdentity(t *testing.T) {
	k, o := NewKey(make([]byte, 32)), Origin{Stream: "FEATURES", Created: time.Unix(1, 2), Seq: 7}
	seen := map[string]string{}
	for name, id := range map[string]string{
		"itself":               k.ID(o, "digits", AnswerOut, 0),
		"its second":           k.SecondID(o, "digits", AnswerOut, 0),
		"another key":          NewKey([]byte{1}).ID(o, "digits", AnswerOut, 0),
		"another part":         k.ID(o, "digits", AnswerOut, 1),
		"its dead letter":      k.ID(o, "digits", AnswerDead, 0),
		"its dead rows":        k.ID(o, "digits", AnswerRows, 0),
		"another pipeline":     k.ID(o, "digits2", AnswerOut, 0),
		"another message":      k.ID(Origin{o.Stream, o.Created, 8}, "digits", AnswerOut, 0),
		"another stream":       k.ID(Origin{"FEATURES2", o.Created, 7}, "digits", AnswerOut, 0),
		"the recreated stream": k.ID(Origin{o.Stream, time.Unix(9, 2), 7}, "digits", AnswerOut, 0),
	} {
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s have one identity", name, other)
		}
		seen[id] = name
	}
	if k.ID(o, "digits", AnswerOut, 0) != k.ID(Origin{"FEATURES", time.Unix(1, 2).UTC(), 7}, "digits", AnswerOut, 0) {
		t.Error("one message has two identities")
	}
	if id := k.ID(o, "digits", AnswerRows, 3); id != "a9f1699379c3866926e157817ff96a43" {
		t.Errorf("identity %s: an answer of an older daemon would be published again", id)
	}
	if o.Source() != "FEATURES:7" {
		t.Errorf("source %q", o.Source())
	}
}
