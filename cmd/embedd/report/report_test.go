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
