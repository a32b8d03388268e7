package file

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio"
)

func csvFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The type of a column is that of all its values, wherever the exception is.
func TestCSVTypes(t *testing.T) {
	for _, c := range []struct {
		name, values, kind, first string
	}{
		{"integers stay integers", "3|-1|+7", "int64", "3"},
		{"one fraction makes floats", "3|4|0.5", "float64", "3"},
		{"exponents", "1e3|2", "float64", "1000"},
		{"an empty field is a null", "3||4", "int64", "3"},
		{"a null comes first", "|3", "int64", array.NullValueStr},
		{"no value at all", "||", "utf8", array.NullValueStr},
		{"infinities are floats", "inf|-Inf|Infinity", "float64", "+Inf"},
		{"missing among integers", "3|NA|N/A|NaN|nan|null|NULL|None|", "int64", "3"},
		{"missing comes first", "NaN|0.5", "float64", array.NullValueStr},
		{"missing among booleans", "null|true", "bool", array.NullValueStr},
		{"nothing but missing", "NA|None|", "utf8", array.NullValueStr},
		{"what is missing among numbers is a name among texts", "None|mild", "utf8", "None"},
		{"a word after numbers", "1|2|three", "utf8", "1"},
		{"a word that is none of them", "1|n/k", "utf8", "1"},
		{"leading zeros are identifiers", "007|008", "utf8", "007"},
		{"zero alone is a number", "0|10", "int64", "0"},
		{"leading zeros before a point are numbers", "00.5|1", "float64", "0.5"},
		{"beyond int64", "1|9223372036854775808", "float64", "1"},
		{"beyond float64", "1|1e999", "float64", "1"},
		{"no hexadecimal", "0x10|0x1p-2", "utf8", "0x10"},
		{"no digit separators", "1_000", "utf8", "1_000"},
		{"booleans", "true|False|TRUE", "bool", "true"},
		{"booleans and numbers are text", "true|1", "utf8", "true"},
		{"spaces around a number", " 1|2 ", "int64", "1"},
		{"spaces around a text are text", " a|2", "utf8", " a"},
		{"quoted with comma and quote", `"a, ""b"""|c`, "utf8", `a, "b"`},
		{"quoted number", `"3"|4`, "int64", "3"},
		{"text with a line break", "\"a\nb\"|c", "utf8", "a\nb"},
	} {
		for _, newline := range []string{"\n", "\r\n"} {
			if newline == "\r\n" && strings.Contains(c.values, "\n") {
				continue
			}
			content := "id,x" + newline
			for i, v := range strings.Split(c.values, "|") {
				content += string(rune('a'+i)) + "," + v + newline
			}
			r := opened(t, csvFile(t, "x.csv", content))
			if got := r.Schema().Field(1).Type.Name(); got != c.kind {
				t.Errorf("%s: type %s, want %s", c.name, got, c.kind)
				continue
			}
			rows, _ := read(t, r)
			if rows[0][1] != c.first || len(rows) != 1+strings.Count(c.values, "|") {
				t.Errorf("%s: first of %d is %q, want %q", c.name, len(rows), rows[0][1], c.first)
			}
		}
	}
}

// A single value after 20,000 rows changes the type of the whole column.
func TestCSVTypeOfWholeColumn(t *testing.T) {
	r := opened(t, csvFile(t, "x.csv", "x\n"+strings.Repeat("1\n", 20000)+"a\n"))
	if got := r.Schema().Field(0).Type.Name(); got != "utf8" {
		t.Errorf("type %s, want utf8", got)
	}
	rows, batches := read(t, r)
	if len(rows) != 20001 || batches < 2 {
		t.Errorf("%d rows in %d batches", len(rows), batches)
	}
	if why, doubtful := r.NotNumeric("x"); !doubtful || !strings.Contains(why, "line 20002") ||
		!strings.Contains(why, `"a"`) {
		t.Errorf("why: %q, %v", why, doubtful)
	}
}

func TestCSVHeader(t *testing.T) {
	r := opened(t, csvFile(t, "x.csv", "\ufeff a , b\n1,2\n"))
	if s := r.Schema(); s.Field(0).Name != "a" || s.Field(1).Name != "b" {
		t.Errorf("names %v", s)
	}
}

