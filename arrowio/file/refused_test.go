package file

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

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
		{"a.csv.gz", gzipped(t, "<html>"), Options{},
			": the content is HTML or XML, such as a page to log in: download the file itself, or save the table as " +
				"CSV"},
		{"a.csv.gz", "a,b\n1,2\n", Options{}, ": the content is not gzip: name it .csv if it is plain text"},
		{"a.csv", "sep=;\r\na;b\n1;2\n", Options{}, `: line 1 is "sep=;", which Excel alone reads: remove it`},
		{"a.csv", "a,b\r1,2\r", Options{},
			": its lines end with a carriage return alone: write line feeds (tr '\\r' '\\n')"},
		{"a.csv", "a,b\n", Options{Delimiter: ';', Decimal: ';'},
			": the delimiter is a semicolon, which cannot be the decimal mark too: set --delimiter"},
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

// TestBlocksOfAFooter: each batch of an Arrow file is inside the file, up to its last byte.
func TestBlocksOfAFooter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.arrow")
	write(t, path, columns(t, arrow.PrimitiveTypes.Int8, `[1,2,3]`), 2)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := cut(whole[8:])
	if err != nil {
		t.Fatal(err)
	}
	_, blocks, err := readFooter(bytes.NewReader(whole), int64(len(whole)))
	if err != nil || len(blocks) != 2 || blocks[0].offset != 8+int64(len(head.bytes)) ||
		blocks[1].offset != blocks[0].offset+blocks[0].meta+blocks[0].body {
		t.Fatalf("blocks %+v, %v", blocks, err)
	}
	for _, c := range []struct {
		block func(size int64) block
		want  bool
	}{
		{func(size int64) block { return block{8, 8, size - 16} }, true},
		{func(size int64) block { return block{8, 8, size - 15} }, false},
		{func(size int64) block { return block{8, size - 8, 0} }, true},
		{func(size int64) block { return block{8, size - 7, 0} }, false},
		{func(size int64) block { return block{size, 0, 0} }, true},
		{func(size int64) block { return block{size + 1, 0, 0} }, false},
		{func(size int64) block { return block{7, 8, 8} }, false}, {func(size int64) block { return block{8, 8, -1} }, false},
	} {
		file := []byte(magic + "\x00\x00")
		for range 2 { // the footer is as long each time
			w := &frameWriter{head: head.bytes, headFrame: head, rowBlocks: []block{c.block(int64(len(file)))}}
			footer := w.buildFooter()
			file = append([]byte(magic+"\x00\x00"), footer...)
			file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), magic...)
		}
		_, got, err := readFooter(bytes.NewReader(file), int64(len(file)))
		if (err == nil) != c.want || c.want && (len(got) != 1 || got[0] != c.block(int64(len(file)))) {
			t.Errorf("%+v of %d bytes: %+v, %v", c.block(int64(len(file))), len(file), got, err)
		}
		if err != nil && err.Error() != "the footer says that batch 0 is outside the file: the file was cut off" {
			t.Error(err)
		}
	}
	for n := range 18 { // fewer bytes than those around a footer
		if _, _, err := readFooter(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Errorf("a file of %d bytes has a footer", n)
		}
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

// TestLabelsOfFractions: a label of any type of fractions is read as integers if its values are whole numbers.
func TestLabelsOfFractions(t *testing.T) {
	for _, c := range []struct {
		typ    arrow.DataType
		values string
		want   string // the labels, or a part of the error
	}{
		{arrow.FixedWidthTypes.Float16, `[1,-2,null]`, "1 -2 (null)"}, {arrow.PrimitiveTypes.Float32, `[3,0,7]`, "3 0 7"},
		{arrow.PrimitiveTypes.Float64, `[9007199254740992,0,null]`, "9007199254740992 0 (null)"},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `["3.00","-1.00",null]`, "3 -1 (null)"},
		{arrow.PrimitiveTypes.Float64, `[1,2.5,3]`, `: column "c0" is the label and holds 2.5: a class is text, a whole ` +
			"number (1.0 is read as 1) or a boolean"},
		{arrow.PrimitiveTypes.Float64, `[1,1e300,3]`, `: column "c0" is the label and holds 1e+300: a class is text, a ` +
			"whole number (1.0 is read as 1) or a boolean"},
	} {
		path := filepath.Join(t.TempDir(), "a.arrow")
		write(t, path, columns(t, c.typ, c.values), 3)
		r, err := Options{Label: "c0"}.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := r.Next()
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), path)
		} else {
			rows := text(rec)
			got = rows[0][0] + " " + rows[1][0] + " " + rows[2][0]
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.typ, c.values, got, c.want)
		}
		r.Close()
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
