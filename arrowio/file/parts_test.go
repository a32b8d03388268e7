package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// TestFilesAreOneTable: the rows of one file after those of the other, with the values of each column as they are, read
// in the format that Options names.
func TestFilesAreOneTable(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for i, text := range []string{`{"k":"p","v":0.5} {"k":"q","v":2}`, `{"k":"r","v":-1.25}`} {
		text = strings.ReplaceAll(text, " ", "\n")
		if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Options{Format: "ndjson"}.OpenAll(paths)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rows, _ := read(t, r)
	if !slices.EqualFunc(rows, [][]string{{"p", "0.5"}, {"q", "2"}, {"r", "-1.25"}}, slices.Equal) {
		t.Errorf("the rows are %v", rows)
	}
}

// TestFormatsOfFilesDiffer: the error of files of different formats has a pattern that names those of one.
func TestFormatsOfFilesDiffer(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.parquet")
	err := Options{}.checkFormats([]string{a, b})
	if err == nil || !strings.HasSuffix(err.Error(), "such as "+filepath.Join(dir, "*.csv")) {
		t.Errorf("%v", err)
	}
	if err := (Options{}).checkFormats([]string{a, filepath.Join(dir, "b.csv.gz")}); err != nil {
		t.Error(err)
	}
}

// TestWholeIsClosedOnce: a file that is closed or discarded again stays as it is.
func TestWholeIsClosedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for _, discard := range []bool{false, true} {
		w, err := CreateWhole(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("rows")); err != nil {
			t.Fatal(err)
		}
		if discard {
			w.Discard()
		} else if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w.Discard()
		if err := w.Close(); err != nil {
			t.Errorf("discarded %v: closing it again: %v", discard, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "rows" {
			t.Errorf("discarded %v: the file has %q, %v", discard, text, err)
		}
	}
}

// TestTypesOfSeveralFiles: the type of a column of several CSV files fits the values of all, and an error about a text
// has its file and line.
func TestTypesOfSeveralFiles(t *testing.T) {
	for _, c := range []struct {
		a, b, want, why string // values of the files, the type and why it is text
	}{
		{"1", "2", "int64", ""}, {"1", "0.5", "float64", ""}, {"0.5", "1", "float64", ""}, {"true", "False", "bool", ""},
		{"", "1", "int64", ""}, {"1", "", "int64", ""}, {"", "", "utf8", "it has no value"}, {"NA", "true", "bool", ""},
		{"007", "1", "utf8", "its numbers have leading zeros"}, {"1", "007", "utf8", "its numbers have leading zeros"},
		{"true", "1", "utf8", `line 2 of A holds "true"`},
		{"1", "w", "utf8", `line 2 of B holds "w"; leave a missing value empty, or name the word: --missing w`},
		{"1", "x", "utf8", `line 2 of B holds "x"; it repeats the header: remove the line`},
		{"y", "x", "utf8", `line 2 of A holds "y"`}, {"yes", "no", "utf8", `line 2 of A holds "yes"; a boolean is written ` +
			"true or false"},
		{"1", "no", "utf8", `line 2 of B holds "no"; leave a missing value empty, or name the word: --missing no`},
		{"2 kg", "3 kg", "utf8", `line 2 of A holds "2 kg"; write the number without its unit: the name of the column ` +
			"can have it"},
		{"2 kg", "3 m", "utf8", `line 2 of A holds "2 kg"; write the number without its unit: the name of the column can ` +
			"have it"},
		{"2", "3 kg", "utf8", `line 2 of B holds "3 kg"; write the number without its unit: the name of the column can ` +
			"have it"},
	} {
		dir := t.TempDir()
		paths := []string{filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")}
		for i, text := range []string{"x,n\n" + c.a + ",1\n" + c.a + ",2\n", "n,x\n3," + c.b + "\n"} {
			if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Options{}.OpenAll(paths)
		if err != nil {
			t.Fatal(err)
		}
		why, _ := r.NotNumeric("x")
		why = strings.NewReplacer(paths[0], "A", paths[1], "B").Replace(why)
		if got := r.Schema().Field(0).Type.Name(); got != c.want || why != c.why || r.Rows() != 3 ||
			r.Size() != int64(2*len(c.a)+len(c.b)+17) {
			t.Errorf("%q and %q: %s, %q, %d rows in %d bytes, want %s, %q", c.a, c.b, got, why, r.Rows(), r.Size(), c.want,
				c.why)
		}
		if rows, _ := read(t, r); len(rows) != 3 || rows[0][1]+rows[1][1]+rows[2][1] != "123" {
			t.Errorf("rows %q", rows)
		}
		for row, want := range []part{{paths[0], 0}, {paths[0], 1}, {paths[0], 2}, {paths[1], 1}, {paths[1], 2}} {
			if path, at := r.Place(row); path != want.path || at != want.before {
				t.Errorf("row %d is row %d of %s, want %+v", row, at, path, want)
			}
		}
		if r.Close() != nil {
			t.Error("the files cannot be closed")
		}
	}
	one, err := Options{}.OpenAll([]string{csvFile(t, "a.csv", "x\n1\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if path, at := one.Place(7); path != one.name || at != 7 || one.Rows() != 1 || one.Size() != 4 {
		t.Errorf("row 7 of one file is row %d of %s", at, path)
	}
}

// TestWordsOfSeveralFiles: a word for a missing value may be in any of the files.
func TestWordsOfSeveralFiles(t *testing.T) {
	paths := []string{csvFile(t, "a.csv", "x\n1\n"), csvFile(t, "b.csv", "x\n?\n")}
	r, err := Options{Missing: []string{"?", "-"}}.OpenAll(paths)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if want := []string{paths[0] + `: no field is "-": --missing lists words that mean a missing value`}; !slices.Equal(
		r.Notes(), want) {
		t.Errorf("notes %q, want %q", r.Notes(), want)
	}
	_, err = Options{Missing: []string{"false"}}.OpenAll([]string{csvFile(t, "a.csv", "x\ntrue\n"),
		csvFile(t, "b.csv", "x\nfalse\n")})
	if err == nil || !strings.Contains(err.Error(), `column "x" has "true" and "false"`) {
		t.Errorf("the other boolean is a missing value: %v", err)
	}
}

// TestColumnsOfSeveralFiles: all files have the columns of the first, with their types; nulls have any.
func TestColumnsOfSeveralFiles(t *testing.T) {
	numbers := columns(t, arrow.PrimitiveTypes.Int8, `[1,2]`, arrow.BinaryTypes.String, `["a","b"]`)
	renamed := func(names ...string) arrow.Record {
		fields := numbers.Schema().Fields()
		for i, name := range names {
			fields[i].Name = name
		}
		return array.NewRecord(arrow.NewSchema(fields, nil), numbers.Columns(), 2)
	}
	nulls := columns(t, arrow.Null, `[null]`, arrow.BinaryTypes.String, `["c"]`)
	for _, c := range []struct {
		a, b arrow.Record
		want string
	}{
		{numbers, nulls, ""}, {nulls, numbers, ""}, {numbers, numbers, ""},
		{numbers, renamed("c0", "d"), `B has no column "c1", and A has: write all files with the same columns`},
		{columns(t, arrow.PrimitiveTypes.Int8, `[1]`), numbers, `B has a column "c1", and A has not: write all files with ` +
			"the same columns"},
		{numbers, renamed("c0", "c0"), `B has 2 columns "c0": rename all but one`},
		{numbers, columns(t, arrow.PrimitiveTypes.Int16, `[1]`, arrow.BinaryTypes.String, `["a"]`),
			`B: column "c0" is int16, and in the files before it is int8: write it with one type in all files`},
	} {
		dir := t.TempDir()
		paths := []string{filepath.Join(dir, "a.arrow"), filepath.Join(dir, "b.arrow")}
		write(t, paths[0], c.a, 10)
		write(t, paths[1], c.b, 10)
		r, err := Options{}.OpenAll(paths)
		if err != nil {
			if got := strings.NewReplacer(paths[0], "A", paths[1], "B").Replace(err.Error()); got != c.want {
				t.Errorf("%s, want %q", got, c.want)
			}
			continue
		}
		rows, _ := read(t, r)
		if c.want != "" || r.Schema().Field(0).Type.Name() != "int8" || len(rows) != int(c.a.NumRows()+c.b.NumRows()) {
			t.Errorf("%v, rows %q, want %q", r.Schema(), rows, c.want)
		}
		r.Close()
	}
	a, b := csvFile(t, "a.csv", "x\n1\n"), filepath.Join(t.TempDir(), "b")
	for _, paths := range [][]string{{a, b}, {b, a}} {
		_, err := Options{}.OpenAll(paths)
		if err == nil || !strings.HasPrefix(err.Error(), b+": its suffix is that of no format") ||
			!strings.HasSuffix(err.Error(), "; if it has none, name the others, such as "+a+", with a pattern") {
			t.Errorf("%v", err)
		}
	}
	if _, err := (Options{}).OpenAll([]string{a, a + ".csv"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second file is missing: %v", err)
	}
}

// TestFilesAreClosed: of several files one is open at a time, and none after Close.
func TestFilesAreClosed(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(list)
	}
	before := count()
	paths := []string{csvFile(t, "a.csv", "x\n1\n"), csvFile(t, "b.csv", "x\n2\n"), csvFile(t, "c.csv", "x\n3\n")}
	r, err := Options{}.OpenAll(paths)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(); n != before+1 {
		t.Errorf("%d files are open, want one", n-before)
	}
	if rows, _ := read(t, r); len(rows) != 3 {
		t.Errorf("rows %q", rows)
	}
	if err := r.Close(); err != nil || count() != before {
		t.Errorf("%d files are open: %v", count()-before, err)
	}
}
