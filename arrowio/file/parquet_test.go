package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
)

// testdata/types.parquet is written by pyarrow (testdata/write.py): every type that is read, nulls, dictionaries,
// several row groups, Zstandard. Columns of nested types are skipped and named.
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
	expect := "0.5 0.25 1 -49 4294967294 18446744073709551614 false name 1 c1 AP8x YWJjZA== 2020-01-01 00:00:01Z " +
		"2020-01-02 00:00:00.000001 0.01 [0] [1,2,3]"
	if first != expect {
		t.Errorf("row 1 is\n%s, want\n%s", first, expect)
	}
	if rows[3][0] != array.NullValueStr || rows[3][8] != array.NullValueStr || rows[3][15] != array.NullValueStr {
		t.Errorf("row 3 is %q, want nulls in f64, dict and list", rows[3])
	}
}

// TestStripes: a row group that is read a column after the other, through temporary files, has the same rows.
func TestStripes(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	path := filepath.Join("testdata", "types.parquet")
	want, _ := read(t, opened(t, path))
	for _, batch := range []int64{1, 3, 10} {
		r := opened(t, path)
		p := r.records.(*parquetReader)
		p.maxLeafBytes, p.batch = 1, batch
		got, _ := read(t, r)
		equalRows(t, got, want)
	}
	for _, room := range []int64{0, 6000} { // the first or a later stripe is too large
		r := opened(t, path)
		p := r.records.(*parquetReader)
		p.maxLeafBytes, p.maxStripeBytes, p.batch = 1, room, 3
		got, _ := read(t, r)
		if equalRows(t, got, want); len(p.stripes) > 0 {
			t.Errorf("%d stripes with room for %d bytes", len(p.stripes), room)
		}
	}
	r := opened(t, path)
	r.records.(*parquetReader).maxLeafBytes = 1
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	rec.Release()
	if n := len(r.records.(*parquetReader).stripes); n != 17 {
		t.Errorf("%d stripes, want one for each column", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, error %v", left, err)
	}
}

// TestParquetNumbersOfRows: a row group that declares more rows than a column has, or fewer than none, is damaged.
func TestParquetNumbersOfRows(t *testing.T) {
	for _, rows := range []int64{-1, 11, 1 << 62} {
		r := opened(t, filepath.Join("testdata", "types.parquet"))
		p := r.records.(*parquetReader)
		for i, g := range p.groups {
			p.groups[i] = declared{g, rows}
		}
		for {
			rec, err := r.Next()
			if err == nil {
				rec.Release()
				continue
			}
			if !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%d rows declared: the error is %v", rows, err)
			}
			break
		}
	}
}

