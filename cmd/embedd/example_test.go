package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/internal/natstest"
)

// TestInitFromRows: init fills in the columns of a file, or of a message of a subject, and what it writes is valid.
func TestInitFromRows(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "events", Subjects: []string{"in.>"}})
	dir := t.TempDir()
	var wide strings.Builder
	for i := range 20 {
		fmt.Fprintf(&wide, "x%d,", i)
	}
	wide.WriteString("Class\n" + strings.Repeat("1,", 20) + "a\n")
	for name, c := range map[string]struct {
		text                  string
		features, label, more string
		dim                   int
	}{
		"quotes.csv": {"sepal len,\"x ${y}\",kind,t\n1,2,a,3\n", "sepal len, x ${y}, t", "kind", "", 1},
		"wide.csv":   {wide.String(), "x*", "Class", "", 8},
		"eight.csv": {"a,b,c,d,e,f,g,h,kind\n1,2,3,4,5,6,7,8,x\n2,2,3,4,5,6,7,8,y\n3,2,3,4,5,6,7,8,z\n",
			"a, b, c, d, e, f, g, h", "kind", "", 2},
		"two.csv":    {"a,b,c,d,kind\n1,2,3,4,x\n3,4,5,6,y\n", "a, b, c, d", "kind", "", 2},
		"in.json":    {`{"a":1,"b":[1,2,3],"y":"c"}`, "b", "y", "json", 1},
		"in.lines":   {"{\"a\":1,\"t\":4}\n{\"a\":2,\"t\":5}\n", "a, t", "", "ndjson", 1},
		"in.csv":     {"a,b,label\n1,2,3\n", "a, b", "label", "csv", 1},
		"in.number":  {`{"a":1,"b":2,"label":3}`, "a, b", "label", "json", 1},
		"xyz.csv":    {"x,y,z,kind\n1,0.5,3,a\n", "x, y, z", "kind", "", 1},
		"points.csv": {"x,y\n1,0.5\n", "x, y", "", "", 1},
	} {
		path := filepath.Join(dir, name+".yaml")
		args := []string{"init", "-o", path, "--server", s.URL(), "--subject", name}
		if c.more == "" {
			data := filepath.Join(dir, name)
			if err := os.WriteFile(data, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			args = []string{"init", "-o", path, "--data", data}
		} else {
			s.Publish(&nats.Msg{Subject: name, Data: []byte(c.text)})
		}
		if code, _, stderr := call(t.Context(), args...); code != 0 {
			t.Errorf("%s: exit %d: %s", name, code, stderr)
			continue
		}
		got, err := config.Load(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := got.Pipelines[0]
		if strings.Join(p.Schema.Features, ", ") != c.features || p.Schema.Label != c.label || p.Model.Dim != c.dim ||
			c.more != "" && (p.Input.Subject != name || p.Input.Stream != "events" || string(p.Schema.Format) != c.more) {
			t.Errorf("%s: %+v %+v, %d outputs", name, p.Schema, p.Input, p.Model.Dim)
		}
	}
	if code, _, stderr := call(t.Context(), "init", "-o", filepath.Join(dir, "x.yaml"), "--data", "none.csv"); code != 1 ||
		!strings.Contains(stderr, "there is no file none.csv") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for x, want := range map[example]string{{}: "digits", {file: "-"}: "digits", {file: "a/my rows.csv.gz"}: "my_rows",
		{file: "a-b.csv"}: "a-b", {file: "rows/*.csv"}: "digits", {file: "no.csv"}: "digits", {file: "7.csv"}: "digits",
		{subject: "features.rooms"}: "rooms", {subject: "features.>"}: "digits", {subject: "reduced.rooms"}: "digits"} {
		if got := x.name(); got != want {
			t.Errorf("%+v gives the name %q, want %q", x, got, want)
		}
	}
	for line, want := range map[string]example{"\n": {}, "in.x\n": {subject: "in.x"},
		dir + "/none.csv\n": {file: dir + "/none.csv"}} {
		var got example
		e := &cli.Env{Stdin: strings.NewReader(line), Stderr: &strings.Builder{}}
		if err := got.ask(t.Context(), e); err != nil || got != want {
			t.Errorf("the answer %q is understood as %+v (%v)", line, got, err)
		}
	}
}

// TestSignalEndsQuestion: the first signal ends a verb that waits for an answer, and nothing was confirmed.
func TestSignalEndsQuestion(t *testing.T) {
	silent, terminal := io.Pipe()
	defer terminal.Close()
	e := &cli.Env{Stdin: silent, Stderr: io.Discard}
	for name, ask := range map[string]func(context.Context) error{
		"init":         func(ctx context.Context) error { return new(example).ask(ctx, e) },
		"schema reset": func(ctx context.Context) error { return confirmed(ctx, e, "schema") },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ask(ctx) }()
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s still waits for an answer", name)
		}
	}
	for answer, want := range map[string]string{"y\n": "", "YES\n": "", "yes": "", "\n": "nothing was changed",
		"": "nothing was changed", "n\n": "nothing was changed"} {
		err := confirmed(t.Context(), &cli.Env{Stdin: strings.NewReader(answer), Stderr: io.Discard}, "model")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("the answer %q: %v", answer, err)
		}
	}
}

// TestBrokenArrays: the error of a message with an array that is cut off, or followed by another, is of the whole
// message and not of a row.
func TestBrokenArrays(t *testing.T) {
	for text, want := range map[string]string{
		"[\n {\"x\": 1},\n":     "the JSON ends early",
		`[{"x": 1}] [{"x": 2}]`: "the message continues after its JSON value",
	} {
		var m message
		if err := m.read([]byte(text), 3); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
