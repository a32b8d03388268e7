package main

import (
	"strings"
	"testing"
	"time"
)

// TestPrintDelays: inputs and silences count for the fault before them, and the last silence reaches the end.
func TestPrintDelays(t *testing.T) {
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	var out strings.Builder
	printDelays(&out, []injection{{"kill", at(10)}, {"part", at(20)}, {"kill", at(30)}, {"stop", at(32)}}, []delivery{
		{at(9), at(9.1)}, {at(11), at(14)}, {at(21), at(21.5)}, {at(24), at(25.5)}, {at(31), at(31.25)}}, at(33))
	for _, row := range []string{
		"| kill | 2 | 2 | 3.000 s | 3.00 s | 3.0 s | 6.0 s |",
		"| part | 1 | 2 | 1.500 s | 1.50 s | 1.5 s | 4.5 s |",
		"| stop | 1 | 0 | 0.000 s | 0.00 s | 0.0 s | 1.0 s |",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("the table has not %q:\n%s", row, &out)
		}
	}
}
