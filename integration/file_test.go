package integration

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// TestFileEqualsDaemon holds `fit` and `transform` of a file to give the bits that the daemon publishes for the same rows and model, however the rows
// are batched and typed on the way.
func TestFileEqualsDaemon(t *testing.T) {
	for _, method := range []string{"lda", "pca", "pairacc"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			g := digits(t)
			dir := t.TempDir()
			path, out := filepath.Join(dir, "m.embedd"), filepath.Join(dir, "out.arrows")
			succeed(t, "fit", "--data", digitsFile(t), "--label", "label", "--method", method, "--dim", "5", "-o", path)
			succeed(t, "transform", "--model", path, "--data", digitsFile(t), "-o", out)
			file := records(t, out)

			s := startServer(t, nil)
			c := dial(t, s.ClientURL())
			c.streams()
			d := startDaemon(t, configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: ["x*"], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: `+path+`}
floats:
  input: {stream: FEATURES, subject: features.floats}
  schema: {features: ["x*"], label: label}
  output: {subject: reduced.digits, dead: dead.floats}
  model: {file: `+path+`}`))
			if code, body := d.get("/readyz"); code != 200 {
				t.Errorf("with a fixed model /readyz is %d from the start, want 200: %s", code, body)
			}
			// Once as the file is typed, by the program's own client, and once as float32 columns of our own making in uneven batches; another
			// pipeline, since the kind of the features is fixed for one.
			succeed(t, "publish", "--server", s.ClientURL(), "--data", digitsFile(t), "--label", "label", "--subject", "features.digits", "--batch", "100")
			published := c.count("FEATURES")
			if published != (g.n+99)/100 {
				t.Errorf("publish made %d messages of 100 rows out of %d", published, g.n)
			}
			sent := published
			c.await("REDUCED", sent, time.Minute)
			for from, rows := 0, 1; from < g.n; from, rows = from+rows, rows*3%127+1 {
				c.send("features.floats", g.columns(t, from, min(from+rows, g.n)))
				sent++
			}
			c.await("REDUCED", sent, time.Minute)
			stream := c.read("REDUCED")
			once(t, "FEATURES", 1, sent, stream)
			var daemon [2]reduced
			for i, msg := range stream {
				if i < published {
					daemon[0].add(t, msg.data)
				} else {
					daemon[1].add(t, msg.data)
				}
			}
			var shown struct{ Digest string }
			if err := json.Unmarshal([]byte(succeed(t, "model", "show", "--format", "json", path)), &shown); err != nil {
				t.Fatal(err)
			}
			if h := stream[0].header.Get("Embedd-Model"); h != shown.Digest[:16] {
				t.Errorf("Embedd-Model is %q, want the first 16 digits of the file's digest %s", h, shown.Digest)
			}
			for i, r := range daemon {
				if len(r.y) != len(file.y) || len(r.label) != g.n {
					t.Fatalf("way %d: %d values from the daemon, %d from the file", i, len(r.y), len(file.y))
				}
				for j := range r.y {
					if math.Float32bits(r.y[j]) != math.Float32bits(file.y[j]) {
						t.Fatalf("way %d: row %d, output %d: the daemon says %v, the file %v", i, j/5, j%5, r.y[j], file.y[j])
					}
				}
			}
			d.stop()
		})
	}
}

// columns is rows from to to as one message of m float32 columns and a label.
func (d *table) columns(t testing.TB, from, to int) []byte {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for j := range d.m {
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		for i := from; i < to; i++ {
			b.Append(d.x[i*d.m+j])
		}
		fields = append(fields, arrow.Field{Name: "x" + itoa(j), Type: arrow.PrimitiveTypes.Float32})
		arrays = append(arrays, b.NewArray())
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues(d.label[from:to], nil)
	fields = append(fields, arrow.Field{Name: "label", Type: arrow.BinaryTypes.String})
	arrays = append(arrays, b.NewArray())
	return encode(t, array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(to-from)))
}
