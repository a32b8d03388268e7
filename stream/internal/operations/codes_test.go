package operations

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCodesAreDocumented compares the codes with docs/service.md, and checks that none is a code of package wire.
func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(
		string(page)[strings.Index(string(page), "| code |"):], -1) {
		documented = append(documented, m[1])
	}
	ours, messages := constants(t, "codes.go", "Code"), constants(t, "../../../arrowio/wire/code.go", "")
	slices.Sort(documented)
	slices.Sort(ours)
	if len(ours) == 0 || !slices.Equal(ours, documented) {
		t.Errorf("the codes are %q, and the document has %q", ours, documented)
	}
	for _, c := range ours {
		if slices.Contains(messages, c) {
			t.Errorf("code %s is one of package wire too", c)
		}
	}
}

// constants are the values of the constants of a file whose names have a prefix.
func constants(t *testing.T, file, prefix string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) == 0 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

// TestCodeOfNoError: a code does not make an error.
func TestCodeOfNoError(t *testing.T) {
	if err := WithCode(CodeBadRequest, nil); err != nil {
		t.Error("no error has become one")
	}
}

// TestRequestersAreShort: who requests something is logged, so its length is limited.
func TestRequestersAreShort(t *testing.T) {
	q, err := Read([]byte(`{"by":"` + strings.Repeat("é", 1000) + `"}`))
	if err != nil || len(q.By) > 510 || !strings.HasSuffix(q.By, "é...") {
		t.Errorf("%d bytes, %v", len(q.By), err)
	}
}
