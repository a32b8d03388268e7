package file

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
)

// sample returns n rows of every type that all formats support, with nulls.
func sample(n int) arrow.Record {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "f64", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "f32", Type: arrow.PrimitiveTypes.Float32},
		{Name: "i8", Type: arrow.PrimitiveTypes.Int8},
		{Name: "u64", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "bool", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "text, with comma", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "when", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64), Nullable: true},
		{Name: "vector", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range n {
		if i%5 == 2 {
			b.Field(0).AppendNull()
			b.Field(4).AppendNull()
			b.Field(5).AppendNull()
			b.Field(8).AppendNull()
			b.Field(9).AppendNull()
		} else {
			b.Field(0).(*array.Float64Builder).Append(float64(i) / 3)
			b.Field(4).(*array.BooleanBuilder).Append(i%2 == 0)
			b.Field(5).(*array.StringBuilder).Append(fmt.Sprintf("a \"%d\",\nb", i))
			l := b.Field(8).(*array.ListBuilder)
			l.Append(true)
			for k := range i % 4 {
				if k == 1 {
					l.ValueBuilder().AppendNull()
				} else {
					l.ValueBuilder().(*array.Float64Builder).Append(float64(k * i))
				}
			}
			v := b.Field(9).(*array.FixedSizeListBuilder)
			v.Append(true)
			v.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(i), 0.5, -1}, nil)
		}
		b.Field(1).(*array.Float32Builder).Append(float32(i) * 0.1)
		b.Field(2).(*array.Int8Builder).Append(int8(i))
		b.Field(3).(*array.Uint64Builder).Append(math.MaxUint64 - uint64(i))
		b.Field(6).(*array.TimestampBuilder).Append(arrow.Timestamp(1_600_000_000_000_000 + i))
		b.Field(7).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(i) - 50))
	}
	return b.NewRecord()
}

// write writes the record to a file in batches of a number of rows.
func write(t *testing.T, path string, rec arrow.Record, rows int64) {
	t.Helper()
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	for from := int64(0); from == 0 || from < rec.NumRows(); from += rows {
		part := rec.NewSlice(from, min(from+rows, rec.NumRows()))
		err := w.Write(part)
		part.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// read returns the text of every value, row by row, and the number of batches.
func read(t *testing.T, r *Reader) (rows [][]string, batches int) {
	t.Helper()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return rows, batches
		}
		if err != nil {
			t.Fatal(err)
		}
		batches++
		for i := range int(rec.NumRows()) {
			var row []string
			for c := range int(rec.NumCols()) {
				row = append(row, rec.Column(c).ValueStr(i))
			}
			rows = append(rows, row)
		}
		rec.Release()
	}
}

func opened(t *testing.T, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func text(rec arrow.Record) (rows [][]string) {
	for i := range int(rec.NumRows()) {
		var row []string
		for c := range int(rec.NumCols()) {
			row = append(row, rec.Column(c).ValueStr(i))
		}
		rows = append(rows, row)
	}
	return rows
}

func equalRows(t *testing.T, got, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		for c := range want[i] {
			if got[i][c] != want[i][c] {
				t.Fatalf("row %d, column %d: %s, want %s", i, c, got[i][c], want[i][c])
			}
		}
	}
}

// What is written is read again: values and order in every format, and the schema in formats that store it.
func TestRoundTrip(t *testing.T) {
	rec := sample(1000)
	defer rec.Release()
	want := text(rec)
	for _, suffix := range []string{".parquet", ".arrow", ".feather", ".arrows"} {
		t.Run(suffix, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows"+suffix)
			write(t, path, rec, 300)
			r := opened(t, path)
			got, batches := read(t, r)
			equalRows(t, got, want)
			if suffix == ".parquet" {
				return // lists of a fixed size come back as lists
			}
			if !r.Schema().Equal(rec.Schema()) {
				t.Errorf("schema %v, want %v", r.Schema(), rec.Schema())
			}
			if batches != 4 {
				t.Errorf("%d batches, want 4", batches)
			}
		})
	}
}

func TestCSVRoundTrip(t *testing.T) {
	rec := sample(20)
	defer rec.Release()
	flat := array.NewRecord(arrow.NewSchema(append(rec.Schema().Fields()[:6:6], rec.Schema().Field(9)), nil),
		append(rec.Columns()[:6:6], rec.Column(9)), rec.NumRows())
	defer flat.Release()
	for _, suffix := range []string{".csv", ".csv.gz"} {
		path := filepath.Join(t.TempDir(), "rows"+suffix)
		write(t, path, flat, 7)
		r := opened(t, path)
		var names []string
		for _, f := range r.Schema().Fields() {
			names = append(names, f.Name+":"+f.Type.Name())
		}
		want := "f64:float64 f32:float64 i8:int64 u64:float64 bool:bool text, with comma:utf8 vector_0:int64 " +
			"vector_1:float64 vector_2:int64"
		if strings.Join(names, " ") != want {
			t.Errorf("columns %v, want %s", names, want)
		}
		got, _ := read(t, r)
		for i, row := range got {
			if i%5 == 2 && row[0] != array.NullValueStr || i%5 != 2 && row[5] != fmt.Sprintf("a \"%d\",\nb", i) {
				t.Errorf("row %d is %q", i, row)
			}
			if want := fmt.Sprint(float32(i) * 0.1); row[1] != want {
				t.Errorf("row %d: float32 came back as %s, want %s", i, row[1], want)
			}
		}
	}
}

