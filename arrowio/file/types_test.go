package file

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/embedd/embedd/arrowio"
)

// columns is a record of columns c0, c1 ... of these types and values in JSON.
func columns(t *testing.T, typed ...any) arrow.Record {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	for k := 0; k < len(typed); k += 2 {
		values := strings.NewReader(typed[k+1].(string))
		a, _, err := array.FromJSON(memory.DefaultAllocator, typed[k].(arrow.DataType), values)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, arrow.Field{Name: "c" + string(rune('0'+k/2)), Type: a.DataType(), Nullable: true})
		arrays = append(arrays, a)
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(arrays[0].Len()))
}

// TestTypesOfParquet: a value of each type comes back from Parquet, as the type that Parquet has for it.
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

// TestWritersRefuse: what a format has no place for is an error that names the file and the column.
func TestWritersRefuse(t *testing.T) {
	one := columns(t, arrow.PrimitiveTypes.Int8, `[1]`)
	twice := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "a_0", Type: one.Column(0).DataType()},
		{Name: "a_0", Type: one.Column(0).DataType()}}, nil), []arrow.Array{one.Column(0), one.Column(0)}, 1)
	month := columns(t, arrow.FixedWidthTypes.MonthInterval, `[{"months":3}]`)
	lists := columns(t, arrow.ListOf(arrow.PrimitiveTypes.Int8), `[null,[1,2],null,[1]]`)
	for _, c := range []struct {
		name  string
		batch []arrow.Record
		want  string
	}{
		{"a.csv", nil, ""}, {"a.parquet", nil, "nothing was written, not even a schema"},
		{"a.arrow", nil, "nothing was written, not even a schema"},
		{"a.arrows", nil, "nothing was written, not even a schema"},
		{"a.csv", []arrow.Record{one, month}, "the schema changes between batches: one file holds one schema"},
		{"a.parquet", []arrow.Record{one, month}, "the schema changes between batches: one file holds one schema"},
		{"a.arrow", []arrow.Record{one, month}, "the schema changes between batches: one file holds one schema"},
		{"a.arrows", []arrow.Record{one, month}, "the schema changes between batches: one file holds one schema"},
		{"a.parquet", []arrow.Record{month}, `column "c0" of type month_interval cannot be written to Parquet: leave it ` +
			"out with --keep, or write .arrow"},
		{"a.parquet", []arrow.Record{twice}, `two columns are named "a_0", which Parquet does not allow: give the output ` +
			"another name with --column, or keep fewer columns"},
		{"a.csv", []arrow.Record{twice}, `two columns would be named "a_0": give the output another name with --column, or ` +
			"keep fewer columns"},
		{"a.csv", []arrow.Record{lists}, `row 3: list column "c0" has 1 elements, the first row had 2: CSV needs one ` +
			"length; write .parquet or .arrow"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		w, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range c.batch {
			if err = w.Write(rec); err != nil {
				break
			}
		}
		if err == nil {
			err = w.Close()
		}
		w.Discard()
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != path+": "+c.want) {
			t.Errorf("%s of %d records: %v, want %q", c.name, len(c.batch), err, c.want)
		}
	}
	const suffixes = ": the suffix says the format of the output: use .csv, .csv.gz, .tsv, .parquet, .arrow (IPC file), " +
		".arrows (IPC stream), or - for an IPC stream"
	for _, name := range []string{"a.json", "a.ndjson", "a.jsonl", "a.txt"} {
		if _, err := Create(name); err == nil || err.Error() != name+suffixes {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	for path, want := range map[string]string{dir: " is a directory: name a file in it",
		filepath.Join(dir, "b", "a.csv"): " cannot be created: there is no directory " + filepath.Join(dir, "b") +
			": make it, or name another file"} {
		if _, err := CreateWhole(path); err == nil || err.Error() != path+want {
			t.Errorf("%v, want %s", err, path+want)
		}
	}
	if err := NewWriter(io.Discard, "out").WriteMessage([]byte("no message")); err == nil ||
		err.Error() != "out: a message without a schema cannot be written" {
		t.Errorf("%v", err)
	}
}

// TestTextOfCSV: a value of each type has one form in CSV.
func TestTextOfCSV(t *testing.T) {
	b := arrow.BinaryTypes
	rec := columns(t, arrow.PrimitiveTypes.Float32, `[0.1,null,1e30]`, arrow.PrimitiveTypes.Float64, `[0.1,1e-7,-3]`,
		b.String, `["a","b\"c","d,e"]`, b.LargeString, `["f","",null]`,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: b.String}, `["g","h","g"]`,
		arrow.FixedWidthTypes.Boolean, `[true,false,null]`, arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8),
		`[[1,2],null,[3,null]]`, arrow.ListOf(arrow.PrimitiveTypes.Float32), `[null,[0.5],[1]]`)
	for name, tab := range map[string]string{"a.csv": ",", "a.tsv": "\t"} {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, rec, 3)
		got, err := os.ReadFile(path)
		want := "c0|c1|c2|c3|c4|c5|c6_0|c6_1|c7_0\n0.1|0.1|a|f|g|true|1|2|\n|1e-07|\"b\"\"c\"||h|false|||0.5\n" +
			"1e+30|-3|d,e||g||3||1\n"
		if want = strings.ReplaceAll(want, "|", tab); tab == "," {
			want = strings.ReplaceAll(want, "d,e", `"d,e"`)
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, want %q, %v", name, got, want, err)
		}
	}
	path := filepath.Join(t.TempDir(), "empty.csv")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := arrowio.FromRecords(rec.Schema())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteMessage(msg); err != nil || w.Close() != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "c0,c1,c2,c3,c4,c5,c6_0,c6_1\n" {
		t.Errorf("without rows: %q, %v", got, err)
	}
}