// TestParquetPages: a column of a row group is read page by page.
func TestParquetPages(t *testing.T) {
	var file bytes.Buffer
	w := parquet.NewGenericWriter[struct{ X float64 }](&file, parquet.PageBufferSize(800))
	for i := range 1000 {
		if _, err := w.Write([]struct{ X float64 }{{float64(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pages.parquet")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if rows, batches := read(t, opened(t, path)); len(rows) != 1000 || batches != 1 || rows[999][0] != "999" {
		t.Errorf("%d rows in %d batches", len(rows), batches)
	}
}

// declared is a row group with another number of rows.
type declared struct {
	parquet.RowGroup
	rows int64
}

func (d declared) NumRows() int64 { return d.rows }

// Pages of LZ4_RAW, of both versions, are read correctly. The library alone returns zeros for the first file.
func TestParquetLZ4(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rows, _ := read(t, opened(t, filepath.Join("testdata", "lz4.parquet")))
	for i, row := range rows {
		if row[0] != fmt.Sprint(i) {
			t.Fatalf("row %d is %s", i, row[0])
		}
	}
	want, _ := read(t, opened(t, filepath.Join("testdata", "types.parquet")))
	got, batches := read(t, opened(t, filepath.Join("testdata", "lz4v2.parquet")))
	if equalRows(t, got, want); len(rows) != 100 || batches != 3 {
		t.Errorf("%d rows and %d batches", len(rows), batches)
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "lz4.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.parquet")
	for i := 4; i < len(raw)-8; i += 23 {
		b := bytes.Clone(raw)
		b[i] ^= 0x55
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(path); err == nil {
			r.Next() // an error or other values
			r.Close()
		}
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
}

// Several LZ4_RAW pages of a column are read also if no dictionary is in front of them, and after a row group without
// rows.
func TestParquetLZ4Pages(t *testing.T) {
	rows, _ := read(t, opened(t, filepath.Join("testdata", "lz4pages.parquet")))
	for i, row := range rows {
		if want := strconv.FormatFloat(float64(i)/2, 'g', -1, 64); row[0] != want {
			t.Fatalf("row %d is %s, want %s", i, row[0], want)
		}
	}
	if len(rows) != 400 {
		t.Errorf("%d rows", len(rows))
	}
}

// Booleans in runs are read correctly, in pages of both versions. The library alone makes most runs of true false.
func TestParquetBooleanRuns(t *testing.T) {
	var want [][]string
	flag := func(i int) bool { return i%100 < 41 || i%13 == 0 }
	for i := range 500 {
		b, list := strconv.FormatBool(flag(i)), []bool{}
		if i%29 == 3 {
			b = array.NullValueStr
		}
		for k := range i % 4 {
			list = append(list, flag(i+k))
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, []string{b, string(text)})
	}
	for _, name := range []string{"runs.parquet", "runsv1.parquet"} {
		rows, _ := read(t, opened(t, filepath.Join("testdata", name)))
		equalRows(t, rows, want)
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
	if got, want := int96Time(deprecated.Int96{1000, 0, 2440589}).UnixNano(), int64(86_400_000_001_000); got != want {
		t.Errorf("INT96 day after the epoch is %d, want %d", got, want)
	}
	if got := decimalValue(parquet.FixedLenByteArrayValue([]byte{0xff, 0x38})); got.LowBits() != ^uint64(199) ||
		got.HighBits() != -1 {
		t.Errorf("two's complement 0xff38 is %v, want -200", got)
	}
}

// TestParquetInt96: a timestamp that does not fit into nanoseconds is an error that names column, row and limit.
func TestParquetInt96(t *testing.T) {
	type row struct {
		T deprecated.Int96
	}
	const lastDay = 2440588 + 106751                    // 2262-04-11
	last := uint64(math.MaxInt64 % int64(24*time.Hour)) // nanoseconds of that day
	for name, c := range map[string]struct {
		nanos uint64
		day   uint32
		want  string // "": it fits
	}{
		"the last":     {last, lastDay, ""},
		"one too late": {last + 1, lastDay, "2262-04-11T23:47:16Z"},
		"a year later": {0, lastDay + 365, "2263-04-11T00:00:00Z"},
		"too early":    {0, 0, "-4713-11-24T00:00:00Z"},
		"far":          {0, math.MaxUint32, "11754508-12-13T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "times.parquet")
			var file bytes.Buffer
			w := parquet.NewGenericWriter[row](&file)
			for range 3 { // row groups
				if _, err := w.Write([]row{{deprecated.Int96{0, 0, 2440588}}}); err != nil {
					t.Fatal(err)
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			v := deprecated.Int96{uint32(c.nanos), uint32(c.nanos >> 32), c.day}
			if _, err := w.Write([]row{{v}}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			r := opened(t, path)
			var err error
			var got arrow.Timestamp
			for err == nil {
				var rec arrow.Record
				if rec, err = r.Next(); err == nil {
					got = rec.Column(0).(*array.Timestamp).Value(int(rec.NumRows()) - 1)
					rec.Release()
				}
			}
			if c.want == "" {
				if !errors.Is(err, io.EOF) || got != math.MaxInt64 {
					t.Errorf("%d, error %v", got, err)
				}
				return
			}
			for _, words := range []string{path, `column "T": row 3`, c.want, "2262-04-11T23:47:16Z"} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is missing in %q", words, err)
				}
			}
			if strings.Contains(err.Error(), "damaged") {
				t.Error(err)
			}
		})
	}
}

// TestLongListsInGroups: a row group ends after so many values that it fits into memory, also if they are in lists.
func TestLongListsInGroups(t *testing.T) {
	const rows, wide = 3000, 4096
	list := arrow.FixedSizeListOf(wide, arrow.PrimitiveTypes.Int8)
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, wide, arrow.PrimitiveTypes.Int8)
	defer b.Release()
	values := b.ValueBuilder().(*array.Int8Builder)
	values.Reserve(rows * wide)
	for i := range rows {
		b.Append(true)
		for j := range wide {
			values.UnsafeAppend(int8(i + j))
		}
	}
	column := b.NewArray()
	defer column.Release()
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "v", Type: list}}, nil), []arrow.Array{column}, rows)
	defer rec.Release()
	path := filepath.Join(t.TempDir(), "long.parquet")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := openFooter(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.RowGroups() {
		if n := g.ColumnChunks()[0].NumValues(); n > 1<<23+1<<18 {
			t.Errorf("a row group of %d rows has %d values", g.NumRows(), n)
		}
	}
	if n := len(f.RowGroups()); f.NumRows() != rows || n != 2 {
		t.Errorf("%d rows in %d row groups, want %d in 2", f.NumRows(), n, rows)
	}
}

// TestLeavesThatAreReadTogether: the columns of a row group are read together up to 32 MiB, of which a column counts as
// 2 MiB at most. The stripes may take 64 times the size of the file.
func TestLeavesThatAreReadTogether(t *testing.T) {
	path := filepath.Join("testdata", "types.parquet") // 17 columns
	for size, stripes := range map[int64]int{1: 0, 1900 << 10: 0, 1 << 30: 2} {
		r := opened(t, path)
		p := r.records.(*parquetReader)
		for k := range p.chunks[0] {
			p.chunks[0][k].uncompressed = size
		}
		rec, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		rec.Release()
		if len(p.stripes) != stripes || stripes > 0 && len(p.stripes[0].columns) != 16 {
			t.Errorf("columns of %d bytes are read in %d stripes, want %d", size, len(p.stripes), stripes)
		}
		if info, err := os.Stat(path); err != nil || p.maxStripeBytes != 64*info.Size() {
			t.Errorf("stripes may take %d bytes: %v", p.maxStripeBytes, err)
		}
	}
}

// TestRowGroups: a row group that is written has 131,072 rows.
func TestRowGroups(t *testing.T) {
	const rows = 1<<17 + 5
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range rows {
		b.Append(int32(i))
	}
	column := b.NewArray()
	defer column.Release()
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int32}}, nil),
		[]arrow.Array{column}, rows)
	defer rec.Release()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	var groups []int64
	for _, g := range opened(t, path).records.(*parquetReader).groups {
		groups = append(groups, g.NumRows())
	}
	if !slices.Equal(groups, []int64{1 << 17, 5}) {
		t.Errorf("row groups of %d rows", groups)
	}
}

