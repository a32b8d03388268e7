package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestClip: a text of up to 64 bytes stays, a longer one is cut, and what no header can have is replaced.
func TestClip(t *testing.T) {
	n := func(n int) string { return strings.Repeat("n", n) }
	for text, want := range map[string]string{"": "", "plain": "plain", n(64): n(64), n(65): n(64) + "...",
		"a\nb\x00c\x7f": "a\uFFFDb\uFFFDc\uFFFD", "\xff": "\uFFFD", n(63) + "é": n(63) + "\uFFFD..."} {
		if got := Clip(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestFormats: each format has a content type, which says it also with parameters and in other letters.
func TestFormats(t *testing.T) {
	for format, media := range map[Format]string{FormatArrow: "application/vnd.apache.arrow.stream",
		FormatJSON: "application/json", FormatNDJSON: "application/x-ndjson", FormatCSV: "text/csv"} {
		if format.ContentType() != media || format.IsText() != (format != FormatArrow) {
			t.Errorf("%s has the type %s, text %v", format, format.ContentType(), format.IsText())
		}
		for _, value := range []string{media, strings.ToUpper(media), " " + media + " ; charset=utf-8"} {
			if got := FormatOf(value); got != format {
				t.Errorf("%q is %q, want %q", value, got, format)
			}
		}
	}
	if FormatOf("text/html") != "" || FormatOf("") != "" || Format("").IsText() ||
		Format("").ContentType() != ContentType {
		t.Error("another type is a format")
	}
}

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

// TestPlacesOfErrors: an error keeps the first column that it is about, and its hint is part of its text.
func TestPlacesOfErrors(t *testing.T) {
	e := Errorf(Malformed, "wrong").WithHint("use %d", 2).In("a").In("b")
	if e.Error() != `column "a": wrong; use 2` || e.Code != Malformed || e.Unwrap() != error(Malformed) {
		t.Errorf("%v", e)
	}
	if (*Error)(nil).In("a") != nil {
		t.Error("no error is one in a column")
	}
}
