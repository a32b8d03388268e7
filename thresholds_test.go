package embedd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// thresholdRow is a row of docs/thresholds.md: folder, name and value of a constant, and the rest.
var thresholdRow = regexp.MustCompile("(?m)^\\| `(\\S+) (\\S+)` \\| `([^`]+)` \\|(.*)$")

// TestThresholds checks that each constant of docs/thresholds.md exists with the value that the page has, and that the
// tests which are said to fail without it exist, that it has a reason, and that each rule for ties has a test.
func TestThresholds(t *testing.T) {
	values, tests := map[string][]string{}, map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	eachGoFile(t, func(file, text string) {
		if strings.HasSuffix(file, "_test.go") {
			for _, name := range declaration.FindAllStringSubmatch(text, -1) {
				tests[name[1]] = true
			}
			return
		}
		for name, value := range constantsIn(t, file, text) {
			key := path.Dir(file) + " " + name
			values[key] = append(values[key], value)
		}
	})
	rows := thresholdRow.FindAllStringSubmatch(readPage(t, "docs/thresholds.md"), -1)
	if len(rows) < 80 {
		t.Errorf("docs/thresholds.md has %d constants", len(rows))
	}
	for _, row := range rows {
		name := row[1] + " " + row[2]
		if !slices.Contains(values[name], row[3]) {
			t.Errorf("docs/thresholds.md: %s is %q in the code, not %s: write its row again", name, values[name], row[3])
		}
		cells := strings.Split(strings.TrimSuffix(strings.ReplaceAll(row[4], `\|`, ""), "|"), "|")
		if strings.TrimSpace(cells[0]) == "" {
			t.Errorf("docs/thresholds.md: %s has no reason: give the constant a comment, and write its row again", name)
		}
		for _, cell := range cells[1:] { // none of a constant that no test notices
			if test := strings.TrimSpace(cell); test != "-" && !tests[test] {
				t.Errorf("docs/thresholds.md: %s: %s does not exist: write its row again", name, test)
			}
		}
	}
	_, ties, _ := strings.Cut(readPage(t, "docs/thresholds.md"), "\n## Ties\n")
	_, ties, _ = strings.Cut(ties, "|---|")
	for _, rule := range strings.Split(strings.TrimSpace(ties), "\n")[1:] {
		named := testName.FindAllStringSubmatch(rule, -1)
		if len(named) == 0 {
			t.Errorf("docs/thresholds.md: no test is named in: %s", rule)
		}
		for _, name := range named {
			if !tests[name[1]] {
				t.Errorf("docs/thresholds.md: %s does not exist", name[1])
			}
		}
	}
}

// notThresholds matches the constants that are no thresholds, by kind.
var notThresholds = regexp.MustCompile(`^(?:` + strings.Join([]string{
	// Numbers that the formats of others define: Arrow, Parquet, ONNX and protocol buffers.
	`arrowio/internal/ipc (?:Head\w+|[vV]ersionV\d|Codec\w+|inView|Chunk\.ranges\.day)`,
	`arrowio/internal/(?:ipc|rewrite) \w*[pP]refix\w*`,
	`arrowio/file (?:prefixBytes|footerTail|blockBytes|dayMillis|plainDictionary|` +
		`(?:schemaOf|frameWriter\.buildFooter)\.\w+|int96Time\.(?:unixEpoch|day))`,
	`model/onnx (?:float32Type|float64Type|int64Type|irVersion|opset|attribute\.encode\.\w+|metadata\.field)`,
	// Bit masks: of a float64, and of eight decimal digits in 64 bits.
	`arrowio/internal/number (?:readDigits|scaled)\.\w+`,
	// Names of instruction sets, and the number of the live model among the candidates.
	`model/internal/tile (?:portable|neon|avx2)`, `internal/stage/policy liveModel`,
	// Constants of programs that generate assembly, and of code for tests.
	`model/internal/(?:tile/gen|product/asm)(?:/neon)? \S+`,
	`model/(?:modeltest|internal/fixture) \S+`,
}, "|") + `)$`)

// TestThresholdsAreComplete checks that docs/thresholds.md has every numeric constant of the trees that it describes. A
// constant is no threshold if it is part of an enumeration or the length of an array, or is another name of one.
func TestThresholdsAreComplete(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range thresholdRow.FindAllStringSubmatch(readPage(t, "docs/thresholds.md"), -1) {
		listed[row[1]+" "+row[2]] = true
	}
	trees := regexp.MustCompile(`^(?:model|arrowio|plugin|internal/stage)/`)
	var found []string
	lengths := map[string]bool{}
	eachGoFile(t, func(file, text string) {
		if strings.HasSuffix(file, "_test.go") || !trees.MatchString(file) {
			return
		}
		numbers, sizes := numbersIn(t, file, text)
		for _, name := range numbers {
			found = append(found, path.Dir(file)+" "+name)
		}
		for _, name := range sizes {
			lengths[path.Dir(file)+" "+name] = true
		}
	})
	if len(found) < 200 {
		t.Errorf("only %d constants are found", len(found))
	}
	for _, name := range found {
		if !listed[name] && !lengths[name] && !notThresholds.MatchString(name) {
			folder, _, _ := strings.Cut(name, " ")
			t.Errorf("docs/thresholds.md has no row of %s: go run ./tools/mutate -constants -packages ./%s "+
				"-page docs/thresholds.md", name, folder)
		}
	}
}

// numbersIn lists the constants of a file that are numbers, by name, or by function and name, and the names in lengths
// of arrays.
func numbersIn(t *testing.T, name, text string) (numbers, lengths []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		prefix := ""
		if f, ok := d.(*ast.FuncDecl); ok {
			prefix = functionName(f) + "."
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ArrayType:
				if n.Len != nil { // nil: of a slice
					ast.Inspect(n.Len, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok {
							lengths = append(lengths, id.Name, prefix+id.Name)
						}
						return true
					})
				}
			case *ast.GenDecl:
				for _, s := range n.Specs {
					spec, ok := s.(*ast.ValueSpec)
					for i := 0; ok && n.Tok == token.CONST && i < len(spec.Values); i++ {
						if isNumber(spec.Values[i]) {
							numbers = append(numbers, prefix+spec.Names[i].Name)
						}
					}
				}
			}
			return true
		})
	}
	return numbers, lengths
}

// isNumber reports whether a constant expression has a number in it and no text or iota, or is a unit of time.
func isNumber(x ast.Expr) bool {
	number, other := false, false
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			isText := n.Kind == token.STRING || n.Kind == token.CHAR
			number, other = number || !isText, other || isText
		case *ast.Ident:
			number, other = number || n.Name == "time", other || n.Name == "iota"
		}
		return true
	})
	return number && !other
}

// constantsIn lists the constants of a file with their values as they are written: by name, or by function and name.
func constantsIn(t *testing.T, name, text string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	add := func(prefix string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, value := range spec.Values {
				if i < len(spec.Names) {
					source := text[fset.Position(value.Pos()).Offset:fset.Position(value.End()).Offset]
					found[prefix+spec.Names[i].Name] = strings.Join(strings.Fields(source), " ")
				}
			}
			return true
		})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.CONST {
				add("", d)
			}
		case *ast.FuncDecl:
			add(functionName(d)+".", d)
		}
	}
	return found
}

// functionName is the name of a function, with its type if it is a method.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch x := receiver.(type) {
		case *ast.StarExpr:
			receiver = x.X
		case *ast.IndexExpr:
			receiver = x.X
		case *ast.Ident:
			return x.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}