// TestRowsOfABatch: a batch has about 262,144 values, and 64 to 8,192 rows.
func TestRowsOfABatch(t *testing.T) {
	for columns, want := range map[int]int{0: 8192, 1: 8192, 32: 8192, 64: 4096, 1024: 256, 4096: 64, 1 << 20: 64} {
		if got := batchRows(columns); got != want {
			t.Errorf("batches of %d columns have %d rows, want %d", columns, got, want)
		}
	}
}

// TestTypesOfParquet writes a value of each Arrow type to Parquet, and checks value and type when it is read.
func TestTypesOfParquet(t *testing.T) {
	p, f, b := arrow.PrimitiveTypes, arrow.FixedWidthTypes, arrow.BinaryTypes
	dictionary := &arrow.DictionaryType{IndexType: p.Int8, ValueType: b.String}
	for _, c := range []struct {
		typ          arrow.DataType
		values, want string
		is           string // type that is read
	}{
		{arrow.Null, `[null,null]`, "(null) (null)", "utf8"}, {f.Boolean, `[true,false]`, "true false", "bool"},
		{p.Int8, `[-128,127]`, "-128 127", "int8"}, {p.Int16, `[-32768,32767]`, "-32768 32767", "int16"},
		{p.Int32, `[-2147483648,2147483647]`, "-2147483648 2147483647", "int32"},
		{p.Int64, `[-4611686018427387904,1]`, "-4611686018427387904 1", "int64"}, {p.Uint8, `[0,255]`, "0 255", "uint8"},
		{p.Uint16, `[0,65535]`, "0 65535", "uint16"}, {p.Uint32, `[0,4294967295]`, "0 4294967295", "uint32"},
		{p.Uint64, `[0,9223372036854775808]`, "0 9223372036854775808", "uint64"},
		{p.Float32, `[0.1,-3]`, "0.1 -3", "float32"}, {p.Float64, `[0.1,null]`, "0.1 (null)", "float64"},
		{f.Float16, `[0.5,-2]`, "0.5 -2", "float32"}, {b.String, `["a",""]`, "a ", "utf8"},
		{b.LargeString, `["a","b"]`, "a b", "utf8"}, {b.StringView, `["a","a text of many bytes"]`, "a a text of many bytes",
			"utf8"},
		{b.Binary, `["AQI=","Aw=="]`, "AQI= Aw==", "binary"}, {b.LargeBinary, `["AQI=","Aw=="]`, "AQI= Aw==", "binary"},
		{b.BinaryView, `["AQI=","Aw=="]`, "AQI= Aw==", "binary"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `["AQI=","AwQ="]`, "AQI= AwQ=", "fixed_size_binary[2]"},
		{f.Date32, `["2024-05-01","1969-12-31"]`, "2024-05-01 1969-12-31", "date32"},
		{f.Date64, `["2024-05-01","1969-12-31"]`, "2024-05-01 1969-12-31", "date32"},
		{f.Time32s, `["01:02:03","00:00:00"]`, "01:02:03.000 00:00:00.000", "time32[ms]"},
		{f.Time32ms, `["01:02:03.004","00:00:00"]`, "01:02:03.004 00:00:00.000", "time32[ms]"},
		{f.Time64us, `["01:02:03.000004","00:00:00"]`, "01:02:03.000004 00:00:00.000000", "time64[us]"},
		{f.Time64ns, `["01:02:03.000000004","00:00:00"]`, "01:02:03.000000004 00:00:00.000000000", "time64[ns]"},
		{f.Timestamp_s, `["2024-05-01 01:02:03","1969-12-31 00:00:00"]`, "2024-05-01 01:02:03Z 1969-12-31 00:00:00Z",
			"timestamp[ms, tz=UTC]"},
		{f.Timestamp_ms, `["2024-05-01 01:02:03.004",null]`, "2024-05-01 01:02:03.004Z (null)", "timestamp[ms, tz=UTC]"},
		{f.Timestamp_us, `["2024-05-01 01:02:03.000004",null]`, "2024-05-01 01:02:03.000004Z (null)",
			"timestamp[us, tz=UTC]"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, `["2024-05-01 01:02:03.000000004",null]`,
			"2024-05-01 01:02:03.000000004Z (null)", "timestamp[ns]"},
		{f.Duration_s, `["3s","4s"]`, "3 4", "int64"},
		{&arrow.Decimal128Type{Precision: 38, Scale: 2}, `["73786976294838206464.25","-0.5"]`,
			"73786976294838206464.25 -0.5", "decimal(38, 2)"},
		{dictionary, `["a","b"]`, "a b", "utf8"}, {arrow.ListOf(p.Int8), `[[1,null],[]]`, "[1,null] []", "list"},
		{arrow.LargeListOf(p.Int8), `[[1,2],null]`, "[1,2] (null)", "list"},
		{arrow.FixedSizeListOf(2, p.Float32), `[[1,2],null]`, "[1,2] (null)", "list"},
		{arrow.ListOf(dictionary), `[["a","b"],["b"]]`, `["a","b"] ["b"]`, "list"},
	} {
		path := filepath.Join(t.TempDir(), "types.parquet")
		write(t, path, columns(t, c.typ, c.values), 2)
		r := opened(t, path)
		rows, _ := read(t, r)
		if len(rows) != 2 {
			t.Errorf("%s: rows %q", c.typ, rows)
			continue
		}
		is := r.Schema().Field(0).Type.String()
		if strings.HasPrefix(is, "list") {
			is = "list"
		}
		if got := rows[0][0] + " " + rows[1][0]; got != c.want || is != c.is || r.Schema().NumFields() != 1 {
			t.Errorf("%s: %q as %s, want %q as %s", c.typ, got, is, c.want, c.is)
		}
	}
}

