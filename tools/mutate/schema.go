package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// selector is the package that the mutated code asks which mutant is active. It exists only in the overlay of a build.
const selector = `// Package mutant selects one mutant of a test binary.
package mutant

import (
	"os"
	"strconv"
	"sync"
)

var active, _ = strconv.Atoi(os.Getenv("MUTANT"))

var (
	record  = os.Getenv("MUTANT_RECORD")
	guard   sync.Mutex
	reached = map[int]bool{}
)

// Is reports whether a mutant is active.
func Is(number int) bool { return number == active }

// Hit notes that the place of a mutant is executed.
func Hit(number int) {
	if record != "" {
		note(number)
	}
}

func note(number int) {
	guard.Lock()
	defer guard.Unlock()
	if reached[number] {
		return
	}
	reached[number] = true
	f, err := os.OpenFile(record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := f.WriteString(strconv.Itoa(number) + "\n"); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}
`

// patch is what a mutant changes in one declaration of a file.
type patch struct {
	mutant *mutant
	file   *file
	decl   ast.Node
	edits  []edit
}

// overlay is mutated source, by file name, and the lines that belong to one mutant.
type overlay struct {
	text  map[string][]byte
	owner map[string]map[int]*mutant
}

// schemata writes all mutants into the files: each declaration that a mutant changes gets a changed copy at the end of
// its file, and asks the selector which one to use. Lines stay where they are. Mutants that cannot be written so are
// returned as rejected: a constant that is a part of a type.
func schemata(t *tree, drawn []*mutant) (o *overlay, rejected []*mutant) {
	byFile := map[*file][]patch{}
	constants := map[*file][]patch{} // whose edits hold one whole declaration
	for _, m := range drawn {
		patches, declared, ok := t.patches(m)
		if !ok {
			rejected = append(rejected, m)
			continue
		}
		for _, p := range patches {
			byFile[p.file] = append(byFile[p.file], p)
		}
		for _, p := range declared {
			constants[p.file] = append(constants[p.file], p)
		}
	}
	o = &overlay{text: map[string][]byte{}, owner: map[string]map[int]*mutant{}}
	for _, f := range t.files {
		if len(byFile[f])+len(constants[f]) > 0 {
			o.write(t, f, byFile[f], constants[f])
		}
	}
	o.text[filepath.Join(t.root, "internal", "mutant", "mutant.go")] = []byte(selector)
	return o, rejected
}

// patches lists the declarations that a mutant changes: one, or all that use a constant.
func (t *tree) patches(m *mutant) (patches, constants []patch, ok bool) {
	spec, isSpec := m.decl.(*ast.ValueSpec)
	if !isSpec {
		return []patch{{m, m.file, m.decl, []edit{m.change}}}, nil, true
	}
	if _, isConst := m.file.info.Defs[spec.Names[0]].(*types.Const); !isConst {
		_, ok := m.file.typeName(m.file.info.Defs[spec.Names[0]].Type())
		return []patch{{m, m.file, m.decl, []edit{m.change}}}, nil, ok
	}
	// A constant cannot be selected when the program runs. So each declaration that uses it is copied.
	changed := map[string]bool{key(m.file.info.Defs[spec.Names[0]]): true}
	constants = []patch{constantCopy(m, m.file, spec, []edit{m.change})}
	for grown := true; grown; {
		grown = false
		patches = nil
		for _, f := range t.files {
			for _, d := range f.syntax.Decls {
				for _, part := range parts(d) {
					edits := f.renames(part, changed, m)
					if len(edits) == 0 {
						continue
					}
					spec, isSpec := part.(*ast.ValueSpec)
					switch {
					case !isSpec:
						fn, isFunc := part.(*ast.FuncDecl)
						if !isFunc || fn.Body == nil || edits[0].start < f.offset(fn.Body.Pos()) || recovers(fn) {
							return nil, nil, false
						}
						patches = append(patches, patch{m, f, fn, edits})
					case len(spec.Names) != 1 || len(spec.Values) != 1 || spec.Names[0].Name == "_" ||
						edits[0].start < f.offset(spec.Values[0].Pos()):
						return nil, nil, false
					case d.(*ast.GenDecl).Tok == token.CONST:
						if name := key(f.info.Defs[spec.Names[0]]); !changed[name] {
							changed[name], grown = true, true
							constants = append(constants, constantCopy(m, f, spec, edits))
						}
					default:
						if _, ok := f.typeName(f.info.Defs[spec.Names[0]].Type()); !ok {
							return nil, nil, false
						}
						patches = append(patches, patch{m, f, spec, edits})
					}
				}
			}
		}
	}
	return patches, constants, true
}

// parts are the declarations that are changed alone.
func parts(d ast.Decl) []ast.Node {
	g, ok := d.(*ast.GenDecl)
	if !ok {
		return []ast.Node{d}
	}
	var list []ast.Node
	for _, s := range g.Specs {
		list = append(list, s)
	}
	return list
}

// key names a package-level object alike in all packages that see it.
func key(o types.Object) string {
	if o == nil || o.Pkg() == nil {
		return ""
	}
	return o.Pkg().Path() + "." + o.Name()
}

// renames lets a declaration use the changed copies of constants.
func (f *file) renames(n ast.Node, changed map[string]bool, m *mutant) (edits []edit) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if c, ok := f.info.Uses[id].(*types.Const); ok && c.Parent() == c.Pkg().Scope() && changed[key(c)] {
			edits = append(edits, edit{f.offset(id.Pos()), f.offset(id.End()), m.copyName(id.Name)})
		}
		return true
	})
	return edits
}

// copyName names the copy of a declaration for a mutant; a copy of an exported constant is exported.
func (m *mutant) copyName(name string) string { return "M" + strconv.Itoa(m.number) + "_" + name }

