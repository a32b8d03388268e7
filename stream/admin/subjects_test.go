package admin

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/internal/needs"
)

// TestPartOfAWildcard: a stream that takes some of the subjects of a pipeline's wildcard is no fault, for doctor as for
// a running daemon. One that takes none is.
func TestPartOfAWildcard(t *testing.T) {
	for subject, faults := range map[string]int{"in.a": 0, "in.>": 0, "other.a": 1} {
		d := &diagnosis{reported: map[Finding]bool{}}
		d.checkRetained(&needs.Need{Purpose: "input", Subject: "in.*"}, &jetstream.StreamConfig{Name: "IN",
			Subjects: []string{subject}})
		if len(d.findings) != faults {
			t.Errorf("%s: %+v", subject, d.findings)
		}
	}
}
