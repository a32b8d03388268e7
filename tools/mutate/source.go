package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// tree is the part of a module that a run reads: the packages that may be mutated and those whose tests may find it.
type tree struct {
	module, root string
	files        []*file
	packages     map[string]*code
}

// code is one package with its tests.
type code struct {
	path, dir string
	imports   map[string]bool // of the package and of its tests
	tested    bool
}

// file is one source file with its types.
type file struct {
	name, pkg string
	test      bool
	text      []byte
	syntax    *ast.File
	fset      *token.FileSet
	info      *types.Info
	scope     *types.Package
}

// load reads the packages of the patterns, with their tests. dir is a folder of the module.
func load(dir string, patterns []string) (*tree, error) {
	config := &packages.Config{
		Dir: dir, Tests: true,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedModule | packages.NeedForTest,
	}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load %v: %w", patterns, err)
	}
	t := &tree{packages: map[string]*code{}}
	// The variant for tests has the files of the package and those of its tests: it comes before the plain package.
	slices.SortStableFunc(loaded, func(a, b *packages.Package) int { return cmp.Compare(len(b.ForTest), len(a.ForTest)) })
	known := map[string]bool{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("package %s does not compile: %v", p.PkgPath, p.Errors[0])
		}
		if strings.HasSuffix(p.PkgPath, ".test") || p.Module == nil || len(p.CompiledGoFiles) == 0 {
			continue
		}
		if p.ForTest != "" && p.ForTest != strings.TrimSuffix(p.PkgPath, "_test") {
			continue // the same files again, compiled for the tests of another package
		}
		t.module, t.root = p.Module.Path, p.Module.Dir
		if err := t.add(p, known); err != nil {
			return nil, err
		}
	}
	if len(t.files) == 0 {
		return nil, fmt.Errorf("no Go files match %v", patterns)
	}
	slices.SortFunc(t.files, func(a, b *file) int { return cmp.Compare(a.name, b.name) })
	return t, nil
}

func (t *tree) add(p *packages.Package, known map[string]bool) error {
	path := strings.TrimSuffix(p.PkgPath, "_test")
	c := t.packages[path]
	if c == nil {
		c = &code{path: path, dir: filepath.Dir(p.CompiledGoFiles[0]), imports: map[string]bool{}}
		t.packages[path] = c
	}
	c.tested = c.tested || p.ForTest != ""
	for imported := range p.Imports {
		c.imports[imported] = true
	}
	for i, name := range p.CompiledGoFiles {
		if known[name] {
			continue
		}
		known[name] = true
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read a source file: %w", err)
		}
		t.files = append(t.files, &file{name: name, pkg: p.PkgPath, test: strings.HasSuffix(name, "_test.go"), text: text,
			syntax: p.Syntax[i], fset: p.Fset, info: p.TypesInfo, scope: p.Types})
	}
	return nil
}

// near lists the packages with tests that reach the package, by the length of the shortest chain of imports.
func (t *tree) near(path string) []*code {
	distance := map[string]int{path: 0}
	frontier := []string{path}
	for step := 1; len(frontier) > 0; step++ {
		var next []string
		for _, name := range slices.Sorted(maps.Keys(t.packages)) {
			_, reached := distance[name]
			if !reached && slices.ContainsFunc(frontier, func(f string) bool { return t.packages[name].imports[f] }) {
				distance[name] = step
				next = append(next, name)
			}
		}
		frontier = next
	}
	var found []*code
	for name := range distance {
		if c := t.packages[name]; c != nil && c.tested {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *code) int {
		return cmp.Or(cmp.Compare(distance[a.path], distance[b.path]), cmp.Compare(a.path, b.path))
	})
	return found
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *file) line(p token.Pos) int { return f.fset.Position(p).Line }

func (f *file) span(n ast.Node) string { return string(f.text[f.offset(n.Pos()):f.offset(n.End())]) }

// typeName writes a type as this file may spell it; ok is false if it cannot.
func (f *file) typeName(t types.Type) (name string, ok bool) {
	ok = true
	name = types.TypeString(t, func(p *types.Package) string {
		if p == f.scope {
			return ""
		}
		for _, spec := range f.syntax.Imports {
			if strings.Trim(spec.Path.Value, `"`) != p.Path() {
				continue
			}
			if spec.Name != nil {
				return spec.Name.Name
			}
			return p.Name()
		}
		ok = false
		return p.Name()
	})
	return name, ok
}
