package health

import (
	"log/slog"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/spec"
)

// TestLetterLogSummary checks that the first dead letter of each code is logged, and that the others are summarised
// once.
func TestLetterLogSummary(t *testing.T) {
	registry, err := NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLetterLog(slog.New(slog.DiscardHandler), registry.Series("p", false, false))
	for seq := range uint64(20) {
		l.Add(&wire.Letter{Code: wire.NotArrow, Origin: wire.Origin{Stream: "in", Seq: seq + 1}})
	}
	l.Add(&wire.Letter{Code: wire.LargeHeaders, Origin: wire.Origin{Stream: "in", Seq: 21}})
	if counts, last := l.summary(); counts != "not_arrow 19" || last != "in:20" {
		t.Errorf("the summary is %q, last %q; want not_arrow 19, in:20", counts, last)
	}
	if counts, _ := l.summary(); counts != "" {
		t.Errorf("the second summary is %q; want none", counts)
	}
}

// TestConditionsOrder checks that the first component's reason is reported, and that clearing restores the next.
func TestConditionsOrder(t *testing.T) {
	var c Conditions
	if c.First(spec.BlocksAnswers) != "" || c.Clear(Pull) {
		t.Error("the zero value has a reason")
	}
	if !c.Set(Streams, "s") || !c.Set(Publish, "p") || c.Set(Publish, "q") {
		t.Error("Set does not report whether the component was clear")
	}
	if c.First(spec.BlocksAnswers) != "q" || !c.Clear(Publish) || c.First(spec.BlocksAnswers) != "s" {
		t.Errorf("first is %q", c.First(spec.BlocksAnswers))
	}
	if c.Set(DeadLetter, "d"); c.First(spec.BlocksAnswers) != "s" || c.First(spec.BlocksDeadLetters) != "d" ||
		c.First(spec.BlocksNothing) != "" || len(c.All()) != 2 {
		t.Errorf("of dead letters %q; all: %v", c.First(spec.BlocksDeadLetters), c.All())
	}
}
