package stream

import (
	"testing"
)

// TestNewLeavesTheCallersOptions: New fills in defaults, but not in the slice of the caller.
func TestNewLeavesTheCallersOptions(t *testing.T) {
	mine := []Pipeline{piped("a", "in", "in.a", "out.a")}
	if _, err := New(Options{Conn: newSite(t).js.Conn(), Pipelines: mine}); err != nil {
		t.Fatal(err)
	}
	if p := mine[0]; p.AckWait != 0 || p.Role != "" || p.InFlight != 0 {
		t.Errorf("New wrote defaults into the caller's pipeline: %+v", p)
	}
}

// piped is a pipeline without models, as far as setup looks at it.
func piped(name, stream, subject, output string) Pipeline {
	return Pipeline{Name: name, Stream: stream, Subject: subject, Output: output, Dead: "dead." + name,
		Models: Models{None: true}}
}
