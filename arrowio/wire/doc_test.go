package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/doctable"
)

// TestDocument holds docs/wire.md and this package to the same headers, codes and kinds.
func TestDocument(t *testing.T) {
	doctable.Check(t, "../../docs/wire.md", regexp.MustCompile(`Embedd-\w+`), headerEntries(t))
	text, err := os.ReadFile("../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	headers, codes, kinds := constants(t, "header.go", "Header"), constants(t, "code.go", ""),
		constants(t, "letter.go", "Kind")
	own := slices.DeleteFunc(headers, func(h string) bool { return h == HeaderContentType })
	same(t, "headers", own, regexp.MustCompile(`Embedd-\w+`).FindAllString(doc, -1))
	same(t, "codes", codes, firstCells(t, doc, "## Codes"))
	var listed []string
	for _, code := range Codes {
		listed = append(listed, string(code))
	}
	same(t, "listed codes", listed, codes)
	same(t, "kinds", kinds, regexp.MustCompile("`(\\w+)`[:,]").FindAllString(row(t, doc, HeaderKind), -1))
	if !strings.Contains(row(t, doc, HeaderWire), "`"+Version+"`") {
		t.Errorf("the version of the package, %s, is not that of the document", Version)
	}
	if !strings.Contains(doc, "`"+HeaderContentType+": "+ContentType+"`") {
		t.Errorf("the document does not say %s: %s", HeaderContentType, ContentType)
	}
}

// headerEntries returns our headers. The comment behind a new constant is its row: "on output: the model's version".
func headerEntries(t *testing.T) (entries []doctable.Entry) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "header.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Header") || spec.Names[0].Name == "HeaderContentType" {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		on, meaning, _ := strings.Cut(strings.TrimSpace(spec.Comment.Text()), ": ")
		entries = append(entries, doctable.Entry{Name: name, Row: strings.TrimPrefix(on, "on ") + " | " + meaning})
		return true
	})
	return entries
}

// constants returns the values of the constants of a file whose names have a prefix.
func constants(t *testing.T, file, prefix string) (values []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
		return true
	})
	return values
}

// firstCells returns the words in backquotes in the first cells of the table of a section.
func firstCells(t *testing.T, doc, section string) (words []string) {
	_, rest, found := strings.Cut(doc, section+"\n")
	if !found {
		t.Fatalf("the document has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for line := range strings.Lines(rest) {
		if cells := strings.Split(line, "|"); len(cells) > 1 {
			words = append(words, regexp.MustCompile("`[^`]+`").FindAllString(cells[1], -1)...)
		}
	}
	return words
}

// row returns the line of the table that describes a header.
func row(t *testing.T, doc, header string) string {
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "| `"+header+"`") {
			return line
		}
	}
	t.Fatalf("the document has no row for %s", header)
	return ""
}

// same compares two sets; the document's words may be in backquotes.
func same(t *testing.T, what string, ours, documented []string) {
	t.Helper()
	in := func(words []string) []string {
		set := map[string]bool{}
		for _, w := range words {
			set[strings.Trim(w, "`:,")] = true
		}
		return slices.Sorted(maps.Keys(set))
	}
	if a, b := in(ours), in(documented); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("%s: the package has %q and the document %q", what, a, b)
	}
}
