package admin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// TestChecksAreDocumented: the table of doctor in docs/operations.md has the checks that doctor reports, and no others.
func TestChecksAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Doctor\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for line := range strings.Lines(section) {
		if cells, isRow := strings.CutPrefix(line, "| `"); isRow {
			first, _, _ := strings.Cut(cells, "` |")
			documented = append(documented, strings.Split(first, "`, `")...)
		}
	}
	var reported []string
	for _, file := range []string{"doctor.go", "doctorstore.go", "doctorstreams.go", "traffic.go",
		"../../cmd/embedd/doctor.go"} {
		reported = append(reported, checksOf(t, file)...)
	}
	// Streams are reported by their purpose, buckets by the check that the table of needs has for them.
	p := spec.Pipeline{Name: "p", Stream: "in", Subject: "in.p", Labels: "labels.p", Output: "out.p", Dead: "dead.p"}
	edge := p
	edge.Models.Hub, edge.Edges, edge.Stage.Training.Block = "hub", []string{"berlin"}, 100
	for _, n := range needs.For(needs.Config{Pipelines: []spec.Pipeline{p, edge}}) {
		switch {
		case n.Kind == needs.Stream:
			reported = append(reported, n.Purpose)
		case n.Check != "":
			reported = append(reported, n.Check)
		}
	}
	slices.Sort(reported)
	slices.Sort(documented)
	if reported = slices.Compact(reported); !slices.Equal(reported, documented) {
		t.Errorf("doctor reports\n%q and docs/operations.md lists\n%q", reported, documented)
	}
}

// checksOf are the checks that a file names: in the field Check, or as the first argument of a method that adds a
// finding.
func checksOf(t *testing.T, file string) (checks []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		var check ast.Expr
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Check" {
				check = n.Value
			}
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if ok && len(n.Args) > 0 && slices.Contains([]string{"ok", "fault", "addOK", "addError"}, method.Sel.Name) {
				check = n.Args[0]
			}
		}
		if literal, ok := check.(*ast.BasicLit); ok {
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			checks = append(checks, name)
		}
		return true
	})
	return checks
}
