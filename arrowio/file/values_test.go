package file

import (
	"bytes"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
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

// TestUnpackedPage: a page is refused before memory is allocated if it declares more than its bytes can expand to.
func TestUnpackedPage(t *testing.T) {
	for _, c := range []struct {
		size, repetition, definition, bytes int
		want                                string
	}{
		{0, 0, 0, 0, ""},
		{255 * 4, 0, 0, 4, "does not decompress"},
		{255*4 + 1, 0, 0, 4, "declares"},
		{-1, 0, 0, 4, "declares"},
		{3, 1, 2, 3, ""},
		{3 + 255*4, 1, 2, 7, "does not decompress"},
		{3 + 255*4 + 1, 1, 2, 7, "declares"},
		{3, 2, 2, 9, "levels"},
		{9, 2, 2, 3, "levels"},
		{9, -1, 2, 3, "levels"},
		{9, 2, -1, 3, "levels"},
	} {
		h := &format.PageHeader{UncompressedPageSize: int32(c.size)}
		if c.repetition != 0 {
			h.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{RepetitionLevelsByteLength: int32(c.repetition),
				DefinitionLevelsByteLength: int32(c.definition), IsCompressed: thrift.New(true)})
		}
		page, err := unpackPage(h, make([]byte, c.bytes), format.Lz4Raw)
		switch {
		case c.want == "" && (err != nil || len(page) != c.size):
			t.Errorf("%+v: %d bytes, %v", c, len(page), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c, err)
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

// TestRunsOfManyBooleans: a page of a few bytes that declares two billion booleans is refused before memory is
// allocated.
func TestRunsOfManyBooleans(t *testing.T) {
	h := &format.PageHeader{DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: math.MaxInt32,
		Encoding: format.RLE})}
	if _, err := (&pageCopier{size: 1000}).plainBooleans(h, make([]byte, 10), nil); err == nil ||
		!strings.Contains(err.Error(), "declares 2147483647 booleans") {
		t.Errorf("the page is read: %v", err)
	}
}