// Lists of different lengths do not fit into columns.
func TestCSVLists(t *testing.T) {
	rec := sample(4)
	defer rec.Release()
	w, err := Create(filepath.Join(t.TempDir(), "x.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if err := w.Write(rec); err == nil || !strings.Contains(err.Error(), `"list"`) ||
		!strings.Contains(err.Error(), ".parquet") {
		t.Errorf("lists of several lengths: %v", err)
	}
}

// Dialects of the same table. An option sets what the header line does not show.
func TestCSVDialects(t *testing.T) {
	want := [][]string{{"0.5", "1", "k, 1"}, {"-2.25", array.NullValueStr, "k; 2"}}
	for _, c := range []struct {
		name, content string
		how           Options
	}{
		{"x.csv", "a,b,label\n0.5,1,\"k, 1\"\n-2.25,,k; 2\n", Options{}},
		{"x.csv", "a;b;label\n0.5;1;k, 1\n-2.25;NA;\"k; 2\"\n", Options{}},
		{"x.csv", "a;b;label\r\n0,5;1;k, 1\r\n-2,25;;\"k; 2\"\r\n", Options{Decimal: ','}},
		{"x.csv", "a\tb\tlabel\n0.5\t1\tk, 1\n-2.25\tnull\tk; 2\n", Options{}},
		{"x.tsv", "a\tb\tlabel\n0.5\t1\tk, 1\n-2.25\tNULL\tk; 2\n", Options{}},
		{"x.TSV", "\"a\"\t\"b\"\t\"label\"\n0,5\t1\tk, 1\n-2,25\t\tk; 2\n", Options{Decimal: ','}},
		{"x.csv", "a|b|label\n0.5|1|k, 1\n-2.25|NaN|k; 2\n", Options{}},
		{"x.csv", "a:b:label\n0.5:1:k, 1\n-2.25::k; 2", Options{Delimiter: ':'}},
		{"x.csv", "\ufeffa, b, label\n0.5, 1, \"k, 1\"\n-2.25, N/A, k; 2\n", Options{}},
		{"x.csv", "a;b;label\n0.5;1;k, 1\n-2.25;-999;\"k; 2\"\n", Options{Missing: []string{"-999"}}},
		{"x.csv", "\"a,\";b;label\n0.5;1;k, 1\n-2.25;None;\"k; 2\"\n", Options{}},
	} {
		r, err := c.how.Open(csvFile(t, c.name, c.content))
		if err != nil {
			t.Errorf("%q: %v", c.content, err)
			continue
		}
		if a, b := r.Schema().Field(0).Type.Name(), r.Schema().Field(1).Type.Name(); a != "float64" || b != "int64" {
			t.Errorf("%q: types %s and %s", c.content, a, b)
		}
		rows, _ := read(t, r)
		equalRows(t, rows, want)
		r.Close()
	}
	for content, want := range map[string]string{
		"a;b\n1,5;2\n":               "--decimal ,",
		"a;b\nn/k;2\n1;2\n":          "--missing n/k",
		"a;b\nn k;2\n1;2\n":          "leave a missing value empty",
		"a,b\n1.5.1,2\n1,2\n":        "--missing 1.5.1",
		"a,b\n1.29 kg,2\n3 kg,2\n":   "without its unit",
		"a,b\n2 kg,2\nold,2\n3 kg,2": "without its unit",
		"a,b\n2 kg,2\n4 kg,2\n3 m,2": "without its unit",
		"a,b\nNo,2\nYes,2\n":         "true or false",
		"a,b\nNo,2\ntrue,2\n":        "true or false",
		"a,b\n1.5,2\nno,2\n3,2\n":    "--missing no",
		"a,b\n\"0,125\",2\n":         "written 0.125",
		"a,b\n\"1234,567\",2\n":      "written 1234.567",
		"a,b\n\"-1,234\",2\n":        "written -1234",
		"a,b\n\"1,234,567\",2\n":     "written 1234567",
	} {
		if why, _ := opened(t, csvFile(t, "x.csv", content)).NotNumeric("a"); !strings.Contains(why, want) {
			t.Errorf("%q: %q, want %q", content, why, want)
		}
	}
	for _, content := range []string{"a,b\n12 Main St,2\n", "a,b\n12 Elm,2\n13 Oak,2\n1 Ash,2\n",
		"a,b\nNO,2\nSE,2\nDK,2\n", "a,b\nabc,2\n2 kg,2\n3 m,2\n"} {
		if why, doubtful := opened(t, csvFile(t, "x.csv", content)).NotNumeric("a"); doubtful {
			t.Errorf("%q: words: %q", content, why)
		}
	}
	if why, _ := opened(t, csvFile(t, "x.csv", "a,b\n0000_11,2\n")).NotNumeric("a"); strings.Contains(why, "written") {
		t.Errorf("an identifier that Go reads in octal: %q", why)
	}
	if _, err := (Options{Decimal: ','}).Open(csvFile(t, "x.csv", "a,b\n1,2\n")); err == nil ||
		!strings.Contains(err.Error(), "--delimiter") {
		t.Errorf("a comma that parts fields and numbers: %v", err)
	}
}

// In a text column a word means a missing value only if an option names it.
func TestCSVMissingText(t *testing.T) {
	path := csvFile(t, "x.csv", "x,y\nNone,1\na,2\n,3\n")
	for _, c := range []struct {
		how  Options
		want string
	}{{Options{}, "None"}, {Options{Missing: []string{"?", "None"}}, array.NullValueStr}} {
		r, err := c.how.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := read(t, r)
		if rows[0][0] != c.want || rows[2][0] != array.NullValueStr {
			t.Errorf("%v: %q, want %q first", c.how, rows, c.want)
		}
		if n := r.Notes(); len(n) != len(c.how.Missing)/2 || len(n) == 1 && !strings.Contains(n[0], `no field is "?"`) {
			t.Errorf("%v: notes %q, want one for each word that no field has", c.how, n)
		}
		r.Close()
	}
}

// Labels that one file writes as 0 and another as 0.0 are the same.
func TestWholeLabels(t *testing.T) {
	for content, want := range map[string]string{
		"label,x\n0,1\n1,2\n,3\n":        "0 1 " + array.NullValueStr,
		"label,x\n0.0,1\n1.0,2\nNaN,3\n": "0 1 " + array.NullValueStr,
		"label,x\n-0.0,1\n1e0,2\n2,3\n":  "0 1 2",
	} {
		r, err := Options{Label: "label"}.Open(csvFile(t, "x.csv", content))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Schema().Field(0).Type.Name(); got != "int64" {
			t.Errorf("%q: type %s", content, got)
		}
		rows, _ := read(t, r)
		if got := rows[0][0] + " " + rows[1][0] + " " + rows[2][0]; got != want {
			t.Errorf("%q: labels %s, want %s", content, got, want)
		}
		r.Close()
	}
	r, err := Options{Label: "label"}.Open(csvFile(t, "x.csv", "label,x\n0.5,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), `column "label"`) ||
		!strings.Contains(err.Error(), "0.5") {
		t.Errorf("a fraction as a label: %v", err)
	}
}

// BenchmarkCSV reads rows of 50 numbers and a label.
func BenchmarkCSV(b *testing.B) {
	var text strings.Builder
	for j := range 50 {
		fmt.Fprintf(&text, "x%d,", j)
	}
	text.WriteString("label\n")
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		for range 50 {
			text.WriteString(strconv.FormatFloat(r.NormFloat64(), 'g', 8, 64) + ",")
		}
		fmt.Fprintf(&text, "class%d\n", r.IntN(5))
	}
	path := filepath.Join(b.TempDir(), "rows.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		rows := 0
		for {
			rec, err := f.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			rows += int(rec.NumRows())
			rec.Release()
		}
		if err := f.Close(); err != nil || rows != 20_000 {
			b.Fatal(rows, err)
		}
	}
}

// TestCSVWideHeader: a header line is not UTF-8 only if it has such bytes, however long it is.
func TestCSVWideHeader(t *testing.T) {
	for shift := range 3 {
		header := strings.Repeat("x", shift) + strings.Repeat("ö", 40_000) + ",b"
		if _, err := NewReader(strings.NewReader(header+"\n1,2\n"), "rows"); err != nil {
			t.Errorf("shifted by %d: %v", shift, err)
		}
	}
	late := strings.Repeat("n", 40_000) + ";" + strings.Repeat("b", 30_000) + ",c" // the comma is beyond 64 KiB
	if r, err := NewReader(strings.NewReader(late+"\n1;2\n"), "rows"); err != nil ||
		r.Schema().Field(1).Name != late[40_001:] {
		t.Errorf("a comma far into the header: %v", err)
	}
	for _, text := range []string{"a,b\xf6\n1,2\n", "a,b\xc3", "\xf6" + strings.Repeat("x", 1<<16) + "\n1\n"} {
		if _, err := NewReader(strings.NewReader(text), "rows"); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%.10q: %v", text, err)
		}
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

// TestCSVForms: the text of float16, decimals, times without a zone and columns of type null, as pyarrow wrote them.
func TestCSVForms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forms.csv")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := opened(t, filepath.Join("testdata", "forms.arrow")).NextMessage()
	if err == nil {
		err = errors.Join(w.WriteMessage(msg), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	want := "half,price,wide,local,zone,nothing\n" +
		"5.9604645e-08,0.01,0.3,2020-01-01 12:00:00.000005,2020-07-01 02:00:00+0200,\n" +
		"6.097555e-05,,100000000000000000000000000000000000000000000000000.0,2020-01-01 12:00:00.000005," +
		"2020-07-01 02:00:00+0200,\n0.099975586,-123456789.99,,,,\n"
	if err != nil || string(got) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
	}
}
