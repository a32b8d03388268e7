package file

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
)

// testdata/types.parquet is written by pyarrow (testdata/write.py): every type that is read, nulls, dictionaries,
// several row groups, Zstandard. The columns of nested types are left out and named.
func TestPyarrowFile(t *testing.T) {
	r := opened(t, filepath.Join("testdata", "types.parquet"))
	want := map[string]string{
		"f64": "float64", "f32": "float32", "f16": "float32", "i8": "int8", "u32": "uint32", "u64": "uint64",
		"b": "bool", "s": "utf8", "dict": "utf8",
		"bin": "binary", "fsb": "fixed_size_binary", "ts": "timestamp", "date": "date32", "time": "time64",
		"dec": "decimal", "list": "list", "vector": "list",
	}
	for _, f := range r.Schema().Fields() {
		if got := f.Type.Name(); got != want[f.Name] {
			t.Errorf("column %s: %s, want %s", f.Name, got, want[f.Name])
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("columns missing: %v", want)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, `"struct"`) ||
		!strings.Contains(notes, `"map"`) {
		t.Errorf("notes %q do not name the nested columns", notes)
	}
	rows, batches := read(t, r)
	if len(rows) != 30 || batches != 3 {
		t.Fatalf("%d rows in %d batches, want 30 in 3 (row groups of 10)", len(rows), batches)
	}
	first := strings.Join(rows[1], " ")
	expect := "0.5 0.25 1 -49 4294967294 18446744073709551614 false name 1 c1 AP8x YWJjZA== 2020-01-01 00:00:01Z 2020-01-02 00:00:00.000001 0.01 [0] [1,2,3]"
	if first != expect {
		t.Errorf("row 1 is\n%s, want\n%s", first, expect)
	}
	if rows[3][0] != array.NullValueStr || rows[3][8] != array.NullValueStr || rows[3][15] != array.NullValueStr {
		t.Errorf("row 3 is %q, want nulls in f64, dict and list", rows[3])
	}
}

// A codec that the library decodes to zeros is refused.
func TestParquetLZ4IsRefused(t *testing.T) {
	_, err := Open(filepath.Join("testdata", "lz4.parquet"))
	if err == nil || !strings.Contains(err.Error(), "LZ4") || !strings.Contains(err.Error(), "Snappy") {
		t.Errorf("LZ4: %v", err)
	}
}

func TestParquetUnsupportedTypes(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "s",
		Type: arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8})}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).AppendNull()
	rec := b.NewRecord()
	defer rec.Release()
	w, err := Create(filepath.Join(t.TempDir(), "x.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if err := w.Write(rec); err == nil || !strings.Contains(err.Error(), `"s"`) ||
		!strings.Contains(err.Error(), "--keep") {
		t.Errorf("a struct: %v", err)
	}
}

func TestParquetOldForms(t *testing.T) {
	if got, want := int96Timestamp(deprecated.Int96{1000, 0, 2440589}),
		arrow.Timestamp(86_400_000_001_000); got != want {
		t.Errorf("INT96 day after the epoch is %d, want %d", got, want)
	}
	if got := decimalValue(parquet.FixedLenByteArrayValue([]byte{0xff, 0x38})); got.LowBits() != ^uint64(199) ||
		got.HighBits() != -1 {
		t.Errorf("two's complement 0xff38 is %v, want -200", got)
	}
}
