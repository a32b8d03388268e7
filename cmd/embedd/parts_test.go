package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/files"
)

// split writes the rows of a file as files of one batch each in a new directory.
func split(t *testing.T, path, suffix string) (directory string) {
	t.Helper()
	in, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	directory = t.TempDir()
	rec, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	for i, n := 0, rec.NumRows(); i < 3; i++ {
		part := rec.NewSlice(int64(i)*n/3, int64(i+1)*n/3)
		out, err := file.Create(filepath.Join(directory, fmt.Sprintf("part-%d%s", i, suffix)))
		if err == nil {
			err = out.Write(part)
		}
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		part.Release()
	}
	return directory
}

// TestPartsAsOneFile: a directory and a pattern of files give the model and the outputs of the whole file.
func TestPartsAsOneFile(t *testing.T) {
	whole := fitted(t, iris, "lda")
	want, err := files.ReadModel(whole)
	if err != nil {
		t.Fatal(err)
	}
	outputs := func(data string) []float32 {
		out := filepath.Join(t.TempDir(), "out.arrows")
		must(t, "transform", "--model", whole, "--data", data, "-o", out)
		return embedding(t, out)
	}
	rows := outputs(iris)
	accuracy := func(data string) string {
		report, _ := must(t, "eval", "--data", data, "--label", "label", "--methods", "raw", "--format", "json")
		_, report, _ = strings.Cut(report, `"method"`)
		report, _, _ = strings.Cut(report, `"fit_seconds"`)
		return report
	}
	evaluated := accuracy(iris)
	for _, suffix := range []string{".csv", ".parquet", ".arrow", ".arrows"} {
		directory := split(t, iris, suffix)
		writeFile(t, directory, "_SUCCESS", "")
		writeFile(t, directory, ".part-0.crc", "x")
		for _, data := range []string{directory, filepath.Join(directory, "part-*")} {
			m, err := files.ReadModel(fitted(t, data, "lda"))
			if err != nil {
				t.Fatal(err)
			}
			if m.Digest() != want.Digest() {
				t.Errorf("%s: another model than that of the whole file", data)
			}
		}
		equalBits(t, suffix, outputs(directory), rows)
		must(t, "plot", "--model", whole, "--data", directory, "--label", "label", "-o",
			filepath.Join(t.TempDir(), "p.svg"))
		if got := accuracy(directory); got != evaluated {
			t.Errorf("%s: eval reports %s, want %s", suffix, got, evaluated)
		}
	}
}

// TestPartTypes: the type of a CSV column is that of its values in all files, and columns are found by name.
func TestPartTypes(t *testing.T) {
	parts, whole := t.TempDir(), t.TempDir()
	texts := []string{"a,b,id,k\n1,,007,x\n2,5,8,y\n", "b,a,id,k\n0.5,NA,9,x\n1.5,3,10,y\n", "a,b,id,k\n",
		"a,b,id,k\n7,1,z,x\n"}
	for i, text := range texts {
		writeFile(t, parts, fmt.Sprintf("%d.csv", i), text)
	}
	one := writeFile(t, whole, "one.csv", "a,b,id,k\n1,,007,x\n2,5,8,y\nNA,0.5,9,x\n3,1.5,10,y\n7,1,z,x\n")
	models := map[string]string{}
	for _, data := range []string{parts, one} {
		path := filepath.Join(t.TempDir(), "m")
		_, stderr := must(t, "fit", "--data", data, "--label", "k", "--method", "lda", "-o", path)
		if !strings.Contains(stderr, "2 features: a, b; label: k") {
			t.Errorf("%s says %s", data, stderr)
		}
		if text := "line 2 of " + filepath.Join(parts, "3.csv"); data == parts && !strings.Contains(stderr, text) {
			t.Errorf("no %q in %s", text, stderr)
		}
		m, err := files.ReadModel(path)
		if err != nil {
			t.Fatal(err)
		}
		models[m.Digest()] = data
	}
	if len(models) != 1 {
		t.Errorf("different models: %v", models)
	}
}

