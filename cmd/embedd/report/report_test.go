package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

func TestOutput(t *testing.T) {
	var b bytes.Buffer
	o := &Output{w: &b, JSON: true}
	if err := o.Object(map[string]string{"subject": "features.>", "text": "a\nb"}); err != nil {
		t.Fatal(err)
	}
	o.Printf("for people")
	if got, want := b.String(), `{"subject":"features.>","text":"a\nb"}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	table := (&Output{w: &b}).Table("NAME", "ROWS")
	table.Row("digits\nand more", 1797)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "NAME             ROWS\ndigits and more  1797\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	table = (&Output{w: &b}).Table("NAME", "ROWS") // East Asian characters take two cells, combining ones none
	table.Row("東京", 1)
	table.Row("cafe\u0301", 2)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "NAME  ROWS\n東京  1\ncafe\u0301  2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWrapWide: a word of wide characters is broken where its cells end.
func TestWrapWide(t *testing.T) {
	for width, want := range map[int]string{0: "東/京/都", 1: "東/京/都", 3: "東/京/都", 4: "東京/都", 6: "東京都"} {
		if got := strings.Join(wrap("東京都", width), "/"); got != want {
			t.Errorf("width %d: %s, want %s", width, got, want)
		}
	}
}

// If stderr is not a terminal, progress is written in whole lines, and rarely.
func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&cli.Env{Stderr: &b})
	p.silence = time.Hour
	for range 1000 {
		p.Show("fitting", 0.5)
	}
	p.End()
	if b.Len() != 0 {
		t.Errorf("short work wrote %q", b.String())
	}
	p.next = p.next.Add(-plainPace)
	for range 1000 {
		p.Show("fitting", 0.5)
	}
	p.End()
	if got := b.String(); got != "fitting  50 %\n" {
		t.Errorf("wrote %q", got)
	}
	b.Reset()
	p.next = time.Time{}
	p.Show("72 of 101 rows", -1)
	p.Show("101 of 101 rows", -1)
	p.End()
	p.End()
	if got := b.String(); got != "72 of 101 rows\n101 of 101 rows\n" {
		t.Errorf("wrote %q, which does not end with the last report", got)
	}
}

// A step without progress is shown again, until it ends.
func TestProgressOfALongStep(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&cli.Env{Stderr: &b})
	p.next, p.silence = time.Time{}, 10*time.Millisecond
	p.Show("neighbours", 0)
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		p.next = time.Time{}
		shown := strings.Contains(b.String(), "neighbours   0 %, 0 s in this step\n")
		p.mu.Unlock()
		if shown {
			break
		}
	}
	p.End()
	at := b.Len()
	p.End()
	if !strings.Contains(b.String(), "s in this step") || b.Len() != at {
		t.Errorf("wrote %q", b.String())
	}
}

// TestTableFits: long cells are wrapped so that no line exceeds the limit, and no text is lost.
func TestTableFits(t *testing.T) {
	for _, limit := range []int{0, 40, 60, 100} {
		var b bytes.Buffer
		table := (&Output{w: &b, limit: limit}).Table("NAME", "STATE", "WHY")
		table.Row("digits", "live", strings.Repeat("some words ", 20))
		table.Row("größe", "", strings.Repeat("x", 150))
		table.Below(strings.Repeat("some words ", 20))
		table.Row("... 3 more, which is a long cell that ends a row")
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		words := 0
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); limit > 0 && n > max(limit, 48) {
				t.Errorf("limit %d: a line of %d columns: %q", limit, n, line)
			}
			words += strings.Count(line, "some") + strings.Count(line, "x")
		}
		if words != 190 || limit == 0 && strings.Count(b.String(), "\n") != 4 {
			t.Errorf("limit %d: %d words in\n%s", limit, words, &b)
		}
	}
}

// TestHostileText: names are printed as they are where there is room, and no bytes make a text impossible to wrap.
func TestHostileText(t *testing.T) {
	var b strings.Builder
	table := NewTable(&b)
	table.limit = 100
	table.Row("a  b", "c\u00a0d", "e")
	if err := table.Flush(); err != nil || b.String() != "a  b  c\u00a0d  e\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	b.Reset()
	out := &Output{w: &b, limit: 100}
	out.Paragraph("", strings.Repeat("\xff", 200), 4)
	if got := strings.ReplaceAll(b.String(), "\n    ", ""); got != strings.Repeat(`\xff`, 200)+"\n" {
		t.Errorf("%q", got)
	}
}
