package file

import (
	"bytes"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/parquet-go/parquet-go"
)

// TestDecimalValue: each form of a Parquet decimal has its number: integers, and big-endian bytes of any length.
func TestDecimalValue(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	for name, c := range map[string]struct {
		value parquet.Value
		want  string
	}{
		"32 bits":                {parquet.Int32Value(-7), "-7"},
		"64 bits":                {parquet.Int64Value(-1 << 40), "-1099511627776"},
		"no bytes":               {parquet.ByteArrayValue(nil), "0"},
		"one byte":               {parquet.ByteArrayValue([]byte{0x7f}), "127"},
		"one byte, below zero":   {parquet.ByteArrayValue([]byte{0x80}), "-128"},
		"two bytes":              {parquet.ByteArrayValue([]byte{0x01, 0x80}), "384"},
		"nine bytes":             {parquet.FixedLenByteArrayValue([]byte("\x01" + zeros(8))), "18446744073709551616"},
		"17 bytes of one number": {parquet.ByteArrayValue([]byte(zeros(16) + "\x05")), "5"},
		"17 bytes below zero":    {parquet.ByteArrayValue(append(bytes.Repeat([]byte{0xff}, 16), 0xfb)), "-5"},
		"16 bytes, the least one": {parquet.ByteArrayValue([]byte("\x80" + zeros(15))),
			new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 127)).String()},
	} {
		if got := decimalValue(c.value).BigInt().String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestIntegerLabelSchema: only a label with fractions becomes an integer column.
func TestIntegerLabelSchema(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "number", Type: arrow.PrimitiveTypes.Float32}, {Name: "twice", Type: arrow.PrimitiveTypes.Float64},
		{Name: "twice", Type: arrow.PrimitiveTypes.Float64}}, nil)
	for label, want := range map[string]int{"": -1, "text": -1, "number": 1, "twice": -1, "none": -1} {
		got, at := integerLabelSchema(schema, label)
		if at != want || (at < 0) != (got == schema) {
			t.Errorf("label %q: column %d, want %d", label, at, want)
		}
		if at >= 0 && (got.Field(at).Type.ID() != arrow.INT64 || !got.Field(at).Nullable) {
			t.Errorf("label %q: %v", label, got.Field(at))
		}
	}
}

// TestBrokenFooter: a Parquet file whose footer has the right length but no content is refused.
func TestBrokenFooter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.parquet")
	footer := bytes.Repeat([]byte{0xff}, 64)
	b := append(append([]byte("PAR1"), footer...), byte(len(footer)), 0, 0, 0)
	if err := os.WriteFile(path, append(b, "PAR1"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "the Parquet footer cannot be read") {
		t.Errorf("a broken footer gives %v", err)
	}
}

// TestReaderOfEveryFormat: rows from a stream of bytes are those of the file, in every format.
func TestReaderOfEveryFormat(t *testing.T) {
	rec := sample(60)
	defer rec.Release()
	for _, suffix := range []string{".parquet", ".arrow", ".arrows", ".csv", ".csv.gz"} {
		path := filepath.Join(t.TempDir(), "rows"+suffix)
		some := rec
		if strings.HasPrefix(suffix, ".csv") {
			some = array.NewRecord(arrow.NewSchema(rec.Schema().Fields()[:5], nil), rec.Columns()[:5], rec.NumRows())
		}
		write(t, path, some, 25)
		want, _ := read(t, opened(t, path))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(bytes.NewReader(whole), "bytes")
		if err != nil {
			t.Fatalf("%s: %v", suffix, err)
		}
		got, _ := read(t, r)
		equalRows(t, got, want)
		if err := r.Close(); err != nil || len(got) != 60 {
			t.Errorf("%s: %d rows, %v", suffix, len(got), err)
		}
		if _, err := NewReader(bytes.NewReader(whole[:len(whole)/2]), "half"); suffix == ".parquet" && err == nil {
			t.Errorf("%s: half of the bytes are no error", suffix)
		}
	}
}
