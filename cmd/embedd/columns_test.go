package main

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/model"
)

// kinds is a table with columns that are features and columns that are not.
func kinds() arrow.Record {
	truth, text := arrow.FixedWidthTypes.Boolean, arrow.BinaryTypes.String
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "half", Type: arrow.FixedWidthTypes.Float16}, {Name: "name", Type: text},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}}, {Name: "on", Type: truth},
		{Name: "never", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "count", Type: arrow.PrimitiveTypes.Int64},
		{Name: "label", Type: text}, {Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{Name: "nothing", Type: text, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range 40 {
		b.Field(0).(*array.Float16Builder).Append(float16.New(float32(i*7%16) / 4))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("n", i))
		b.Field(2).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(i*37%100 + 10)))
		b.Field(3).(*array.BooleanBuilder).Append(i*i%5 == 1)
		b.Field(4).AppendNull()
		b.Field(5).(*array.Int64Builder).Append(int64(i % 13))
		b.Field(6).(*array.StringBuilder).Append(fmt.Sprint("c", i%3))
		b.Field(7).(*array.Date32Builder).Append(arrow.Date32(i))
		b.Field(8).AppendNull()
	}
	return b.NewRecord()
}

// fileOf writes a record to a file.
func fileOf(t *testing.T, name string, rec arrow.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := file.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every verb names the columns that are features and those that are not, in the same words for every format; a column
// without a value does not fail a fit.
func TestColumnsAreNamed(t *testing.T) {
	rec := kinds()
	defer rec.Release()
	fitted := ""
	digest := ""
	for _, format := range []string{".parquet", ".arrow", ".arrows", ".csv", ".tsv"} {
		path := fileOf(t, "rows"+format, rec)
		day := "date"
		if strings.HasSuffix(format, "sv") { // CSV has no dates
			day = "text"
		}
		want := "embedd: note: rows" + format + ": 4 features: half, price, on, count; label: label\n" +
			"embedd: note: rows" + format + `: not features: "name" (text), "never" (no value in any row), "day" (` + day +
			`), "nothing" (no value in any row)` + "\n"
		out := filepath.Join(t.TempDir(), "m")
		_, stderr := must(t, "fit", "--data", path, "--label", "label", "--method", "lda", "-o", out)
		if stderr != want {
			t.Errorf("fit of %s says\n%swant\n%s", format, stderr, want)
		}
		m, err := files.ReadModel(out)
		if err != nil {
			t.Fatal(err)
		}
		if digest == "" {
			digest, fitted = m.Digest(), out
		} else if m.Digest() != digest {
			t.Errorf("%s: another model than that of Parquet", format)
		}
		for _, nulls := range []string{"skip", "reject"} {
			must(t, "fit", "--data", path, "--label", "label", "--method", "lda", "--nulls", nulls, "-o", out)
			if m, err := files.ReadModel(out); err != nil || m.Digest() != digest {
				t.Errorf("%s, --nulls %s: another model: %v", format, nulls, err)
			}
		}
		if _, stderr = must(t, "eval", "--data", path, "--label", "label", "--methods", "lda", "--splits",
			"2"); stderr != want {
			t.Errorf("eval of %s says\n%s", format, stderr)
		}
		_, stderr = must(t, "transform", "--model", fitted, "--data", path, "-o", filepath.Join(t.TempDir(), "out.csv"))
		want = "embedd: note: rows" + format + ": 4 features: half, price, on, count\n" +
			"embedd: note: rows" + format + `: not features: "name" (text), "never" (no value in any row), "label" (text), ` +
			`"day" (` + day + `), "nothing" (no value in any row)` + "\n"
		if !strings.HasPrefix(stderr, want) {
			t.Errorf("transform of %s says\n%s", format, stderr)
		}
	}
	_, stderr := must(t, "fit", "--data", fileOf(t, "rows.arrow", rec), "--label", "label", "--method", "lda",
		"--features", "half", "--features", "never", "--features", "price", "-o", filepath.Join(t.TempDir(), "m"))
	for _, want := range []string{"2 features: half, price", `"on" (numbers that --features does not select)`,
		`"never" (no value in any row)`} {
		if !strings.Contains(stderr, want) {
			t.Errorf("fit of some features says %s", stderr)
		}
	}
}

// A column of numbers beyond float32 is not said to be empty.
func TestColumnBeyondFloat32(t *testing.T) {
	path := filepath.Join(t.TempDir(), "far.csv")
	if err := os.WriteFile(path, []byte("a,far,label\n1,1e39,x\n2,-1e40,y\n3,NaN,x\n5,1e300,y\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, stderr := must(t, "fit", "--data", path, "--label", "label", "--method", "lda", "--nulls", "impute",
		"-o", filepath.Join(t.TempDir(), "m"))
	if want := `not features: "far" (no finite float32 value in any row)`; !strings.Contains(stderr, want) {
		t.Errorf("fit says %s", stderr)
	}
}

// -o - is standard output, and the report goes to standard error.
func TestOutputToStandardOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	data, err := file.Open(filepath.Join(testdataOf(t), "iris.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	rec, err := data.Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	path := fileOf(t, "iris.arrow", rec)
	fit := []string{"fit", "--data", path, "--label", "label", "--method", "lda", "-o", "-"}
	stdout, stderr := must(t, fit...)
	m, err := model.Read(strings.NewReader(stdout))
	if err != nil || !strings.Contains(stderr, "150 in 3 classes") {
		t.Errorf("fit -o -: %v: %s", err, stderr)
	}
	again, stderr := must(t, append(fit, "--format", "json")...)
	if _, err := model.Read(strings.NewReader(again)); err != nil || !strings.Contains(stderr, `"digest":"`+m.Digest()) {
		t.Errorf("fit -o - --format json: %v: %s", err, stderr)
	}
	if err := os.WriteFile("m.embedd", []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	drawn, _ := must(t, "plot", "--data", path, "--label", "label", "--model", "m.embedd", "-o", "-")
	if _, err := png.Decode(strings.NewReader(drawn)); err != nil {
		t.Errorf("plot -o -: %v", err)
	}
	shown, _ := must(t, "model", "export", "m.embedd", "-o", "-")
	if !strings.Contains(shown, m.Digest()) {
		t.Errorf("model export -o -: %s", shown)
	}
	reduced, _ := must(t, "transform", "--model", "m.embedd", "--data", path, "-o", "-")
	r, err := file.NewReader(bytes.NewReader([]byte(reduced)), "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if code, _, stderr := call(t.Context(), "demo", "-o", "-"); code != 2 || !strings.Contains(stderr, ".png") {
		t.Errorf("demo -o -: exit %d, %s", code, stderr)
	}
	if left, _ := filepath.Glob("-*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

func testdataOf(t *testing.T) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "testdata")
}

// A file with the same columns in another order is transformed to the same bits, and 1.0 in one file is the class 1 in
// another.
func TestAnotherFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, row func(i int) string) string {
		text := row(-1) + "\n"
		for i := range 30 {
			text += row(i) + "\n"
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := func(i int) string { return fmt.Sprint(float64(i*7%11) / 4) }
	b := func(i int) string { return fmt.Sprint(i * i % 17) }
	one := write("one.csv", func(i int) string {
		if i < 0 {
			return "a,b,label"
		}
		return a(i) + "," + b(i) + "," + fmt.Sprint(i%2)
	})
	two := write("two.csv", func(i int) string {
		if i < 0 {
			return "label;more;b;a"
		}
		return fmt.Sprint(i%2) + ".0;" + fmt.Sprint(i) + ";" + b(i) + ";" + a(i)
	})
	first, second := fitted(t, one, "lda"), fitted(t, two, "lda", "--features", "a", "--features", "b")
	x, err := files.ReadModel(first)
	if err != nil {
		t.Fatal(err)
	}
	y, err := files.ReadModel(second)
	if err != nil {
		t.Fatal(err)
	}
	if x.Digest() != y.Digest() {
		t.Errorf("classes %v and %v, features %v and %v", x.Classes(), y.Classes(), x.Features(), y.Features())
	}
	var want []float32
	for _, data := range []string{one, two} {
		out := filepath.Join(dir, "out.arrow")
		must(t, "transform", "--model", first, "--data", data, "-o", out)
		got := embedding(t, out)
		if want == nil {
			want = got
		}
		equalBits(t, data, got, want)
	}
	code, _, stderr := call(t.Context(), "publish", "--data", one, "--label", "lable", "--subject", "s", "--server",
		"nats://127.0.0.1:1")
	if code != 2 || !strings.Contains(stderr, `did you mean "label"?`) || strings.Contains(stderr, "messages") {
		t.Errorf("publish of a misspelt label: exit %d, %s", code, stderr)
	}
}

// A word for a missing value remains a class in a column of words, with a note; --missing removes it.
func TestMissingLabel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.csv")
	text := "x,y,label\n"
	for i := range 30 {
		text += fmt.Sprintf("%d,%d,%s\n", i*7%11, i*i%17, []string{"a", "b", "None"}[i%3])
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "m")
	fit := []string{"fit", "--data", path, "--label", "label", "--method", "lda", "-o", out}
	stdout, stderr := must(t, fit...)
	if !strings.Contains(stderr, "--missing None") || !strings.Contains(stdout, "3 classes") {
		t.Errorf("a class called None: %s%s", stdout, stderr)
	}
	stdout, stderr = must(t, append(fit, "--missing", "None,?")...)
	if !strings.Contains(stderr, "10 of 30 rows have no label") || !strings.Contains(stdout, "2 classes") {
		t.Errorf("--missing None: %s%s", stdout, stderr)
	}
}

// The note of publish describes how a pipeline with features * reads the columns: a column without values is a feature
// there.
func TestPublishNamesColumns(t *testing.T) {
	rec := kinds()
	defer rec.Release()
	for name, want := range map[string]string{
		"rows.arrow": "embedd: note: rows.arrow: 5 features: half, price, on, never, count; label: label\n" +
			`embedd: note: rows.arrow: not features: "name" (text), "day" (date), "nothing" (text)` + "\n" +
			`embedd: note: rows.arrow: "never" has no value in the first 40 rows: `,
		"rows.csv": "embedd: note: rows.csv: 4 features: half, price, on, count; label: label\n" +
			`embedd: note: rows.csv: not features: "name" (text), "never" (text: it has no value), "day" (text), `,
	} {
		in, err := file.Open(fileOf(t, name, rec))
		if err != nil {
			t.Fatal(err)
		}
		first, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		dataset.Columns{Name: name, Label: "label"}.NoteRecord(&cli.Env{Stderr: &said}, in, first)
		if !strings.HasPrefix(said.String(), want) {
			t.Errorf("publish of %s says\n%s", name, &said)
		}
		first.Release()
		in.Close()
	}
}