// A record and a message are the same batch: a file of either equals a file of the other, byte for byte.
func TestMessages(t *testing.T) {
	rec := sample(64)
	defer rec.Release()
	path := filepath.Join(t.TempDir(), "rows.arrow")
	write(t, path, rec, 16)
	r := opened(t, path)
	again := filepath.Join(t.TempDir(), "again.arrow")
	w, err := Create(again)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		msg, err := r.NextMessage()
		if err == io.EOF {
			if n != 4 {
				t.Errorf("%d messages, want 4", n)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		schema, recs, err := arrowio.Records(msg)
		if err != nil || !schema.Equal(rec.Schema()) || len(recs) != 1 || recs[0].NumRows() != 16 {
			t.Fatalf("message %d: %d records of %v: %v", n, len(recs), schema, err)
		}
		recs[0].Release()
		if err := w.WriteMessage(msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(again)
	if !bytes.Equal(a, b) {
		t.Error("the copy of an Arrow file by messages differs from it")
	}
}

// TestRows: CSV and Parquet files say how many rows they have.
func TestRows(t *testing.T) {
	rec := sample(64)
	defer rec.Release()
	for name, want := range map[string]int64{"rows.arrow": 0, "rows.parquet": 64} {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, rec, 16)
		if got := opened(t, path).Rows(); got != want {
			t.Errorf("%s has %d rows, want %d", name, got, want)
		}
	}
	if got := opened(t, csvFile(t, "rows.csv", "a,b\n1,2\n\n\"3\n\",4\n")).Rows(); got != 2 {
		t.Errorf("the CSV file has %d rows", got)
	}
}

// In a pipe a batch is written before the next is read.
func TestStreamIsFlushedBatchByBatch(t *testing.T) {
	rec := sample(10)
	defer rec.Release()
	in, fill := io.Pipe()
	defer in.Close()
	go func() {
		w := NewWriter(fill, "pipe")
		for range 3 {
			if err := w.Write(rec); err != nil {
				fill.CloseWithError(err)
				return
			}
		}
		fill.CloseWithError(w.Close())
	}()
	r, err := NewReader(in, "pipe")
	if err != nil {
		t.Fatal(err)
	}
	rows, batches := read(t, r)
	if len(rows) != 30 || batches != 3 {
		t.Errorf("%d rows in %d batches, want 30 in 3", len(rows), batches)
	}
	var out countingWriter
	w := NewWriter(&out, "out")
	for want := 1; want <= 3; want++ {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		if out.writes != want {
			t.Errorf("%d writes after batch %d", out.writes, want)
		}
	}
}

type countingWriter struct{ writes int }

func (c *countingWriter) Write(b []byte) (int, error) { c.writes++; return len(b), nil }

// Concatenated streams, as `cat` makes them, are read as one if they have the same schema.
func TestConcatenatedStreams(t *testing.T) {
	rec := sample(10)
	defer rec.Release()
	msg, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(io.MultiReader(bytes.NewReader(msg), bytes.NewReader(msg)), "two")
	if err != nil {
		t.Fatal(err)
	}
	if rows, _ := read(t, r); len(rows) != 20 {
		t.Errorf("%d rows, want 20", len(rows))
	}
	other, err := arrowio.FromRecords(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	r, err = NewReader(io.MultiReader(bytes.NewReader(msg), bytes.NewReader(other)), "two")
	if err != nil {
		t.Fatal(err)
	}
	r.Next()
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "another schema") {
		t.Errorf("error %v, want one about another schema", err)
	}
}

// A stream can have a dictionary that changes between batches, a file cannot.
func TestChangingDictionary(t *testing.T) {
	message := func(values ...string) []byte {
		kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
		b := array.NewDictionaryBuilder(memory.DefaultAllocator, kind).(*array.BinaryDictionaryBuilder)
		defer b.Release()
		for _, v := range values {
			if err := b.AppendString(v); err != nil {
				t.Fatal(err)
			}
		}
		col := b.NewArray()
		defer col.Release()
		rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "c", Type: kind}}, nil), []arrow.Array{col},
			int64(len(values)))
		defer rec.Release()
		msg, err := arrowio.FromRecords(rec.Schema(), rec)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	stream := filepath.Join(t.TempDir(), "d.arrows")
	for path, wantErr := range map[string]bool{stream: false, filepath.Join(t.TempDir(), "d.arrow"): true} {
		w, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range [][]byte{message("a", "b"), message("a", "b"), message("c", "d", "c")} {
			if err = w.WriteMessage(m); err != nil {
				break
			}
		}
		if (err != nil) != wantErr || err != nil && !strings.Contains(err.Error(), ".arrows") {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
		if err != nil {
			w.Discard()
		} else if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw, _ := os.ReadFile(stream)
	if n := bytes.Count(raw, []byte{0xff, 0xff, 0xff, 0xff}); n < 1+2+3+1 {
		t.Errorf("%d frames", n)
	}
	r := opened(t, stream)
	var got []string
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			got = append(got, csvText(rec.Column(0), i))
		}
		rec.Release()
	}
	if strings.Join(got, "") != "ababcdc" {
		t.Errorf("values %v", got)
	}
}

