package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPairs: the headers of outputs and of dead letters, in their order.
func TestPairs(t *testing.T) {
	o := Origin{Stream: "S", Created: time.Unix(1, 0), Seq: 7}
	letter := Letter{Error: "wrong", Code: TooWide, Attempts: 3, Origin: o, Subject: "in.a", Pipeline: "p",
		Kind: KindMessage, Rows: "1,2"}
	const head = "[{Embedd-Error wrong} {Embedd-Code too_wide} {Embedd-Attempts 3} "
	const tail = "{Embedd-Subject in.a} {Embedd-Pipeline p} {Embedd-Kind message}]"
	rows, core := letter, letter
	rows.Kind, core.Origin = KindRows, Origin{Seq: 7}
	for _, c := range []struct {
		got  []Pair
		want string
	}{
		{o.AppendPairs(nil, 0, 1), "[{Embedd-Source S:7}]"},
		{o.AppendPairs(nil, 1, 3), "[{Embedd-Source S:7} {Embedd-Part 2/3}]"},
		{Origin{Seq: 7}.AppendPairs(nil, 0, 1), "[]"},
		{Origin{}.AppendPairs([]Pair{{"a", "b"}}, 0, 2), "[{a b} {Embedd-Part 1/2}]"},
		{letter.Pairs(), head + "{Embedd-Source S:7} " + tail}, {core.Pairs(), head + tail},
		{rows.Pairs(), head + "{Embedd-Source S:7} " + strings.Replace(tail, "message}", "rows} {Embedd-Rows 1,2}", 1)},
		{[]Pair{VersionPair()}, "[{Embedd-Wire 1}]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