func constantCopy(m *mutant, f *file, spec *ast.ValueSpec, edits []edit) patch {
	kind := ""
	if spec.Type != nil {
		kind = f.span(spec.Type) + " "
	}
	value := spec.Values[0]
	text := apply([]byte(f.span(value)), f.offset(value.Pos()), edits)
	return patch{m, f, spec, []edit{{text: fmt.Sprintf("const %s %s= %s", m.copyName(spec.Names[0].Name), kind, text)}}}
}

// apply edits a text that begins at an offset of its file.
func apply(text []byte, offset int, edits []edit) []byte {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, text[at:e.start-offset]...)
		out = append(out, e.text...)
		at = e.end - offset
	}
	return append(out, text[at:]...)
}

// changedCopy is a declaration that is appended to a file.
type changedCopy struct {
	mutant *mutant
	text   string
}

func (o *overlay) write(t *tree, f *file, patches, constants []patch) {
	name := f.offset(f.syntax.Name.End())
	changes := []edit{{name, name, fmt.Sprintf("; import mutant__ %q", t.module+"/internal/mutant")}}
	var copies []changedCopy
	for _, p := range constants {
		copies = append(copies, changedCopy{p.mutant, p.edits[0].text})
	}
	renamed := map[ast.Node]bool{}
	for _, p := range patches {
		for _, e := range p.edits {
			if at, ok := f.statement(p.decl, e.start); ok {
				changes = append(changes, edit{at, at, fmt.Sprintf("mutant__.Hit(%d); ", p.mutant.number)})
			}
		}
		switch d := p.decl.(type) {
		case *ast.FuncDecl:
			call, names := f.dispatch(d, p.mutant)
			if !renamed[d] {
				changes = append(changes, names...)
				renamed[d] = true
			}
			body := f.offset(d.Body.Lbrace) + 1
			changes = append(changes, edit{body, body, call})
			title := edit{f.offset(d.Name.Pos()), f.offset(d.Name.End()), p.mutant.copyName(d.Name.Name)}
			text := apply([]byte(f.span(d)), f.offset(d.Pos()), append(p.edits, title))
			copies = append(copies, changedCopy{p.mutant, string(text)})
		case *ast.ValueSpec:
			value := d.Values[0]
			kind, _ := f.typeName(f.info.Defs[d.Names[0]].Type())
			title := p.mutant.copyName(d.Names[0].Name)
			hit := ""
			if _, ok := f.statement(d, p.edits[0].start); !ok {
				hit = fmt.Sprintf("mutant__.Hit(%d); ", p.mutant.number)
			}
			from, to := f.offset(value.Pos()), f.offset(value.End())
			call := fmt.Sprintf("func() %s { %sif mutant__.Is(%d) { return %s() }; return ", kind, hit, p.mutant.number, title)
			changes = append(changes, edit{from, from, call}, edit{to, to, " }()"})
			text := fmt.Sprintf("func %s() %s { return %s }", title, kind, apply([]byte(f.span(value)), from, p.edits))
			copies = append(copies, changedCopy{p.mutant, text})
		}
	}
	text := append(apply(f.text, 0, changes), "\nvar _ = mutant__.Is\n"...)
	lines := map[int]*mutant{}
	line := bytes.Count(text, []byte("\n")) + 1
	for _, c := range copies {
		for range strings.Count(c.text, "\n") + 1 {
			lines[line] = c.mutant
			line++
		}
		text = append(append(text, c.text...), '\n')
	}
	o.owner[f.name], o.text[f.name] = lines, text
}

// statement is where the statement begins that has the offset: the innermost one of a list, within the declaration.
func (f *file) statement(decl ast.Node, offset int) (at int, ok bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if n == nil || f.offset(n.Pos()) > offset || f.offset(n.End()) <= offset {
			return false
		}
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			_, isClause := s.(*ast.CaseClause)
			_, isComm := s.(*ast.CommClause)
			if !isClause && !isComm && f.offset(s.Pos()) <= offset && offset < f.offset(s.End()) {
				at, ok = f.offset(s.Pos()), true
			}
		}
		return true
	})
	return at, ok
}

// dispatch is the statement by which a function calls its changed copy, and the names that its parameters need for it.
func (f *file) dispatch(d *ast.FuncDecl, m *mutant) (call string, names []edit) {
	var args []string
	unnamed := 0
	name := func(fields []*ast.Field) (used []string) {
		for _, field := range fields {
			if len(field.Names) == 0 {
				used = append(used, fmt.Sprintf("p__%d", unnamed))
				at := f.offset(field.Type.Pos())
				names = append(names, edit{at, at, used[len(used)-1] + " "})
				unnamed++
			}
			for _, n := range field.Names {
				given := n.Name
				if given == "_" {
					given = fmt.Sprintf("p__%d", unnamed)
					names = append(names, edit{f.offset(n.Pos()), f.offset(n.End()), given})
					unnamed++
				}
				used = append(used, given)
			}
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				used[len(used)-1] += "..."
			}
		}
		return used
	}
	target := m.copyName(d.Name.Name)
	if d.Recv != nil {
		target = name(d.Recv.List)[0] + "." + target
	}
	args = name(d.Type.Params.List)
	if d.Type.TypeParams != nil {
		var parameters []string
		for _, field := range d.Type.TypeParams.List {
			for _, n := range field.Names {
				parameters = append(parameters, n.Name)
			}
		}
		target += "[" + strings.Join(parameters, ", ") + "]"
	}
	call = fmt.Sprintf("%s(%s)", target, strings.Join(args, ", "))
	if d.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	return fmt.Sprintf(" if mutant__.Is(%d) { %s }; ", m.number, call), names
}
