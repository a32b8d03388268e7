package integration

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestFileEqualsDaemon checks that `fit` and `transform` of a file give the bits that the daemon publishes for the same
// rows and model, whatever the batches and types of the messages.
func TestFileEqualsDaemon(t *testing.T) {
	t.Parallel()
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
doubles:
  input: {stream: FEATURES, subject: features.doubles}
  schema: {features: ["x*"], label: label}
  output: {subject: reduced.doubles, dead: dead.doubles}
  model: {file: `+path+`}`))
			eventually(t, says("/readyz is 200 with a fixed model before anything came"), func() bool {
				code, _ := d.get("/readyz")
				return code == 200
			})
			// Once with the types of the file (integers), by the program's own client, and once as float64 columns in
			// uneven batches; in another pipeline.
			succeed(t, "publish", "--server", s.ClientURL(), "--data", digitsFile(t), "--label", "label", "--subject",
				"features.digits", "--batch", "100")
			published := c.count("FEATURES")
			if published != (g.n+99)/100 {
				t.Errorf("publish made %d messages of 100 rows out of %d", published, g.n)
			}
			sent := published
			c.await("REDUCED", sent)
			for from, rows := 0, 1; from < g.n; from, rows = from+rows, rows*3%127+1 {
				c.send("features.doubles", g.columns(t, from, min(from+rows, g.n)))
				sent++
			}
			c.await("REDUCED", sent)
			stream := c.read("REDUCED")
			once(t, "FEATURES", 1, sent, stream)
			var daemon [2]reduced
			for _, msg := range stream {
				if msg.subject == "reduced.digits" {
					daemon[0].add(t, msg.data)
				} else {
					daemon[1].add(t, msg.data)
				}
			}
			var shown struct{ Digest string }
			if err := json.Unmarshal([]byte(succeed(t, "model", "show", "--format", "json", path)),
				&shown); err != nil {
				t.Fatal(err)
			}
			if h := stream[0].header.Get(wire.HeaderModel); h != shown.Digest[:16] {
				t.Errorf("the header names model %q, want the first 16 digits of the file's digest %s", h, shown.Digest)
			}
			for i, r := range daemon {
				if len(r.y) != len(file.y) || len(r.label) != g.n {
					t.Fatalf("way %d: %d values from the daemon, %d from the file", i, len(r.y), len(file.y))
				}
				for j := range r.y {
					if math.Float32bits(r.y[j]) != math.Float32bits(file.y[j]) {
						t.Fatalf("way %d: row %d, output %d: the daemon says %v, the file %v", i, j/5, j%5, r.y[j],
							file.y[j])
					}
				}
			}
			d.stop()
		})
	}
}

// columns returns rows from to to as one message of m float64 columns and a label.
func (d *table) columns(t testing.TB, from, to int) []byte {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for j := range d.m {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		for i := from; i < to; i++ {
			b.Append(float64(d.x[i*d.m+j]))
		}
		fields = append(fields, arrow.Field{Name: "x" + itoa(j), Type: arrow.PrimitiveTypes.Float64})
		arrays = append(arrays, b.NewArray())
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues(d.label[from:to], nil)
	fields = append(fields, arrow.Field{Name: "label", Type: arrow.BinaryTypes.String})
	arrays = append(arrays, b.NewArray())
	return encode(t, array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(to-from)))
}

// TestFileEqualsPacked checks that the bits are the same if the client packs the numbers of the file into one list of
// float32, the recommended form: an output depends only on the values of the row and the model, and every value of the
// digits is exact in float32.
func TestFileEqualsPacked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.embedd")
	// The model in the documented way for that form: a file of packed rows has the features pixels[0] ..., so the model
	// is fitted on one.
	g := digits(t)
	packed := filepath.Join(t.TempDir(), "digits.arrows")
	if err := os.WriteFile(packed, g.message(t, 0, g.n, true), 0o600); err != nil {
		t.Fatal(err)
	}
	doubles := filepath.Join(t.TempDir(), "doubles.arrows")
	if err := os.WriteFile(doubles, g.doubles(t), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "fit", "--data", packed, "--features", "pixels", "--label", "label", "--method", "lda", "--dim", "5",
		"-o", path)
	var out [2]*reduced
	for i, data := range []string{packed, doubles} {
		to := filepath.Join(t.TempDir(), "out.arrows")
		succeed(t, "transform", "--model", path, "--data", data, "-o", to)
		out[i] = records(t, to)
	}
	different := 0
	for j := range out[0].y {
		if math.Float32bits(out[0].y[j]) != math.Float32bits(out[1].y[j]) {
			different++
		}
	}
	if different > 0 {
		t.Errorf("%d of %d outputs have other bits when the same values come as float32 and as float64", different,
			len(out[0].y))
	}
}

// doubles returns the whole table as one message with the pixels as a list of float64.
func (d *table) doubles(t testing.TB) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.BinaryTypes.String},
		{Name: "pixels", Type: arrow.FixedSizeListOf(int32(d.m), arrow.PrimitiveTypes.Float64)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	pixels := b.Field(1).(*array.FixedSizeListBuilder)
	for i := range d.n {
		b.Field(0).(*array.StringBuilder).Append(d.label[i])
		pixels.Append(true)
		for _, v := range d.x[i*d.m : (i+1)*d.m] {
			pixels.ValueBuilder().(*array.Float64Builder).Append(float64(v))
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	return encode(t, rec)
}
