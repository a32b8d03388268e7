package health

import (
	"testing"

	"github.com/embedd/embedd/stream/spec"
)

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
