package embedd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAssertionsFailForNaN: assertions in tests of models and stages are written as `if !(e <= 1e-9)`, which is true if
// e is NaN, as the accuracy of a model that has scored no row is; `if e > 1e-9` is not. Only comparisons whose syntax
// shows that they compare floating-point numbers are found.
func TestAssertionsFailForNaN(t *testing.T) {
	for path, source := range goFiles(t) {
		pkg, _, _ := strings.Cut(filepath.ToSlash(path), "/")
		isLearning := pkg == "model" || pkg == "plugin" || strings.HasPrefix(filepath.ToSlash(path), "internal/stage/")
		if !isLearning || !strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if branch, ok := n.(*ast.IfStmt); ok && failsTest(branch.Body) {
				for _, pos := range ordered(branch.Cond) {
					t.Errorf("%s: NaN passes this comparison: write !(a <= b) for a > b", fset.Position(pos))
				}
			}
			return true
		})
	}
}

// failsTest reports whether a branch fails its test.
func failsTest(body *ast.BlockStmt) bool {
	return slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		if expr, ok := s.(*ast.ExprStmt); ok {
			if call, ok := expr.X.(*ast.CallExpr); ok {
				f, ok := call.Fun.(*ast.SelectorExpr)
				return ok && slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, f.Sel.Name)
			}
		}
		return false
	})
}

// ordered returns the ordered comparisons of floating-point numbers that make a condition true.
func ordered(cond ast.Expr) []token.Pos {
	switch x := cond.(type) {
	case *ast.ParenExpr:
		return ordered(x.X)
	case *ast.BinaryExpr:
		switch x.Op {
		case token.LAND, token.LOR:
			return append(ordered(x.X), ordered(x.Y)...)
		case token.LSS, token.GTR, token.LEQ, token.GEQ:
			if isFloat(x.X) || isFloat(x.Y) {
				return []token.Pos{x.Pos()}
			}
		}
	}
	return nil
}

// isFloat reports whether an expression shows that it is a floating-point number: it has such a literal, or calls
// package math or a norm.
func isFloat(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BasicLit:
			is = is || x.Kind == token.FLOAT
		case *ast.CallExpr:
			if f, ok := x.Fun.(*ast.SelectorExpr); ok {
				from, _ := f.X.(*ast.Ident)
				is = is || f.Sel.Name == "Norm" || from != nil && from.Name == "math"
			}
		}
		return !is
	})
	return is
}