// TestRefusedStreams: a stream that does not begin with a schema, has another one later or extends a dictionary is
// refused, and a batch that is larger than the limit, by one byte.
func TestRefusedStreams(t *testing.T) {
	message := func(rec arrow.Record) []byte {
		msg, err := arrowio.FromRecords(rec.Schema(), rec)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	msg := message(columns(t, dictionary, `["a","b","a"]`))
	var frames []*frame
	for rest := msg; ; {
		f, tail, err := cut(rest)
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			break
		}
		frames, rest = append(frames, f), tail
	}
	if len(frames) != 3 || frames[1].id != 0 || frames[1].delta {
		t.Fatalf("%d frames", len(frames))
	}
	batch := int64(len(frames[2].bytes) + len(frames[1].bytes) + len(frames[0].bytes) + len(endOfStream))
	for _, c := range []struct {
		stream [][]byte
		limit  int64
		want   string
	}{
		{[][]byte{msg}, batch, ""},
		{[][]byte{msg}, batch - 1, "a batch has 512 bytes, and the limit is 511; write smaller batches"},
		{[][]byte{frames[1].bytes}, 0, "the stream: the first frame is not a schema"},
		{nil, 0, "the stream is empty: an Arrow IPC stream begins with a schema"},
		{[][]byte{msg[:len(msg)-8], frames[0].bytes}, 0,
			"the stream: after batch 1: a second schema follows, of other rows: split the streams"},
		{[][]byte{msg, message(columns(t, arrow.Null, `[null]`))}, 0,
			"the stream: after batch 1: a second stream with another schema follows the first: split them"},
		{[][]byte{msg, frames[0].bytes, frames[2].bytes}, 0, ""},
		{[][]byte{msg[:len(msg)-8], frames[2].bytes[:20]}, 0,
			"the stream: after batch 1: the stream ends in the middle of a frame: it was cut off"},
	} {
		next := Messages(bytes.NewReader(bytes.Join(c.stream, nil)), c.limit)
		got, err := next()
		for err == nil {
			if len(got) != int(batch) {
				t.Errorf("a message of %d bytes, want %d", len(got), batch)
			}
			got, err = next()
		}
		if c.want == "" && err != io.EOF || c.want != "" && err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	limit := int64(len(frames[1].bytes)) // the largest frame
	for n, want := range map[int64]bool{0: true, limit: true, limit - 1: false} {
		if _, err := readFrame(bytes.NewReader(frames[1].bytes), n); (err == nil) != want {
			t.Errorf("a frame of %d bytes with a limit of %d: %v", limit, n, err)
		}
	}
}