// TestConvertedTypes: columns of files from before 2019 have the types that their annotation says.
func TestConvertedTypes(t *testing.T) {
	for c, want := range map[deprecated.ConvertedType]string{deprecated.UTF8: "utf8", deprecated.Enum: "utf8",
		deprecated.Json: "utf8", deprecated.Date: "date32", deprecated.TimestampMillis: "timestamp[ms, tz=UTC]",
		deprecated.TimestampMicros: "timestamp[us, tz=UTC]", deprecated.Int8: "int8", deprecated.Int16: "int16",
		deprecated.Int32: "int32", deprecated.Int64: "int64", deprecated.Uint8: "uint8", deprecated.Uint16: "uint16",
		deprecated.Uint32: "uint32", deprecated.Uint64: "uint64", deprecated.Map: "", deprecated.Interval: ""} {
		got := ""
		if typ := convertedType(c); typ != nil {
			got = typ.String()
		}
		if got != want {
			t.Errorf("%v is %q, want %q", c, got, want)
		}
	}
}

// TestRowsOfASlice: rows are written 8,192 at a time, fewer of long lists, and at least one.
func TestRowsOfASlice(t *testing.T) {
	for wide, want := range map[int32]int{1: 8192, 32: 8192, 64: 4096, 100: 2621, 1 << 18: 1, 1 << 19: 1} {
		b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, wide, arrow.PrimitiveTypes.Int8)
		for range 2 {
			b.Append(true)
			for range wide {
				b.ValueBuilder().(*array.Int8Builder).Append(1)
			}
		}
		column := b.NewArray()
		rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "v", Type: column.DataType()}}, nil),
			[]arrow.Array{column}, 2)
		lists, plain := &parquetWriter{columns: []parquetOut{{list: true}}}, &parquetWriter{columns: []parquetOut{{}}}
		if got := lists.sliceRows(rec); got != want {
			t.Errorf("lists of %d: %d rows, want %d", wide, got, want)
		}
		if a, b := lists.sliceRows(rec.NewSlice(0, 0)), plain.sliceRows(rec); a != 8192 || b != 8192 {
			t.Errorf("no lists: %d rows, no list column: %d", a, b)
		}
	}
}

