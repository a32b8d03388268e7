// Package doctable holds the tables of a page of docs to what the code defines.
package doctable

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "add the missing rows to the pages of docs, and remove the surplus ones")

// Entry is something that the code defines and that has a row in a page.
type Entry struct {
	Name string // the first cell of the row, in backquotes
	Row  string // the other cells as they are added to a page: "output | the model's version"
}

// Check fails unless each entry has a row in one of the tables of a page, and each row whose first cell matches name is
// that of an entry. A row may say more than its entry. With -update it adds a missing row below that of the entry
// before, removes surplus rows, and writes the page.
func Check(t *testing.T, path string, name *regexp.Regexp, entries []Entry) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	indexOf := func(entry string) int {
		return slices.IndexFunc(lines, func(line string) bool { return first(line) == entry })
	}
	surplus := func(line string) bool {
		cell := first(line)
		return cell != "" && name.FindString(cell) == cell &&
			!slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == cell })
	}
	var missing []Entry
	for _, e := range entries {
		if indexOf(e.Name) < 0 {
			missing = append(missing, e)
		}
	}
	switch {
	case len(missing) == 0 && !slices.ContainsFunc(lines, surplus):
	case !*update:
		t.Errorf("%s: missing rows %v, surplus rows %q; 'go test -run %s -update' corrects the page", path, missing,
			slices.DeleteFunc(lines, func(line string) bool { return !surplus(line) }), t.Name())
	default:
		for i, e := range entries {
			if indexOf(e.Name) >= 0 {
				continue
			}
			if i == 0 {
				t.Fatalf("%s: write the row of %s, which is the first entry, by hand", path, e.Name)
			}
			lines = slices.Insert(lines, indexOf(entries[i-1].Name)+1, "| `"+e.Name+"` | "+e.Row+" |")
		}
		lines = slices.DeleteFunc(lines, surplus)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// CheckTable fails unless a page has a table that is exactly this one, from its header row on. With -update it replaces
// the table below the same header.
func CheckTable(t *testing.T, path string, table []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	begin := slices.Index(lines, table[0])
	if begin < 0 {
		t.Fatalf("%s: no table begins with %s", path, table[0])
	}
	end := begin
	for end < len(lines) && strings.HasPrefix(lines[end], "|") {
		end++
	}
	switch {
	case slices.Equal(lines[begin:end], table):
	case !*update:
		t.Errorf("%s: the table in line %d differs; 'go test -run %s -update' corrects it", path, begin+1, t.Name())
	default:
		lines = slices.Replace(lines, begin, end, table...)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// first returns the first cell of a row of a table if it is one word in backquotes, else "".
func first(line string) string {
	rest, isRow := strings.CutPrefix(line, "| `")
	cell, _, closes := strings.Cut(rest, "` |")
	if !isRow || !closes {
		return ""
	}
	return cell
}
