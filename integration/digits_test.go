package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// table is labelled rows of float32 features.
type table struct {
	n, m  int
	x     []float32 // n x m
	label []string
}

// digitsFile is the data that the program includes.
func digitsFile(t testing.TB) string {
	t.Helper()
	return must(filepath.Abs("../cmd/embedd/data/digits.csv.gz"))(t)
}

var readDigits = sync.OnceValues(func() (*table, error) {
	f, err := os.Open("../cmd/embedd/data/digits.csv.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(z).ReadAll()
	if err != nil {
		return nil, err
	}
	d := &table{n: len(lines) - 1, m: len(lines[0]) - 1}
	for _, line := range lines[1:] {
		for _, s := range line[:d.m] {
			v, err := strconv.ParseFloat(s, 32)
			if err != nil {
				return nil, err
			}
			d.x = append(d.x, float32(v))
		}
		d.label = append(d.label, line[d.m])
	}
	return d, nil
})

func digits(t testing.TB) *table {
	t.Helper()
	return must(readDigits())(t)
}

// message returns rows from to to of the table as one message: id, label (null if not wanted), pixels.
func (d *table) message(t testing.TB, from, to int, labelled bool) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "pixels", Type: arrow.FixedSizeListOf(int32(d.m), arrow.PrimitiveTypes.Float32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	pixels := b.Field(2).(*array.FixedSizeListBuilder)
	for i := from; i < to; i++ {
		row := i % d.n
		b.Field(0).(*array.Int32Builder).Append(int32(i))
		if labelled {
			b.Field(1).(*array.StringBuilder).Append(d.label[row])
		} else {
			b.Field(1).AppendNull()
		}
		pixels.Append(true)
		pixels.ValueBuilder().(*array.Float32Builder).AppendValues(d.x[row*d.m:(row+1)*d.m], nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	return encode(t, rec)
}

// encode writes records of one schema as one message, with Arrow's writer.
func encode(t testing.TB, recs ...arrow.Record) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(recs[0].Schema()))
	for _, r := range recs {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// decode reads a message with Arrow's reader.
func decode(t testing.TB, data []byte) (*arrow.Schema, []arrow.Record) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("Arrow's own reader refuses %d bytes: %v", len(data), err)
	}
	defer r.Release()
	var out []arrow.Record
	for r.Next() {
		r.Record().Retain()
		out = append(out, r.Record())
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return r.Schema(), out
}

// reduced has the rows of outputs in their order.
type reduced struct {
	d     int
	id    []int32
	label []string // "" if null
	y     []float32
}

// add appends the rows of one output message.
func (r *reduced) add(t testing.TB, data []byte) {
	t.Helper()
	schema, recs := decode(t, data)
	at := func(name string) int {
		i := schema.FieldIndices(name)
		if len(i) != 1 {
			t.Fatalf("the output has no one column %s: %v", name, schema)
		}
		return i[0]
	}
	for _, rec := range recs {
		list := rec.Column(at("embedding")).(*array.FixedSizeList)
		r.d = int(list.DataType().(*arrow.FixedSizeListType).Len())
		y := list.ListValues().(*array.Float32)
		for i := range int(rec.NumRows()) {
			from, to := list.ValueOffsets(i)
			r.y = append(r.y, y.Float32Values()[from:to]...)
			if ids := schema.FieldIndices("id"); len(ids) == 1 {
				r.id = append(r.id, rec.Column(ids[0]).(*array.Int32).Value(i))
			}
			if c := rec.Column(at("label")); c.IsNull(i) {
				r.label = append(r.label, "")
			} else {
				r.label = append(r.label, c.ValueStr(i))
			}
		}
		rec.Release()
	}
}

// nearest returns the share of rows whose nearest other row has their class, by Euclidean distance of the embeddings.
func (r *reduced) nearest(label []string) float64 {
	n, right := len(label), 0
	for i := range n {
		best, at := float32(0), -1
		for j := range n {
			if i == j {
				continue
			}
			var s float32
			for k := range r.d {
				v := r.y[i*r.d+k] - r.y[j*r.d+k]
				s += v * v
			}
			if at < 0 || s < best {
				best, at = s, j
			}
		}
		if label[i] == label[at] {
			right++
		}
	}
	return float64(right) / float64(n)
}

// records reads an Arrow IPC stream file that transform wrote.
func records(t testing.TB, path string) *reduced {
	t.Helper()
	var r reduced
	r.add(t, must(os.ReadFile(path))(t))
	return &r
}

func itoa(i int) string { return strconv.Itoa(i) }

// packedModel fits a model on the digits in the form of table.message and returns its file.
func packedModel(t testing.TB, method string, dim int) string {
	t.Helper()
	dir := t.TempDir()
	data, path := filepath.Join(dir, "digits.arrows"), filepath.Join(dir, method+".embedd")
	g := digits(t)
	if err := os.WriteFile(data, g.message(t, 0, g.n, true), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "fit", "--data", data, "--features", "pixels", "--label", "label", "--method", method, "--dim",
		itoa(dim), "-o", path)
	return path
}