// A file without rows keeps its schema.
func TestNoRows(t *testing.T) {
	rec := sample(0)
	defer rec.Release()
	for _, suffix := range []string{".parquet", ".arrow", ".arrows", ".csv"} {
		path := filepath.Join(t.TempDir(), "rows"+suffix)
		write(t, path, rec, 10)
		r := opened(t, path)
		if n := len(r.Schema().Fields()); n < 10 || suffix != ".csv" && n != 10 {
			t.Errorf("%s: %d columns, want 10", suffix, n)
		}
		if rows, _ := read(t, r); len(rows) != 0 {
			t.Errorf("%s: %d rows", suffix, len(rows))
		}
		if _, err := r.NextMessage(); err != io.EOF {
			t.Errorf("%s: %v after the end, want io.EOF", suffix, err)
		}
	}
}

// A file appears when it is complete; otherwise an existing file is unchanged.
func TestCreateIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.parquet")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	rec := sample(10)
	defer rec.Release()
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("the file holds %q after a failed write", b)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
	write(t, path, rec, 10)
	if rows, _ := read(t, opened(t, path)); len(rows) != 10 {
		t.Errorf("%d rows after the write", len(rows))
	}
}

// If the content does not have the format of the name, the error names the right one.
func TestWrongSuffix(t *testing.T) {
	dir := t.TempDir()
	rec := sample(3)
	defer rec.Release()
	for _, c := range []struct{ from, to, want string }{
		{"a.parquet", "b.arrow", "Parquet"}, {"a.arrow", "b.arrows", ".arrow"}, {"a.arrows", "b.csv", ".arrows"},
		{"a.csv.gz", "b.csv", "gzip"}, {"a.csv", "b.csv.gz", "not gzip"},
		{"a.csv", "b.parquet", "not the format"},
	} {
		from, to := filepath.Join(dir, c.from), filepath.Join(dir, c.to)
		write(t, from, rec.NewSlice(0, 1), 10)
		os.Rename(from, to)
		_, err := Open(to)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
	for _, path := range []string{"rows.txt", "rows"} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "--input-format says") {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := Create(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
	for _, text := range []string{"\xff\xfea\x00\n\x00", "\xfe\xff\x00a\x00\n"} {
		path := filepath.Join(dir, "wide.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("UTF-16: %v", err)
		}
	}
	if _, err := Open(filepath.Join(dir, "none.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Damage is an error, in every format and at every byte that was tried, never a panic.
func TestDamagedFiles(t *testing.T) {
	rec := sample(200)
	defer rec.Release()
	for _, suffix := range []string{".parquet", ".arrow", ".arrows", ".csv.gz"} {
		path := filepath.Join(t.TempDir(), "rows"+suffix)
		flat := rec
		if suffix == ".csv.gz" {
			flat = array.NewRecord(arrow.NewSchema(rec.Schema().Fields()[:6], nil), rec.Columns()[:6], rec.NumRows())
		}
		write(t, path, flat, 100)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		drain := func(b []byte) error {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Open(path)
			if err != nil {
				return err
			}
			defer r.Close()
			for {
				rec, err := r.Next()
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
				array.RecordEqual(rec, rec) // touches every value
				rec.Release()
			}
		}
		for n := len(whole) - 1; n > 0; n -= max(1, len(whole)/40) {
			// A stream may end after any frame, since its end marker is optional.
			if err := drain(whole[:n]); err == nil && suffix != ".arrows" {
				t.Errorf("%s: cut to %d of %d bytes without an error", suffix, n, len(whole))
			}
		}
		for i := 0; i < len(whole); i += max(1, len(whole)/150) {
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			drain(b) // an error or other values
		}
	}
}

// testdata/polars.arrow is written by Polars (testdata/write.py). It omits the prefix of the schema's frame, and has
// texts and bytes as views and categories as a dictionary of views. Sliced, copied and written as Parquet it has the
// same values.
func TestPolarsFile(t *testing.T) {
	r := opened(t, filepath.Join("testdata", "polars.arrow"))
	want := []string{"float64", "string_view", "dictionary", "binary_view", "fixed_size_list", "large_list"}
	for i, f := range r.Schema().Fields() {
		if got := f.Type.Name(); got != want[i] {
			t.Errorf("column %s: %s, want %s", f.Name, got, want[i])
		}
	}
	rows, batches := read(t, r)
	if len(rows) != 30 || batches != 3 {
		t.Fatalf("%d rows in %d batches, want 30 in 3", len(rows), batches)
	}
	if got := strings.Join(rows[1], " "); got != `0.5 a text of more than twelve bytes, number 1 c1 AP8x [1,2.5] ["e0"]` {
		t.Errorf("row 1 is %s", got)
	}
	if rows[3][0] != array.NullValueStr || rows[3][1] != array.NullValueStr || rows[3][3] != array.NullValueStr {
		t.Errorf("row 3 is %q, want nulls", rows[3])
	}
	for _, suffix := range []string{".arrow", ".parquet"} {
		path := filepath.Join(t.TempDir(), "again"+suffix)
		w, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		again := opened(t, filepath.Join("testdata", "polars.arrow"))
		for {
			rec, err := again.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for from := int64(0); from < rec.NumRows(); from += 4 {
				part := rec.NewSlice(from, min(from+4, rec.NumRows()))
				if err := w.Write(part); err != nil {
					t.Fatal(err)
				}
				part.Release()
			}
			rec.Release()
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, _ := read(t, opened(t, path))
		equalRows(t, got, rows)
	}
}

// TestDeviceStays: a device is written, not replaced by a file.
func TestDeviceStays(t *testing.T) {
	for path, want := range map[string]string{"/dev/null": "", "/dev/full": "no space left on device: free space"} {
		before, err := os.Stat(path)
		if err != nil || before.Mode().IsRegular() {
			t.Skip(path + " is no device")
		}
		w, err := CreateWhole(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write([]byte("x")); err == nil {
			err = w.Close()
		}
		w.Discard()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if after, err := os.Stat(path); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s was replaced: %v, %v", path, after, err)
		}
	}
}

// TestLinksStay: what is written under the name of a link, such as /dev/stdout, does not replace the link. Two writers
// of one name do not share a temporary file, and a file that is replaced passes its permissions on.
func TestLinksStay(t *testing.T) {
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "redirected"))
	if err != nil {
		t.Fatal(err)
	}
	defer func(before *os.File) { os.Stdout = before }(os.Stdout)
	os.Stdout = out
	kept := csvFile(t, "kept", "old")
	if err := os.Chmod(kept, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, end := range []string{out.Name(), kept} {
		link := filepath.Join(dir, fmt.Sprint("link", i))
		if err := os.Symlink(end, link); err != nil {
			t.Skip(err)
		}
		first, err := CreateWhole(link)
		if err != nil {
			t.Fatal(err)
		}
		second, err := CreateWhole(link)
		if err != nil {
			t.Fatal(err)
		}
		for k, w := range []*Whole{first, second} {
			if _, err := fmt.Fprint(w, "by ", k, ";"); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(first.Close(), second.Close()); err != nil {
			t.Error(err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link to %s was replaced: %v", end, err)
		}
		text, err := os.ReadFile(end)
		if want := []string{"by 0;by 1;", "by 1;"}[i]; err != nil || string(text) != want {
			t.Errorf("%s has %q, want %q: %v", end, text, want, err)
		}
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file that only its owner may read is %v: %v", info, err)
	}
	if _, err := out.WriteString("more"); err != nil {
		t.Errorf("standard output was closed: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(kept), "*.tmp")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// TestLinkToNewFile: a link to a file that does not exist yet stays, and the file is created where it leads.
func TestLinkToNewFile(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for i, end := range []string{filepath.Join(other, "absolute"), "relative"} {
		link := filepath.Join(dir, fmt.Sprint("link", i))
		if err := os.Symlink(end, link); err != nil {
			t.Skip(err)
		}
		w, err := CreateWhole(link)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write([]byte("new")); err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Error(err)
		}
		if to, err := os.Readlink(link); err != nil || to != end {
			t.Errorf("the link to %s leads to %q: %v", end, to, err)
		}
		if text, err := os.ReadFile(link); err != nil || string(text) != "new" {
			t.Errorf("%s has %q: %v", end, text, err)
		}
	}
}

// TestJSON: the rows of JSON are read as pipelines read them, in both forms, and none can be written.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[{"x":1,"v":[1,2],"l":"a"},{"x":2.5,"l":3}]`:                       "",
		"{\"x\":1,\"v\":[1,2],\"l\":\"a\"}\n{\"x\":2.5,\"l\":3}\n":          "",
		"[\n  {\"x\":1,\"v\":[1,2],\"l\":\"a\"},\n  {\"x\":2.5,\"l\":3}\n]": "",
		"{ \"x\":1,\"v\":[1,2]}\n{ \"x\":2.5}\n":                            "",
		`{"columns":["x","v"],"index":[0,1],"data":[[1,[1,2]],[2.5,null]]}`: "",
		"{\"index\":[1,2],\"x\":1,\"v\":[1,2]}\n{\"index\":[3],\"x\":2}\n":  "",
		"{\n\"columns\":[\"x\",\"v\"],\n\"data\":[[1,[1,2]],[2.5,null]]}":   "",
		"{\"x\":1,\"l\":\"a\"}\n{\"x\":\n":                                  "row 2",
		"[{\"x\":1},":                                                       "JSON",
	} {
		r, err := Options{Label: "l"}.NewReader(strings.NewReader(text), "rows")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "rows: ") {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		rec, err := r.Next()
		if err != nil || rec.NumRows() != 2 || r.Rows() != 2 || !rec.Schema().HasField("v") {
			t.Errorf("%s: %v, %v", text, rec, err)
		}
		rec.Release()
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: %v at the end", text, err)
		}
		r.Close()
	}
	if _, err := Create(filepath.Join(t.TempDir(), "rows.ndjson")); err == nil {
		t.Error("a file of JSON was created")
	}
}

// full is a device without space from some byte on.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

var errFull = errors.New("no space")

// TestFullDevice: in each format an error of the device, at the first byte and in the middle, ends the writing.
func TestFullDevice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	for range 20_000 {
		b.Append(r.NormFloat64())
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64}}, nil)
	rec := array.NewRecord(schema, []arrow.Array{b.NewArray()}, 20_000)
	for _, name := range []string{"a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.arrow", "a.arrows"} {
		for _, room := range []int{0, 100_000, 1 << 30} {
			out := &full{left: room}
			w := NewWriter(out, name)
			err := w.Write(rec)
			if err == nil {
				err = w.Close()
			}
			if want := room < 1<<30; errors.Is(err, errFull) != want {
				t.Errorf("%s with room for %d bytes: %v", name, room, err)
			}
		}
	}
}

// TestIntegerLabelsOfMessages: whole numbers of a label column become integers in records and in messages alike.
func TestIntegerLabelsOfMessages(t *testing.T) {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues([]float64{3, 7}, nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "y", Type: arrow.PrimitiveTypes.Float64}}, nil)
	msg, err := arrowio.FromRecords(schema, array.NewRecord(schema, []arrow.Array{b.NewArray()}, 2))
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]arrow.DataType{"y": arrow.PrimitiveTypes.Int64, "": arrow.PrimitiveTypes.Float64} {
		r, err := Options{Label: label}.NewReader(bytes.NewReader(msg), "a.arrows")
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.NextMessage()
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := arrowio.Records(out)
		if err != nil || !arrow.TypeEqual(got.Field(0).Type, want) || !got.Equal(r.Schema()) {
			t.Errorf("label %q: the message has %v, the reader says %v, want %v; %v", label, got, r.Schema(), want, err)
		}
		if _, err := r.NextMessage(); err != io.EOF {
			t.Errorf("after the last message: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHugeJSON: a file of JSON that is too large to read whole is refused before it is read.
func TestHugeJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.json")
	if err := os.WriteFile(path, []byte("[{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8<<30); err != nil { // sparse
		t.Fatal(err)
	}
	_, err := Open(path)
	if err == nil || !strings.Contains(err.Error(), "JSON is read whole, and the limit is 2147483647 bytes") {
		t.Errorf("a file of 8 GiB: %v", err)
	}
}

// gzipped is a text as gzip.
func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRefusedFiles: the error of a file that cannot be read says what is wrong, where, and what to do.
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct {
		name, text string
		how        Options
		want       string
	}{
		{"a.csv.gz", gzipped(t, gzipped(t, "a,b\n1,2\n")), Options{},
			": it was compressed twice: unpack it once (gunzip)"},
		{"a.csv.gz", gzipped(t, ""), Options{}, " is empty: the first line names the columns"},
		{"a.csv.gz", gzipped(t, "a,b\n1,2\n")[:20], Options{},
			": the gzip data ends early: the file was cut off; copy it again"},
		{"a.csv.gz", gzipped(t, strings.Repeat("some,thing\n", 1000))[:60], Options{},
			": the gzip data ends early: the file was cut off; copy it again"},
		{"a.csv", "a,b\n1,2\n\"x\ny\",3\n4,5,6\n", Options{},
			": line 5 has another number of fields than the 2 of the header: correct the line, or quote a field that " +
				"holds a comma"},
		{"a.csv", "a,b\n1,\"2\n", Options{},
			`: line 2, column 6: extraneous or missing " in quoted-field: a quote inside a quoted field is written ` +
				`twice`},
		{"a.csv.gz", gzipped(t, "<html>"), Options{},
			": the content is HTML or XML, such as a page to log in: download the file itself, or save the table as " +
				"CSV"},
		{"a.csv.gz", "a,b\n1,2\n", Options{}, ": the content is not gzip: name it .csv if it is plain text"},
		{"a.parquet", "PARE" + strings.Repeat("x", 40) + "PARE", Options{},
			": the file is encrypted, which cannot be read: write it without encryption"},
		{"a.csv", "sep=;\r\na;b\n1;2\n", Options{}, `: line 1 is "sep=;", which Excel alone reads: remove it`},
		{"a.csv", "a,b\r1,2\r", Options{},
			": its lines end with a carriage return alone: write line feeds (tr '\\r' '\\n')"},
		{"a.csv", "a,b\n", Options{Delimiter: ';', Decimal: ';'},
			": the delimiter is a semicolon, which cannot be the decimal mark too: set --delimiter"},
		{"a.csv", "a,b\n1,2\n", Options{Decimal: '5'},
			": '5' cannot be the decimal mark of numbers: give a point, a comma or another mark"},
		{"a.csv", "a,b\n1,2\n", Options{Decimal: -1},
			": '\uFFFD' cannot be the decimal mark of numbers: give a point, a comma or another mark"},
		{"a.csv", "a,b\n1,2\n", Options{Decimal: '"'},
			": '\"' cannot be the decimal mark of numbers: give a point, a comma or another mark"},
		{"a.csv", "a;b\tc\n", Options{}, ": line 1 could be delimited by a semicolon or a tab: set --delimiter"},
		{"a.csv", "a|b;c\n", Options{}, ": line 1 could be delimited by | or a semicolon: set --delimiter"},
		{"a.csv", "a,b,\n1,2,3\n", Options{},
			": line 1: column 3, the last, has no name: name it, or delete the delimiter at the end of each line"},
		{"a.csv", ",b\n1,2\n", Options{},
			": line 1: column 1 has no name: name it, or leave a row number out (pandas: to_csv(..., index=False))"},
		{"a.csv", "a,,c\n1,2,3\n", Options{},
			": line 1: column 2 has no name: name it, or leave a row number out (pandas: to_csv(..., index=False))"},
		{"a.csv", "a,b,a\n1,2,3\n", Options{},
			`: line 1: columns 1 and 3 are both named "a": rename one, or use --no-header if the line is a row`},
		{"a.csv", "a,1.5\n1,2\n", Options{},
			": line 1 holds 1.5, so it seems to be a row: write the names of the columns before it, or use " +
				"--no-header, which names them x0, x1 and so on"},
		{"a.csv", "a;1,5\n1;2\n", Options{Decimal: ','},
			": the delimiter is a comma, which cannot be the decimal mark too: set --delimiter"},
		{"a.csv", "#a,b\n1,2,3\n", Options{},
			": line 1 begins with #, and the other lines have another number of fields: remove comments"},
		{"a.csv", "a\n1,2\n", Options{},
			": line 2 has more fields than line 1, which has one: delete lines before the names of the columns, or " +
				"quote a field that holds a comma"},
		{"a.csv", "a\n1;2\n3,4\n", Options{},
			": line 3 has more fields than line 1, which has one: delete lines before the names of the columns, or " +
				"quote a field that holds a comma"},
		{"a.csv", "a,b\n1,2\n3\n", Options{},
			": line 3 has another number of fields than the 2 of the header: correct the line, or quote a field that " +
				"holds a comma"},
		{"a.csv", "a;b\n1;2;3\n", Options{},
			": line 2 has another number of fields than the 2 of the header: correct the line, or quote a field that " +
				"holds a semicolon"},
		{"a.csv", "a|b\n1\n", Options{},
			": line 2 has another number of fields than the 2 of the header: correct the line, or quote a field that " +
				"holds |"},
		{"a.tsv", "a\tb\n1\n", Options{},
			": line 2 has another number of fields than the 2 of the header: correct the line, or quote a field that " +
				"holds a tab"},
		{"a.csv", "a,b\n1,\"x\"y\"\n", Options{},
			`: line 2, column 5: extraneous or missing " in quoted-field: a quote inside a quoted field is written ` +
				`twice`},
		{"a.csv", "a,b\ntrue,1\nfalse,2\n", Options{Missing: []string{"false"}},
			`: column "a" has "true" and "false", and --missing false makes the second a missing value: leave the ` +
				`word out of --missing`},
		{"a.csv", "", Options{}, " is empty: write the names of the columns in its first line, and rows after it"},
		{"a.csv", "\n", Options{}, " is empty: the first line names the columns"},
		{"a.csv", "\xff\xfea\x00", Options{},
			": the content is UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)"},
		{"a.csv", "a\xf6,b\n1,2\n", Options{},
			": line 1 is not UTF-8: write the file as UTF-8 (iconv -f LATIN1 -t UTF-8, if that is its encoding)"},
		{"a.csv", "PK\x03\x04", Options{},
			": the content is a ZIP archive, as XLSX is: unpack it, or save the sheet as CSV"},
		{"a.csv", " <!doctype html>", Options{},
			": the content is HTML or XML, such as a page to log in: download the file itself, or save the table as " +
				"CSV"},
		{"a.csv", "<?xml version", Options{},
			": the content is HTML or XML, such as a page to log in: download the file itself, or save the table as " +
				"CSV"},
		{"a.csv", "version https://git-lfs.github.com", Options{},
			": the content is a pointer of Git LFS, not the file: get it with git lfs pull"},
		{"a.csv", `[{"a":1}]`, Options{}, ": the content is JSON: name it .json, or .ndjson with an object a line"},
		{"a.csv", "{\"a\":1}\n", Options{}, ": the content is JSON: name it .json, or .ndjson with an object a line"},
		{"a.csv", "PAR1", Options{}, ": the content is Parquet: name it .parquet"},
		{"a.csv", "ARROW1", Options{}, ": the content is an Arrow IPC file: name it .arrow"},
		{"a.csv", "\xff\xff\xff\xff", Options{}, ": the content is an Arrow IPC stream: name it .arrows"},
		{"a.parquet", "PAR1", Options{}, ": a file of 4 bytes is not a Parquet file"},
		{"a.parquet", "PAR1\x01\x00\x00\x00PAR1", Options{},
			": the Parquet footer declares 1 bytes, and the file has 12: the file was cut off or not closed by its writer"},
		{"a.parquet", "\x1f\x8b", Options{},
			": the content is gzip: name it .csv.gz if it holds CSV, else unpack it"},
		{"a.parquet", "a,b,c and more\n", Options{},
			`: the content is not the format of its name; it begins with "a,b,c and mo": --input-format says which it ` +
				`is`},
		{"a.xlsx", "PK", Options{}, ": its suffix is that of no format: save the sheet as CSV"},
		{"a.ods", "", Options{}, ": its suffix is that of no format: save the sheet as CSV"},
		{"a.numbers", "", Options{}, ": its suffix is that of no format: save the sheet as CSV"},
		{"a.xls", "", Options{}, ": its suffix is that of no format: save the sheet as CSV"},
		{"a.csv.zip", "", Options{},
			": its suffix is that of no format: unpack it first (of compressed files, only .csv.gz and .tsv.gz are " +
				"read)"},
		{"a.7z", "", Options{},
			": its suffix is that of no format: unpack it first (of compressed files, only .csv.gz and .tsv.gz are " +
				"read)"},
		{"a.npy", "", Options{}, ": its suffix is that of no format: write the rows as .parquet, .arrow or .csv"},
		{"a.sas7bdat", "", Options{},
			": its suffix is that of no format: write the rows as .parquet, .arrow or .csv"},
		{"a", "", Options{},
			": its suffix is that of no format: if it has rows, --input-format says how they are written: csv, tsv, " +
				"json, ndjson, parquet, arrow, arrows"},
		{"a.csv", "a\n", Options{Format: "excel"},
			`: there is no format "excel": use csv, tsv, json, ndjson, parquet, arrow, arrows`},
		{"a.arrow", "ARROW1\x00\x00", Options{},
			": the footer is missing or malformed: the Arrow file was cut off or not closed by its writer"},
		{"a.arrow", "ARROW1\x00\x00abcdefghARROW1", Options{},
			": the footer is missing or malformed: the Arrow file was cut off or not closed by its writer"},
		{"a.arrows", "abcdefgh", Options{},
			": this is not an Arrow IPC stream (or one that was written before Arrow 0.15): write it again, for " +
				"example with pyarrow.ipc.new_stream"},
		{"a.arrows", "\xff\xff\xff\xff\x10", Options{}, ": the stream ends in the middle of a frame: it was cut off"},
		{"a.arrows", "\xff\xff\xff\xff\x10\x00\x00\x00abc", Options{},
			": the stream ends in the middle of a frame: it was cut off"},
		{"a.arrows", "\xff\xff\xff\xff\x00\x00\x00\x00", Options{},
			" is empty: an Arrow IPC stream begins with a schema"},
		{"a.arrows", "\xff\xff\xff\xff\x01\x00\x00\x10", Options{},
			": a frame declares that its metadata has 268435457 bytes; the limit is 268435456"},
		{"a.json", "[{\"a\":1},", Options{},
			": the JSON ends early, after 9 bytes; send an object of fields, or set input.format to the format of the " +
				"messages"},
		{"a.ndjson", "{\"a\":1}\n{\"a\":\n", Options{}, ": row 2: the JSON ends early, after 14 bytes"},
	} {
		path := csvFile(t, c.name, c.text)
		r, err := c.how.Open(path)
		if err == nil {
			r.Close()
			t.Errorf("%s of %q is read", c.name, c.text)
			continue
		}
		if got, isNamed := strings.CutPrefix(err.Error(), path); !isNamed || got != c.want {
			t.Errorf("%s of %q: %s, want %s", c.name, c.text, got, c.want)
		}
	}
}

// TestFormatsOfOtherNames: a file of another name is read in the format that is named, with or without compression.
func TestFormatsOfOtherNames(t *testing.T) {
	for _, text := range []string{"a,b\n1,2\n", gzipped(t, "a,b\n1,2\n")} {
		r, err := Options{Format: "csv"}.Open(csvFile(t, "rows.dat", text))
		if err != nil {
			t.Fatal(err)
		}
		if rows, _ := read(t, r); len(rows) != 1 || rows[0][1] != "2" {
			t.Errorf("rows %q", rows)
		}
		r.Close()
		for name, format := range map[string]string{"rows.csv": "", "rows": "csv", "standard input": ""} {
			r, err := Options{Format: format}.NewReader(strings.NewReader(text), name)
			if err != nil {
				t.Fatal(err)
			}
			if rows, _ := read(t, r); len(rows) != 1 || rows[0][0] != "1" || r.Indexes() != nil {
				t.Errorf("%s: rows %q", name, rows)
			}
			r.Close()
		}
	}
	tabs, err := Options{Format: "tsv"}.Open(csvFile(t, "rows.dat", "a b\t c,d\n1\t2\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer tabs.Close()
	if s := tabs.Schema(); s.NumFields() != 2 || s.Field(0).Name != "a b" || s.Field(1).Name != "c,d" {
		t.Errorf("%v", s)
	}
	bare, err := Options{NoHeader: true}.Open(csvFile(t, "a.csv", "1,x\n2,y\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	rows, _ := read(t, bare)
	if len(rows) != 2 || rows[0][1] != "x" || bare.Schema().Field(1).Name != "x1" || bare.Rows() != 2 {
		t.Errorf("without a header: %v, %q", bare.Schema(), rows)
	}
}

// TestIndexesOfAFile: the metadata that pandas writes names the columns of the index.
func TestIndexesOfAFile(t *testing.T) {
	rec := columns(t, arrow.PrimitiveTypes.Int8, `[1]`, arrow.PrimitiveTypes.Int8, `[2]`)
	meta := arrow.NewMetadata([]string{"pandas"}, []string{`{"index_columns":["c1"]}`})
	path := filepath.Join(t.TempDir(), "a.arrow")
	write(t, path, array.NewRecord(arrow.NewSchema(rec.Schema().Fields(), &meta), rec.Columns(), 1), 1)
	if got := opened(t, path).Indexes(); len(got) != 1 || got[0] != "c1" {
		t.Errorf("indexes %q", got)
	}
}

// TestRecognisedFormats: the format of content is that of its first bytes, and text is CSV unless it begins as JSON.
func TestRecognisedFormats(t *testing.T) {
	for head, want := range map[string]formatName{"ARROW1": arrowFile, "PAR1": parquetFormat,
		"\xff\xff\xff\xff": arrowStream, "\x1f\x8b": csvGzip,
		"a,b": csvFormat, `"",a`: csvFormat, `["",a`: csvFormat, `{},"a"`: csvFormat, "{": csvFormat,
		"[{": jsonFormat, " [ {": jsonFormat, "[\n{": jsonFormat, `{"a`: linesFormat, ` { "a`: linesFormat,
		"{\n\"a":         jsonFormat,
		`{"columns":["a`: jsonFormat, `{ "index" : [`: jsonFormat, `{"data":[ [`: jsonFormat, `{"columns":[1`: linesFormat,
		"{\"columns\":[\"a\"]}\n{": linesFormat, "[1": csvFormat, "[[": csvFormat} {
		if got, found := recognise([]byte(head)); got != want || !found {
			t.Errorf("%q is format %d, %v, want %d", head, got, found, want)
		}
	}
	for _, head := range []string{"", "a\x00b"} {
		if got, found := recognise([]byte(head)); found {
			t.Errorf("%q is format %d", head, got)
		}
	}
	for path, want := range map[string]formatName{"a.csv": csvFormat, "A.CSV.GZ": csvGzip, "a.tsv": csvFormat,
		"a.tsv.gz": csvGzip, "a.parquet": parquetFormat, "a.arrow": arrowFile, "a.feather": arrowFile,
		"a.arrows": arrowStream, "a.json": jsonFormat, "a.ndjson": linesFormat, "a.jsonl": linesFormat} {
		if got, err := formatOf(path); got != want || err != nil {
			t.Errorf("%s is format %d, %v, want %d", path, got, err, want)
		}
	}
	for _, name := range FormatNames() {
		if _, err := (Options{Format: name}).formatOf("rows"); err != nil {
			t.Error(err)
		}
	}
}

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

// TestWritersRefuse: a value that a format cannot represent is an error with the file and the column.
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
		{"a.csv", []arrow.Record{lists}, `row 4: list column "c0" has 1 elements, the first row had 2: CSV needs one ` +
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
	path := filepath.Join(t.TempDir(), "a.csv")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(one), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(one); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a batch after Close: %v", err)
	}
	if err := w.Write(nil); !errors.Is(err, errNoBatch) {
		t.Errorf("no record: %v", err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	_, next := r.Next()
	if _, err := r.NextMessage(); !errors.Is(next, os.ErrClosed) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("batches after Close: %v, %v", next, err)
	}
	if _, err := (Options{}).OpenAll(nil); err == nil || err.Error() != "no files are named; give at least one" {
		t.Errorf("no files: %v", err)
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
	if _, err := CreateWhole(""); err == nil {
		t.Error("a file without a name is created")
	}
	if err := NewWriter(io.Discard, "out").WriteMessage([]byte("no message")); err == nil ||
		err.Error() != "out: a message without a schema cannot be written" {
		t.Errorf("%v", err)
	}
}
