package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dotted matches a word such as limits.rows: a section of the configuration and a key.
var dotted = regexp.MustCompile(`(?:^|[^\w./*-])((?:pipelines\.\S+?\.)?(?:` + strings.Join(sectionNames(), "|") +
	`)\.[a-z_]+(?:\.[a-z_]+)*)(\(?)`)

// sectionNames are the sections of the table without their parents, as messages name them: limits, window.
func sectionNames() []string {
	var names []string
	for _, s := range sections {
		names = append(names, regexp.QuoteMeta(s.path[strings.LastIndex(s.path, ".")+1:]))
	}
	return names
}

// fileName matches a word that looks like a key and names a file or a package.
var fileName = regexp.MustCompile(`\.(go|md|yaml|embedd|json|parquet|csv|png|py|onnx|conf|password)$`)

// endpoint matches a word that looks like a key and names an endpoint of a pipeline's service (docs/service.md), or an
// attribute in Python.
var endpoint = regexp.MustCompile(`^model\.(ls|show|pin|unpin|rollback|digest|note)$`)

// unknownKeys lists the keys in a text that do not exist.
func unknownKeys(text string) []string {
	var unknown []string
	for _, match := range dotted.FindAllStringSubmatch(text, -1) {
		if key := match[1]; match[2] == "" && !fileName.MatchString(key) &&
			!endpoint.MatchString(key) && !settable(key) { // model.pop( is a call
			unknown = append(unknown, key)
		}
	}
	return unknown
}

// settable reports whether the table has a key or a section with this name, in full or without its parents.
func settable(key string) bool {
	if rest, ok := strings.CutPrefix(key, "pipelines."); ok {
		_, rest, _ = strings.Cut(rest, ".") // the pipeline's name
		key = each + rest
	}
	named := func(path string) bool { return path == key || strings.HasSuffix(path, "."+key) }
	return slices.ContainsFunc(spec, func(f field) bool { return named(f.path) }) ||
		slices.ContainsFunc(sections, func(s section) bool { return named(s.path) })
}

// TestKeysThatAreNamed reads every string of the sources and every document: each key of the configuration that they
// name exists.
func TestKeysThatAreNamed(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	read := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "testdata":
			return fs.SkipDir
		case e.Name() == "spec.go" && filepath.Base(filepath.Dir(path)) == "config": // the table itself
			return nil
		case e.Name() == "CHANGELOG.md": // it lists the earlier names
			return nil
		case strings.HasSuffix(path, ".md") && e.Name() != "configuration.md": // that page is written from the table
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i, line := range strings.Split(string(text), "\n") {
				for _, key := range unknownKeys(line) {
					t.Errorf("%s:%d names %s, which the configuration does not have", path, i+1, key)
				}
			}
			read++
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if _, ok := n.(*ast.ImportSpec); ok {
					return false
				}
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					for _, key := range unknownKeys(text) {
						t.Errorf("%s names %s, which the configuration does not have", files.Position(lit.Pos()), key)
					}
				}
				return true
			})
			read++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 100 {
		t.Fatalf("%d sources and documents read: this is not the root of the project", read)
	}
}

// TestUnknownKeys shows that the test above can fail.
func TestUnknownKeys(t *testing.T) {
	for text, want := range map[string][]string{
		"flatten it or raise limits.depth":                          {"limits.depth"},
		"`limits.fields`, or limits.rows.":                          {"limits.fields"},
		"set pipelines.digits.model.fiel":                           {"pipelines.digits.model.fiel"},
		"put it in input.label":                                     {"input.label"},
		"(schema.nulls), training.every.rows, every.rows, nats.tls": nil,
		"see nats.go and stream/window.rows":                        nil,
	} {
		if got := unknownKeys(text); !slices.Equal(got, want) {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}
