package arrowio

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	arrowipc "github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
)

// With -out the outputs are written for testdata/check.py, which compares them in pyarrow.
var (
	outDir = flag.String("out", "", "directory for the outputs of the round trips")
	inDir  = flag.String("in", "testdata", "directory of the messages, as testdata/gen.py writes them")
)

func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(*inDir, "*.arrows"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	files := map[string][]byte{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(n), ".arrows")] = b
	}
	return files
}

func newDecoder(t testing.TB, s Spec) *Decoder {
	t.Helper()
	d, err := NewDecoder(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newEncoder(t testing.TB, o Output) *Encoder {
	t.Helper()
	e, err := NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// numbered returns a result that identifies rows: row r of the message is (10r, 10r+1, ...).
func numbered(m *Message, dim int) Reduced {
	r := Reduced{Message: m, Dim: dim}
	row := 0
	for _, b := range m.Batches() {
		y := make([]float32, 0, b.Rows()*dim)
		for range b.Rows() {
			for j := range dim {
				y = append(y, float32(10*row+j))
			}
			row++
		}
		r.Y = append(r.Y, y)
	}
	return r
}

// records reads a stream with Arrow's reader.
func records(t testing.TB, msg []byte) (*arrow.Schema, []arrow.Record) {
	t.Helper()
	r, err := arrowipc.NewReader(bytes.NewReader(msg))
	if err != nil {
		t.Fatal(err)
	}
	var recs []arrow.Record
	for r.Next() {
		rec := r.Record()
		rec.Retain()
		recs = append(recs, rec)
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return r.Schema(), recs
}

type rowOf struct {
	rec arrow.Record
	row int
}

func rowsOf(recs []arrow.Record) (rows []rowOf) {
	for _, r := range recs {
		for i := 0; i < int(r.NumRows()); i++ {
			rows = append(rows, rowOf{r, i})
		}
	}
	return rows
}

// sameRows checks that outputs have the kept columns of the input for the rows that their embedding identifies, and
// returns these rows.
func sameRows(t *testing.T, in []byte, out []byte, without string) (seen []int) {
	t.Helper()
	inSchema, inRecs := records(t, in)
	outSchema, outRecs := records(t, out)
	inRows, outRows := rowsOf(inRecs), rowsOf(outRecs)
	last := len(outSchema.Fields()) - 1
	for k, f := range inSchema.Fields() {
		if f.Name == without {
			continue
		}
		at := outSchema.FieldIndices(f.Name)
		if len(at) != 1 {
			t.Errorf("column %s is in the output %d times", f.Name, len(at))
			continue
		}
		if g := outSchema.Field(at[0]); !f.Equal(g) || !f.Metadata.Equal(g.Metadata) {
			t.Errorf("field changed from %v to %v", f, g)
		}
		for _, o := range outRows {
			from := inRows[embeddingRow(o, last)]
			a, b := from.rec.Column(k), o.rec.Column(at[0])
			if !sameValue(a, from.row, b, o.row) {
				t.Errorf("column %s: row %d changed from %v to %v", f.Name, from.row,
					from.rec.Column(k).ValueStr(from.row), o.rec.Column(at[0]).ValueStr(o.row))
			}
		}
	}
	for k, key := range inSchema.Metadata().Keys() {
		want := inSchema.Metadata().Values()[k]
		if key == wire.HeaderWire {
			want = "1"
		}
		if got, ok := outSchema.Metadata().GetValue(key); !ok || got != want {
			t.Errorf("metadata %s is %q, not %q", key, got, want)
		}
	}
	for _, o := range outRows {
		seen = append(seen, embeddingRow(o, last))
	}
	return seen
}

// sameValue compares two values; a dictionary may have lost the entries that no row uses.
func sameValue(a arrow.Array, i int, b arrow.Array, j int) bool {
	return array.SliceEqual(a, int64(i), int64(i+1), b, int64(j), int64(j+1)) || bothNaN(a, i, b, j) ||
		strings.Contains(a.DataType().String(), "dictionary") && a.ValueStr(i) == b.ValueStr(j)
}

func bothNaN(a arrow.Array, i int, b arrow.Array, j int) bool {
	x, ok := a.(*array.Float64)
	y, same := b.(*array.Float64)
	return ok && same && math.IsNaN(x.Value(i)) && math.IsNaN(y.Value(j))
}

func embeddingRow(o rowOf, column int) int {
	l := o.rec.Column(column).(*array.FixedSizeList)
	from, _ := l.ValueOffsets(o.row)
	return int(l.ListValues().(*array.Float32).Value(int(from))) / 10
}

func upTo(n int) (rows []int) {
	for i := range n {
		rows = append(rows, i)
	}
	return rows
}

func keepFile(t *testing.T, name string, k int, out []byte) {
	t.Helper()
	if *outDir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*outDir, fmt.Sprintf("%s.%d.out", name, k)), out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every kept column of every type is unchanged in the output: whole, with rows dropped, and split; plain and
// compressed.
func TestKeptColumnsPassThrough(t *testing.T) {
	meta := []wire.Pair{{Key: wire.HeaderWire, Value: wire.Version}, {Key: wire.HeaderMethod, Value: "lda"}}
	for name, in := range fixtures(t) {
		for _, compression := range []string{"none", "lz4", "zstd"} {
			t.Run(name+"/"+compression, func(t *testing.T) {
				d := newDecoder(t, Spec{})
				without := ""
				m, err := d.Decode(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(m.Batches()) > 0 && m.plan.schema.Layout.Fields[0].Name == "x" {
					without = "x"
					if m, err = newDecoder(t, Spec{Features: []string{"x"}}).Decode(in, nil); err != nil {
						t.Fatal(err)
					}
				}
				e := newEncoder(t, Output{Compression: compression})
				r := numbered(m, 2)
				out, err := e.Encode(r, meta)
				if err != nil {
					t.Fatal(err)
				}
				keepFile(t, name+"."+compression+".whole", 0, out)
				if got := sameRows(t, in, out, without); !slices.Equal(got, upTo(m.Rows())) {
					t.Errorf("rows %v of %d", got, m.Rows())
				}
				var kept []int
				row := 0
				for _, b := range m.Batches() {
					var drop []int
					for i := range b.Rows() {
						if i%3 == 1 || i == 5 || i%7 == 6 {
							drop = append(drop, i)
						} else {
							kept = append(kept, row)
						}
						row++
					}
					r.Drop = append(r.Drop, drop)
				}
				if out, err = e.Encode(r, meta); err != nil {
					t.Fatal(err)
				}
				keepFile(t, name+"."+compression+".drop", 0, out)
				if got := sameRows(t, in, out, without); !slices.Equal(got, kept) {
					t.Errorf("rows %v, not %v", got, kept)
				}
				if m.Rows() == 0 {
					return
				}
				for _, r := range []Reduced{numbered(m, 2), r} {
					want := kept
					if r.Drop == nil {
						want = upTo(m.Rows())
					}
					checkSplit(t, name+"."+compression, e, r, in, without, want)
				}
			})
		}
	}
}

func checkSplit(t *testing.T, name string, e *Encoder, r Reduced, in []byte, without string, want []int) {
	t.Helper()
	whole, err := e.Split(r, 1<<20, func(int, int) []wire.Pair { return nil })
	if err != nil || len(whole) != 1 {
		t.Fatalf("%d parts where one fits, error %v", len(whole), err)
	}
	undivided := e.outputMemory()
	form := e.prepare(r, undivided)
	parts, dicts := undivided.Parts, r.Message.dicts
	size := func(p *rewrite.Part) int {
		return form.Whole([]*rewrite.Part{p, p}, dicts).Size - form.Whole([]*rewrite.Part{p}, dicts).Size
	}
	all := 0
	for _, p := range parts {
		all += size(p)
	}
	fixed := form.SchemaSize() + undivided.Size - all
	row := 0 // bytes of the widest row
	for _, p := range parts {
		for i := range p.Batch.Rows {
			one := form.Part(p.Batch, []ipc.Span{{Lo: i, Hi: i + 1}}, make([]float32, p.Batch.Rows*r.Dim), r.Dim)
			row = max(row, size(one))
		}
	}
	limit := (fixed+(row+all)/2)*4/3 + 16
	msgs, err := e.Split(r, limit, func(k, n int) []wire.Pair {
		return []wire.Pair{{Key: wire.HeaderWire, Value: wire.Version},
			{Key: wire.HeaderPart, Value: fmt.Sprint(k, "/", n)}}
	})
	if err != nil {
		t.Fatal(err)
	}
	full := 0
	for _, p := range parts {
		if p.Rows > 0 {
			full += size(p)
		}
	}
	if len(msgs) < 2 && undivided.Size == all && full > form.BodyLimit(limit) {
		t.Errorf("%d parts under a limit of %d", len(msgs), limit)
	}
	var got []int
	for k, msg := range msgs {
		if len(msg) > limit {
			t.Errorf("part %d has %d bytes, over %d", k, len(msg), limit)
		}
		keepFile(t, fmt.Sprintf("%s.split%d", name, len(want)), k, msg)
		got = append(got, sameRows(t, in, msg, without)...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("parts hold rows %v, not %v", got, want)
	}
}

func wantCode(t *testing.T, err error, code wire.Code, words ...string) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Errorf("%v is no *Error, want %s", err, code)
		return
	}
	if e.Code != code {
		t.Errorf("%s (%v), want %s", e.Code, e, code)
	}
	if e.Hint == "" {
		t.Errorf("%v: no fix is named", e)
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			t.Errorf("%q does not say %q", e, w)
		}
	}
}
