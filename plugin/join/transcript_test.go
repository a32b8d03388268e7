package join

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTranscripts replays events in the order of the file; what follows "->" is what the join must say.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { replay(t, name) })
	}
}

func replay(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j := New[string](Limits{Wait: time.Hour, Bytes: 1 << 20})
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		event, want, _ := strings.Cut(text, "->")
		words := strings.Fields(event)
		if len(words) == 0 {
			continue
		}
		arg := map[string]string{}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			arg[k] = v
		}
		at := time.Unix(0, 0).Add(span(t, arg["at"]))
		var out []Out[string]
		got := ""
		switch words[0] {
		case "limits":
			j = New[string](Limits{Wait: span(t, arg["wait"]), Bytes: int64(number(t, arg["bytes"]))})
			continue
		case "row":
			label, has := arg["label"]
			out = j.Row(Row[string]{Place: placeOf(t, arg["seq"]), Time: at, Key: arg["key"], Label: label, Has: has,
				Payload: "row " + arg["seq"], Size: number(t, arg["size"])})
		case "label":
			out = j.Label(Label{Place: placeOf(t, arg["seq"]), Time: at, Key: arg["key"], Text: arg["text"]})
		case "reached":
			j.Reached(at)
		case "counts":
			got = counted(j.Counts())
		case "held":
			rows, _ := j.Waiting()
			labels, _ := j.Early()
			got = fmt.Sprintf("rows=%d labels=%d", rows, labels)
			if p, ok := j.Oldest(); ok {
				got += " oldest=" + place(p)
			}
		default:
			t.Fatalf("%s:%d: unknown event %q", name, n, words[0])
		}
		for _, o := range out {
			if got != "" {
				got += ", "
			}
			got += o.Kind.String() + " " + place(o.Place)
			if o.Kind != Withdraw {
				got += " " + o.Text
			}
			if o.Kind == Give && o.Payload != "row "+place(o.Place) {
				t.Errorf("%s:%d: row %s comes with the payload of %q", name, n, place(o.Place), o.Payload)
			}
		}
		if got != strings.TrimSpace(want) {
			t.Errorf("%s:%d: %s -> %q, want %q", name, n, strings.TrimSpace(event), got, strings.TrimSpace(want))
		}
	}
}

// placeOf reads "3", or "2/3" where the stream was made again.
func placeOf(t *testing.T, s string) Place {
	stream, seq, made := strings.Cut(s, "/")
	if !made {
		return Place{Seq: uint64(number(t, s))}
	}
	return Place{Created: int64(number(t, stream)), Seq: uint64(number(t, seq))}
}

func place(p Place) string {
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

func number(t *testing.T, s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func span(t *testing.T, s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
