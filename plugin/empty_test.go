package plugin

import (
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio"
)

// TestEmptyConfig: a stage that names no features would never learn, so that New says what it needs.
func TestEmptyConfig(t *testing.T) {
	s, err := New(Config{})
	if err == nil {
		s.Close()
		t.Fatal("an empty configuration is accepted")
	}
	for _, word := range []string{"Config.Spec.Features", "Config.Spec.Label", `"*"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

// TestNothing: no message and no result are errors that say so.
func TestNothing(t *testing.T) {
	s, err := New(Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "key"}, Labels: &Labels{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := FromDense(nil, "x", "", nil); err == nil {
		t.Error("a record of no matrix")
	}
	_, transform := s.Transform(t.Context(), nil)
	for what, err := range map[string]error{"Transform": transform, "Learn": s.Learn(nil, Position{}),
		"LearnLabels": s.LearnLabels(nil, Position{})} {
		if err != errNoMessage {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, r := range []*Result{nil, {}} {
		_, encode := s.Encode(r)
		_, record := s.Record(r)
		_, rejected := s.EncodeRejected(r)
		for what, err := range map[string]error{"Encode": encode, "Record": record, "EncodeRejected": rejected} {
			if err == nil || !strings.HasPrefix(err.Error(), "there is no message") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}
