package wire

import (
	"strings"
	"testing"
)

// TestErrorNamesItsPlace: column, row and batch come before what is wrong, as far as they are known; the first batch is
// not named, nor is a batch without a row.
func TestErrorNamesItsPlace(t *testing.T) {
	for _, c := range []struct {
		of   Error
		want string
	}{
		{Error{Row: -1, Detail: "bad"}, "bad"},
		{Error{Row: 0, Detail: "bad"}, "row 0: bad"},
		{Error{Row: 3, Batch: 1, Detail: "bad"}, "row 3, batch 1: bad"},
		{Error{Row: -1, Batch: 2, Detail: "bad"}, "bad"},
		{Error{Row: 2, Column: "x", Batch: 2, Detail: "bad"}, `column "x", row 2, batch 2: bad`},
		{Error{Row: -1, Column: "x", Detail: "bad"}, `column "x": bad`},
	} {
		if got := c.of.Error(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

// TestErrorf: an error without more has no row.
func TestErrorf(t *testing.T) {
	e := Errorf(TooWide, "%d bytes", 5)
	if e.Row != -1 || e.Error() != "5 bytes" {
		t.Errorf("row %d: %v", e.Row, e)
	}
	if e.At(3); e.Row != 3 || e.Error() != "row 3: 5 bytes" {
		t.Errorf("row %d: %v", e.Row, e)
	}
}

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
