package doctable

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestCheck checks that a page is corrected: missing rows follow the entry before them, and other rows stay.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	page := "| name | |\n|---|---|\n| `a_one` | said by hand |\n| `a_old` | |\n\n| other |\n| `b` | |\n"
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	entries := []Entry{{"a_one", "one"}, {"a_two", "two"}, {"a_three", "three"}}
	*update = true
	defer func() { *update = false }()
	Check(t, path, regexp.MustCompile(`a_\w+`), entries)
	got, err := os.ReadFile(path)
	want := "| name | |\n|---|---|\n| `a_one` | said by hand |\n| `a_two` | two |\n| `a_three` | three |\n\n" +
		"| other |\n| `b` | |\n"
	if string(got) != want || err != nil {
		t.Errorf("the page is %q, %v", got, err)
	}
	*update = false
	Check(t, path, regexp.MustCompile(`a_\w+`), entries)
}
