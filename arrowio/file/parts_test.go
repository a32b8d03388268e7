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