// TestPartErrors: errors name the files, the column and the fix.
func TestPartErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		data  string // in the directory
		more  []string
		want  []string
	}{
		{"a column is missing", map[string]string{"a.csv": "x,k\n1,a\n", "b.csv": "k\na\n"}, "", nil,
			[]string{"b.csv has no column \"x\", and ", "a.csv has"}},
		{"a column is added", map[string]string{"a.csv": "x,k\n1,a\n", "b.csv": "x,k,y\n1,a,2\n"}, "", nil,
			[]string{"b.csv has a column \"y\", and ", "a.csv has not"}},
		{"types of JSON", map[string]string{"a.ndjson": `{"x":1,"k":"a"}`, "b.ndjson": `{"x":"u","k":"a"}`}, "", nil,
			[]string{"b.ndjson: column \"x\" is utf8, and in the files before it is float64"}},
		{"two formats", map[string]string{"a.csv": "x,k\n1,a\n", "b.ndjson": `{"x":1,"k":"a"}`}, "", nil,
			[]string{"a.csv and ", "b.ndjson have different formats", "*.csv"}},
		{"no format", map[string]string{"a.csv": "x,k\n1,a\n", "b.md": "text"}, "", nil,
			[]string{"b.md: its suffix is that of no format", "a.csv, with a pattern"}},
		{"nothing", map[string]string{".a.csv": "x,k\n1,a\n"}, "", nil, []string{"has no file whose name does not begin"}},
		{"no match", map[string]string{"a.csv": "x,k\n1,a\n"}, "*.parquet", nil,
			[]string{"no file in ", " matches the pattern *.parquet"}},
		{"a bad pattern", nil, "[a", nil, []string{"is no pattern of files"}},
		{"a row", map[string]string{"a.csv": "x,k\n1,a\n", "b.csv": "x,k\n2,b\n,a\n"}, "", []string{"--nulls", "reject"},
			[]string{"b.csv: row 2, feature \"x\""}},
		{"a damaged file", map[string]string{"a.csv": "x,k\n1,a\n", "b.csv": "x,k\n2\n"}, "", nil, []string{"b.csv: line 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			directory := t.TempDir()
			for name, text := range c.files {
				writeFile(t, directory, name, text)
			}
			code, _, stderr := call(t.Context(), append([]string{"fit", "--data", filepath.Join(directory, c.data), "--label",
				"k", "--method", "lda", "-o", filepath.Join(t.TempDir(), "m")}, c.more...)...)
			for _, want := range c.want {
				if code == 0 || !strings.Contains(stderr, want) {
					t.Errorf("exit %d, no %q in %s", code, want, stderr)
				}
			}
		})
	}
}

// TestOutputAmongParts: no output is written into the files that are read, or next to them.
func TestOutputAmongParts(t *testing.T) {
	model, directory, elsewhere := fitted(t, iris, "lda"), split(t, iris, ".csv"), t.TempDir()
	for _, path := range []string{"part-1.csv", "link.csv", "part-0.csv"} {
		var err error
		switch path {
		case "link.csv":
			err = os.Symlink(filepath.Join(directory, "part-1.csv"), filepath.Join(elsewhere, path))
		case "part-0.csv":
			err = os.Link(filepath.Join(directory, path), filepath.Join(elsewhere, path))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ data, output string }{
		{directory, filepath.Join(directory, "new.csv")},
		{directory, filepath.Join(directory, "part-1.csv")},
		{directory, filepath.Join(elsewhere, "link.csv")},
		{filepath.Join(directory, "*.csv"), filepath.Join(directory, "part-1.csv")},
		{filepath.Join(directory, "*.csv"), filepath.Join(elsewhere, "part-0.csv")},
	} {
		code, _, stderr := call(t.Context(), "transform", "--model", model, "--data", c.data, "-o", c.output)
		if code != 2 || !strings.Contains(stderr, "that --data names") {
			t.Errorf("%s to %s: exit %d: %s", c.data, c.output, code, stderr)
		}
	}
	if err := os.Symlink("part-1.csv", filepath.Join(directory, "z.csv")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := call(t.Context(), "eval", "--data", directory, "--label", "label")
	if code == 0 || !strings.Contains(stderr, "z.csv are the same file") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