// TestTimesBeyondParquet: Parquet stores seconds as milliseconds, and dates as days of 32 bits. The limits are written,
// and a value beyond them is an error with the column and the row, also after a row group and in a list.
func TestTimesBeyondParquet(t *testing.T) {
	array64 := func(dt arrow.DataType, values ...int64) arrow.Array {
		b := arrow.Int64Traits.CastToBytes(values)
		if dt.ID() == arrow.TIME32 {
			var small []int32
			for _, v := range values {
				small = append(small, int32(v))
			}
			b = arrow.Int32Traits.CastToBytes(small)
		}
		return array.MakeFromData(array.NewData(dt, len(values), []*memory.Buffer{nil, memory.NewBufferBytes(b)}, nil, 0, 0))
	}
	save := func(columns ...arrow.Array) ([][]string, error) {
		path := filepath.Join(t.TempDir(), "a.parquet")
		w, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Discard()
		for _, c := range columns {
			schema := arrow.NewSchema([]arrow.Field{{Name: "t", Type: c.DataType(), Nullable: true}}, nil)
			if err := w.Write(array.NewRecord(schema, []arrow.Array{c}, int64(c.Len()))); err != nil {
				return nil, err
			}
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		rows, _ := read(t, opened(t, path))
		return rows, nil
	}
	fixed := arrow.FixedWidthTypes
	for _, c := range []struct {
		dt     arrow.DataType
		lo, hi int64
		unit   string
	}{
		{fixed.Timestamp_s, -9223372036854775, 9223372036854775, "s"},
		{fixed.Time32s, -2147483, 2147483, "s"},
		{fixed.Date64, -2147483648 * 86400000, 2147483647 * 86400000, "ms"},
		{fixed.Timestamp_ms, math.MinInt64, math.MaxInt64, ""},
		{fixed.Timestamp_ns, math.MinInt64, math.MaxInt64, ""},
		{fixed.Time32ms, math.MinInt32, math.MaxInt32, ""},
	} {
		limits := array64(c.dt, c.lo, 0, c.hi)
		if rows, err := save(limits); err != nil || len(rows) != 3 ||
			!strings.HasPrefix(rows[0][0], limits.ValueStr(0)) || !strings.HasPrefix(rows[2][0], limits.ValueStr(2)) {
			t.Errorf("%s: the limits are %q, %v", c.dt, rows, err)
		}
		for _, v := range []int64{c.lo - 1, c.hi + 1} {
			want := fmt.Sprintf(`column "t", row 3: %d %s is not between %d and %d %[2]s, the limits of this type in Parquet`, v,
				c.unit, c.lo, c.hi)
			if _, err := save(array64(c.dt, 0, 0, v)); c.unit != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", c.dt, err, want)
			}
		}
	}
	_, err := save(array64(fixed.Date64, 0, 86400000, -1))
	if err == nil || !strings.Contains(err.Error(), `row 3: a date of -1 milliseconds is no whole number of days`) {
		t.Errorf("a date with a time of day: %v", err)
	}
	_, err = save(array64(fixed.Time32s, make([]int64, groupRows)...), array64(fixed.Time32s, 1, math.MaxInt32))
	if err == nil || !strings.Contains(err.Error(), `column "t", row 131074: 2147483647 s`) {
		t.Errorf("the second row group: %v", err)
	}
	b := array.NewListBuilder(memory.DefaultAllocator, fixed.Timestamp_s)
	b.AppendNull()
	b.Append(true)
	b.ValueBuilder().(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{1, math.MaxInt64}, nil)
	_, err = save(b.NewArray())
	if err == nil || !strings.Contains(err.Error(), `column "t", row 2: 9223372036854775807 s`) {
		t.Errorf("a list: %v", err)
	}
}
