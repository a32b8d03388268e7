package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// handover is a model that was fitted to the columns b and a of a file, in this order, and a server.
type handover struct {
	*testing.T
	dir, model, data, url string
}

func newHandover(t *testing.T) handover {
	t.Helper()
	dir := t.TempDir()
	h := handover{t, dir, filepath.Join(dir, "m.embedd"), "", ""}
	var b strings.Builder
	b.WriteString("a,b,extra,label\n")
	for i := range 60 {
		fmt.Fprintf(&b, "%d.%d,%d.%d,%d,%c\n", 10*(i%2), i%7, 5*(i%2), i%5, i, 'a'+i%2)
	}
	h.data = writeFile(t, dir, "rows.csv", b.String())
	verb(t, 0, "fit", "--data", h.data, "--label", "label", "--features", "b", "--features", "a", "--method", "lda", "-o",
		h.model)
	h.url = serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()
	return h
}

// config writes a configuration of pipeline p with these features.
func (h handover) config(features string) string {
	return writeFile(h.T, h.dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: '%s'}
http: {listen: 127.0.0.1:0}
pipelines:
  p:
    input: {stream: FEATURES}
    schema: {features: %s}
    model: {file: %s}
`, h.url, features, h.model))
}

// TestModelFileOfOtherFeatures: a model file whose features schema.features does not name is exit 2 of check and run,
// with a fix that works.
func TestModelFileOfOtherFeatures(t *testing.T) {
	t.Parallel()
	h := newHandover(t)
	for _, c := range []struct{ features, says, fix string }{
		{"[pixels]", `7:24: pipelines.p.schema.features: the model ` + h.model + ` has 2 features, b, a, and ` +
			"schema.features is [pixels]", "[{column: pixels, size: 2}]"},
		{"[{column: pixels, size: 3}]", `its feature "b" is in no entry`, "[b, a]"},
		{"[a, b, extra]", `"extra" is not a feature of it`, "[b, a]"},
		{"[{column: a, size: 4}, b]", `"a" has size 4, and the model has 1 elements of it`, "[b, a]"},
		{"[a], label: b", `its feature "b" is the label or the key`, ""},
	} {
		path := h.config(c.features)
		for _, v := range []string{"check", "run"} {
			code, stdout, stderr := call(t.Context(), v, "-c", path)
			if code != 2 || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, c.fix) {
				t.Errorf("features %s: %s: exit %d, %s%s", c.features, v, code, stdout, stderr)
			}
		}
		if c.fix != "" {
			verb(t, 0, "check", "-c", h.config(c.fix))
		}
	}
	code, stdout, _ := call(t.Context(), "check", "-c", h.config("[z]"), "--format", "json")
	if code != 2 || !strings.Contains(stdout, `"level":"error"`) || !strings.Contains(stdout, `"line":7`) {
		t.Errorf("check --format json: exit %d, %s", code, stdout)
	}
}

// TestModelFileIsServed: the columns of a file, and a list of them whose size schema.features gives, have the same
// outputs; publish refuses what would become dead letters.
func TestModelFileIsServed(t *testing.T) {
	t.Parallel()
	h := newHandover(t)
	outputs := map[string][]float32{}
	for i, c := range []struct{ features, pack, refused string }{
		{`["*"]`, "", "pixels"},
		{"[a, b]", "", "pixels"},
		{"[{column: pixels, size: 2}]", "pixels", ""},
	} {
		path := h.config(c.features)
		if i == 0 {
			verb(t, 0, "setup", "--apply", "-c", path)
		}
		nc := sure(nats.Connect(h.url, nats.Timeout(ample)))
		defer nc.Close()
		got := make(chan *nats.Msg, 10)
		for _, subject := range []string{"reduced.p", "dead.p"} {
			sure(nc.ChanSubscribe(subject, got))
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		d := startRun(t, path)
		publish := []string{"publish", "-c", path, "--data", h.data, "--pipeline", "p", "--pack"}
		code, _, stderr := call(t.Context(), append(publish, c.refused)...)
		if code != 2 || !strings.Contains(stderr, "missing_column") || strings.Contains(stderr, "--pack") !=
			(c.refused != "") {
			t.Errorf("features %s: publish --pack %q: exit %d, %s", c.features, c.refused, code, stderr)
		}
		verb(t, 0, append(publish, c.pack)...)
		select {
		case m := <-got:
			if m.Subject != "reduced.p" {
				t.Fatalf("features %s: a message to %s: %v", c.features, m.Subject, m.Header)
			}
			outputs[c.features] = embeddings(t, m.Data)
		case <-time.After(ample):
			t.Fatal("no output comes")
		}
		d.stop()
	}
	if n := len(outputs["[a, b]"]); n != 60 {
		t.Errorf("%d numbers, want 60", n)
	}
	for features, out := range outputs {
		for i, v := range outputs["[a, b]"] {
			if math.Abs(float64(out[i]-v)) > 1e-4 { // a list has float32, the columns of the file float64
				t.Errorf("features %s: output %d is %v, want %v", features, i, out[i], v)
			}
		}
	}
}

// embeddings are the numbers of the column embedding.
func embeddings(t *testing.T, message []byte) (out []float32) {
	t.Helper()
	r := sure(ipc.NewReader(bytes.NewReader(message)))
	defer r.Release()
	at := r.Schema().FieldIndices("embedding")[0]
	for r.Next() {
		list := r.Record().Column(at).(*array.FixedSizeList)
		out = append(out, list.ListValues().(*array.Float32).Float32Values()...)
	}
	return out
}

// TestFixesAreAccepted: what an error suggests for schema.features is accepted, whatever the names of the features.
func TestFixesAreAccepted(t *testing.T) {
	for _, names := range [][]string{{"x0", "x1", "x2", "x3", "x4"}, {"x[0]", "x[1]"}, {"a b", "c:d"}, {"[a", "[b", "[c",
		"[d", "[e"}, {"p", "q", "r", "s", "t"}, {"*"}, {"y[3]", "y[5]"}} {
		rows, classes := make([]float64, 0, 8*len(names)), []int(nil)
		for i := range 8 {
			for j := range names {
				rows = append(rows, float64((i*(j+3))%7+9*(i%2)))
			}
			classes = append(classes, i%2)
		}
		m := sure(fit.Fit(t.Context(), &model.Data{X: rows, N: 8, M: len(names), Features: names, Y: classes,
			Classes: []string{"a", "b"}}, fit.Config{Method: "lda", Dim: 1}))
		path := filepath.Join(t.TempDir(), "m.embedd")
		var file bytes.Buffer
		if err := model.Write(&file, m); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Dir(path), "m.embedd", file.String())
		pipelines := func(features string) error {
			text := "pipelines: {p: {schema: {features: " + features + "}, model: {file: " + path + "}}}\n"
			c, err := config.Parse("embedd.yaml", []byte(text), func(string) (string, bool) { return "", false })
			if err == nil {
				_, err = engine.Pipelines(c)
			}
			return err
		}
		err := pipelines("[pixels, more]")
		if err == nil {
			t.Fatalf("%q: no error", names)
		}
		_, fix, _ := strings.Cut(err.Error(), "write features: ")
		if err := pipelines(fix); err != nil {
			t.Errorf("%q: the fix %s is refused: %v", names, fix, err)
		}
	}
}

// TestDifferenceOfEqualModels: the outputs of a model and of itself have the cosine 1, without a rounding error.
func TestDifferenceOfEqualModels(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("x,y,z,label\n")
	for i := range 60 {
		fmt.Fprintf(&b, "%d.%d,%d.%d,%d,%c\n", i%3, i*7%11, i%5, i*3%7, i*i%13, 'a'+i%3)
	}
	m := fitted(t, writeFile(t, t.TempDir(), "rows.csv", b.String()), "lda", "--dim", "2")
	if got := verb(t, 0, "model", "diff", m, m, "--format", "json"); !strings.Contains(got, `"cosines":[1,1]`) {
		t.Error(got)
	}
}

// TestFeatureNamedLikeARange: a feature of a model that the rows do not have is no range.
func TestFeatureNamedLikeARange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := writeFile(t, dir, "a.csv", "x,y,x:y,label\n1,2,3,a\n2,3,5,b\n3,1,2,a\n4,4,1,b\n")
	m := fitted(t, data, "pca", "--dim", "1")
	rows := writeFile(t, dir, "b.csv", "x,y,label\n1,2,a\n2,3,b\n")
	code, _, stderr := call(t.Context(), "transform", "--model", m, "--data", rows, "-o", filepath.Join(dir, "out.csv"))
	if code != 1 || !strings.Contains(stderr, `no column "x:y"`) || strings.Contains(stderr, "ranges") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
