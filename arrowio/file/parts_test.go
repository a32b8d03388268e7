package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
