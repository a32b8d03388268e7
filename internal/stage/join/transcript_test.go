package join

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/transcript"
)

// TestTranscripts replays events; the text after "->" is the expected result of the join.
func TestTranscripts(t *testing.T) {
	transcript.Replay(t, "testdata/*.txt", func() func(*transcript.Event) string {
		j := New[string](Limits{Wait: time.Hour, Bytes: 1 << 20})
		return func(e *transcript.Event) string { return step(&j, e) }
	})
}

func step(j **Join[string], e *transcript.Event) string {
	var out []Out[string]
	switch e.Name {
	case "limits":
		*j = New[string](Limits{Wait: e.Duration("wait"), Bytes: int64(e.Int("bytes"))})
	case "row":
		label := e.Text("label")
		out = (*j).AddRow(Row[string]{Position: placeOf(e), Time: e.Time("at"), Key: e.Text("key"), Label: label,
			HasLabel: label != "", Payload: "row " + e.Text("seq"), Size: e.Int("size")})
	case "label":
		out = (*j).AddLabel(Label{Position: placeOf(e), Time: e.Time("at"), Key: e.Text("key"), Text: e.Text("text")})
	case "reached":
		(*j).Reached(e.Time("at"))
	case "counts":
		return counted((*j).Counts())
	case "held":
		rows, _ := (*j).Waiting()
		labels, _ := (*j).Early()
		got := fmt.Sprintf("rows=%d labels=%d", rows, labels)
		if p, ok := (*j).Oldest(); ok {
			got += " oldest=" + place(p)
		}
		return got
	default:
		e.Fatalf("unknown event %q", e.Name)
	}
	var said []string
	for _, o := range out {
		text := o.Kind.String() + " " + place(o.Position)
		if o.Kind != Withdraw {
			text += " " + o.Text
		}
		if o.Kind == Give && o.Payload != "row "+place(o.Position) {
			e.Fatalf("row %s comes with the payload of %q", place(o.Position), o.Payload)
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}

// placeOf parses "3", or "2/3" if the stream was recreated.
func placeOf(e *transcript.Event) Position {
	stream, seq, made := strings.Cut(e.Text("seq"), "/")
	if !made {
		stream, seq = "0", stream
	}
	var p Position
	var err, err2 error
	p.Created, err = strconv.ParseInt(stream, 10, 64)
	p.Seq, err2 = strconv.ParseUint(seq, 10, 64)
	if err != nil || err2 != nil {
		e.Fatalf("seq %q is no place", e.Text("seq"))
	}
	return p
}

func place(p Position) string {
	if p.Created != 0 {
		return fmt.Sprintf("%d/%d", p.Created, p.Seq)
	}
	return fmt.Sprint(p.Seq)
}

func counted(c Counts) string {
	var out []string
	for _, f := range []struct {
		name string
		n    uint64
	}{{"joined", c.Joined}, {"corrected", c.Corrected}, {"duplicate", c.Duplicate}, {"late", c.Late},
		{"expired", c.Expired}, {"repeated", c.Repeated}} {
		if f.n > 0 {
			out = append(out, fmt.Sprintf("%s=%d", f.name, f.n))
		}
	}
	return strings.Join(out, " ")
}
