package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one small fault in one place.
type mutant struct {
	ID      string // of package, function, kind, texts and occurrence: it stays when code elsewhere changes
	Kind    string
	Package string
	File    string // relative to the module
	Line    int
	In      string // function, method, variable or constant
	Named   string // the constant whose declaration is changed
	Why     string // the comment of that constant
	From    string
	To      string

	number int // that the test binary selects it by
	file   *file
	change edit
	decl   ast.Node // *ast.FuncDecl, or the *ast.ValueSpec of a package-level constant or variable
}

// edit replaces the bytes from start to end of a file.
type edit struct {
	start, end int
	text       string
}

// kinds are the faults that are planted. A draw takes as many of each, as far as there are enough.
var kinds = []string{
	"constant times ten", "tenth of a constant", "constant off by one",
	"boundary", "equality", "logic", "arithmetic", "sign", "guard", "statement", "extremum", "arguments", "return",
}

// helpers are packages of code for tests: what goes wrong there is no fault of the project.
var helpers = []string{"/model/modeltest", "/model/internal/fixture"}

// candidates lists every mutant of the files, in their order.
func candidates(files []*file, root string) []*mutant {
	var found []*mutant
	for _, f := range files {
		if f.test || slices.ContainsFunc(helpers, func(h string) bool { return strings.HasSuffix(f.pkg, h) }) {
			continue
		}
		found = append(found, mutantsOf(f, root)...)
	}
	repeated := map[string]int{}
	for _, m := range found {
		key := strings.Join([]string{m.Package, m.In, m.Named, m.Kind, m.From, m.To}, "\x00")
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, repeated[key]))
		repeated[key]++
		m.ID = hex.EncodeToString(sum[:5])
	}
	return found
}

func mutantsOf(f *file, root string) []*mutant {
	name, err := filepath.Rel(root, f.name)
	if err != nil {
		name = f.name
	}
	v := &visitor{file: f, name: filepath.ToSlash(name)}
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body == nil || recovers(d) {
				continue
			}
			v.decl, v.in = d, d.Name.Name
			if d.Recv != nil {
				v.in = receiver(d) + "." + v.in
			}
			v.walk(d.Body, nil)
		case *ast.GenDecl:
			if d.Tok != token.CONST && d.Tok != token.VAR {
				continue
			}
			for _, s := range d.Specs {
				spec := s.(*ast.ValueSpec)
				if len(spec.Names) != 1 || len(spec.Values) != 1 || spec.Names[0].Name == "_" {
					continue
				}
				v.decl, v.in, v.group = spec, spec.Names[0].Name, d.Doc
				v.walk(spec, nil)
			}
		}
	}
	return v.found
}

// recovers reports whether the function calls recover itself, which works only when it is deferred directly.
func recovers(d *ast.FuncDecl) (found bool) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if c, ok := n.(*ast.CallExpr); ok {
			id, ok := c.Fun.(*ast.Ident)
			found = found || ok && id.Name == "recover"
		}
		return !found
	})
	return found
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

type visitor struct {
	file  *file
	name  string
	in    string
	decl  ast.Node
	found []*mutant

	constant, why string // that a declaration names, and its comment
	group         *ast.CommentGroup
}

func (v *visitor) add(kind string, at ast.Node, start, end token.Pos, text string) {
	change := edit{v.file.offset(start), v.file.offset(end), text}
	first := v.file.offset(at.Pos())
	v.found = append(v.found, &mutant{Kind: kind, Package: v.file.pkg, File: v.name, Line: v.file.line(start), In: v.in,
		From: v.file.span(at), To: string(apply([]byte(v.file.span(at)), first, []edit{change})),
		Named: v.constant, Why: v.why, file: v.file, decl: v.decl, change: change})
}

// replace plants a text for a whole node.
func (v *visitor) replace(kind string, n ast.Node, text string) {
	v.add(kind, n, n.Pos(), n.End(), text)
}

// operator plants another operator.
func (v *visitor) operator(kind string, at ast.Node, pos token.Pos, from, to token.Token) {
	v.add(kind, at, pos, pos+token.Pos(len(from.String())), to.String())
}

func (v *visitor) walk(n ast.Node, parent ast.Node) {
	ast.Inspect(n, func(c ast.Node) bool {
		if c == nil {
			return false
		}
		if c == n {
			return v.visit(c, parent)
		}
		v.walk(c, n)
		return false
	})
}

// visit plants the faults of one node. It reports whether the nodes below may be changed as well.
func (v *visitor) visit(n, parent ast.Node) bool {
	switch n := n.(type) {
	case *ast.ArrayType, *ast.StructType, *ast.InterfaceType, *ast.FuncType:
		return false // a length of an array is a part of a type
	case *ast.GenDecl:
		v.group = n.Doc
	case *ast.ValueSpec:
		if _, isConst := v.file.info.Defs[n.Names[0]].(*types.Const); isConst {
			v.named(n)
			return false
		}
	case *ast.BasicLit:
		v.literal(n, parent)
	case *ast.BinaryExpr:
		v.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.SUB {
			v.replace("sign", n, "("+v.file.span(n.X)+")")
		}
	case *ast.IfStmt:
		v.replace("guard", n.Cond, "false && ("+v.file.span(n.Cond)+")")
		v.replace("guard", n.Cond, "true || ("+v.file.span(n.Cond)+")")
	case *ast.BlockStmt:
		v.statements(n.List)
	case *ast.CaseClause:
		v.statements(n.Body)
	case *ast.CommClause:
		v.statements(n.Body)
	case *ast.AssignStmt:
		if to, ok := opposite[n.Tok]; ok && v.numeric(n.Lhs[0]) {
			v.operator("arithmetic", n, n.TokPos, n.Tok, to)
		}
	case *ast.CallExpr:
		return v.call(n)
	case *ast.ReturnStmt:
		v.result(n)
	}
	return true
}

func (v *visitor) literal(n *ast.BasicLit, parent ast.Node) {
	kv, isPair := parent.(*ast.KeyValueExpr)
	if n.Kind != token.INT && n.Kind != token.FLOAT || isPair && kv.Key == n {
		return
	}
	v.number(n, constant.MakeFromLiteral(n.Value, n.Kind, 0))
}

// number plants other values of a constant expression.
func (v *visitor) number(n ast.Expr, value constant.Value) {
	text := v.file.span(n)
	if _, isLiteral := n.(*ast.BasicLit); !isLiteral {
		text = "(" + text + ")"
	}
	float := value.Kind() == constant.Float || v.float(n)
	if constant.Sign(value) != 0 {
		v.replace("constant times ten", n, "("+text+"*10)")
		if float {
			v.replace("tenth of a constant", n, "("+text+"/10.)")
		} else if constant.Compare(value, token.GEQ, constant.MakeInt64(10)) {
			v.replace("tenth of a constant", n, "("+text+"/10)")
		}
	}
	if !float {
		v.replace("constant off by one", n, "("+text+"+1)")
		if constant.Sign(value) != 0 {
			v.replace("constant off by one", n, "("+text+"-1)")
		}
	}
}

// named plants other values of the constants of a declaration, as a whole.
func (v *visitor) named(spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		c, ok := v.file.info.Defs[name].(*types.Const)
		if !ok || i >= len(spec.Values) || c.Val().Kind() != constant.Int && c.Val().Kind() != constant.Float {
			continue
		}
		v.constant, v.why = name.Name, comment(spec.Comment, spec.Doc, v.group)
		v.number(spec.Values[i], c.Val())
		v.constant, v.why = "", ""
	}
}

// comment is the text of the first comment that there is, on one line.
func comment(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := g.Text(); text != "" {
			return strings.Join(strings.Fields(text), " ")
		}
	}
	return ""
}

// opposite is the operator that a fault puts in the place of another one.
var opposite = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
}

func (v *visitor) binary(n *ast.BinaryExpr) {
	to, ok := opposite[n.Op]
	if !ok {
		return
	}
	switch n.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		v.operator("boundary", n, n.OpPos, n.Op, to)
	case token.EQL, token.NEQ:
		v.operator("equality", n, n.OpPos, n.Op, to)
	case token.LAND, token.LOR:
		v.operator("logic", n, n.OpPos, n.Op, to)
	default:
		if v.numeric(n) {
			v.operator("arithmetic", n, n.OpPos, n.Op, to)
		}
	}
}

// call plants the other extremum, and exchanges the first two arguments where both have the same type. The nodes below
// are not changed where they are capacities, which no result depends on.
func (v *visitor) call(n *ast.CallExpr) bool {
	name := v.file.span(n.Fun)
	if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "make" {
		for _, arg := range n.Args[1:min(2, len(n.Args))] {
			v.walk(arg, n)
		}
		return false
	}
	for _, pair := range [][2]string{{"min", "max"}, {"max", "min"}, {"math.Min", "math.Max"}, {"math.Max", "math.Min"}} {
		if name == pair[0] && len(n.Args) > 1 {
			v.add("extremum", n, n.Fun.Pos(), n.Fun.End(), pair[1])
			return true
		}
	}
	if len(n.Args) < 2 || n.Ellipsis.IsValid() {
		return true
	}
	a, b := v.file.info.TypeOf(n.Args[0]), v.file.info.TypeOf(n.Args[1])
	first, second := v.file.span(n.Args[0]), v.file.span(n.Args[1])
	if a == nil || b == nil || !types.Identical(a, b) || first == second || symmetric(name) {
		return true
	}
	between := string(v.file.text[v.file.offset(n.Args[0].End()):v.file.offset(n.Args[1].Pos())])
	v.add("arguments", n, n.Args[0].Pos(), n.Args[1].End(), second+between+first)
	return true
}

// symmetric reports whether a function gives the same for its first two arguments in the other order.
func symmetric(name string) bool {
	_, method, qualified := strings.Cut(name, ".")
	if !qualified {
		method = name
	}
	return slices.Contains([]string{"Dot", "dot", "Hypot", "Equal", "append", "EqualFold"}, method)
}

// result plants a wrong result of a return statement: the last one of a type that has another obvious value.
func (v *visitor) result(n *ast.ReturnStmt) {
	for _, r := range slices.Backward(n.Results) {
		t := v.file.info.TypeOf(r)
		if t == nil {
			continue
		}
		text := v.file.span(r)
		basic, _ := t.Underlying().(*types.Basic)
		switch {
		case basic != nil && basic.Info()&types.IsBoolean != 0:
			v.replace("return", r, "!("+text+")")
		case basic != nil && basic.Info()&types.IsNumeric != 0 && text != "0":
			v.replace("return", r, "0*("+text+")")
		case types.Identical(t, types.Universe.Lookup("error").Type()):
			v.replace("return", r, "nil")
		default:
			continue
		}
		return
	}
}

// statements removes each statement of a list that the list compiles without.
func (v *visitor) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if !locks(s.X) {
				v.replace("statement", s, v.uses(s))
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				v.replace("statement", s, v.uses(s))
			}
		case *ast.IncDecStmt:
			v.replace("statement", s, v.uses(s))
		case *ast.BranchStmt:
			if s.Label == nil && s.Tok != token.FALLTHROUGH && s.Tok != token.GOTO {
				v.replace("statement", s, v.uses(s))
			}
		}
	}
}

// locks reports whether an expression locks or unlocks: what a race detector finds, not a test of results.
func locks(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, method.Sel.Name)
}

// uses is a statement that only uses the local variables of a statement, so that none is unused without it.
func (v *visitor) uses(s ast.Stmt) string {
	var names []string
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.Ident:
			used, ok := v.file.info.Uses[n].(*types.Var)
			if ok && !used.IsField() && used.Parent() != v.file.scope.Scope() && !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
			}
		}
		return true
	})
	if len(names) == 0 {
		return "_ = 0"
	}
	return strings.Repeat("_, ", len(names)-1) + "_ = " + strings.Join(names, ", ")
}

func (v *visitor) numeric(x ast.Expr) bool { return v.has(x, types.IsNumeric) }

func (v *visitor) float(x ast.Expr) bool { return v.has(x, types.IsFloat) }

func (v *visitor) has(x ast.Expr, info types.BasicInfo) bool {
	t := v.file.info.TypeOf(x)
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&info != 0
}

// draw takes n mutants, of all kinds the same number as far as there are enough. The choice depends on the seed and on
// each mutant's own identity, so a change of other code changes little of it.
func draw(all []*mutant, n int, seed uint64) []*mutant {
	byKind := map[string][]*mutant{}
	for _, m := range all {
		byKind[m.Kind] = append(byKind[m.Kind], m)
	}
	for _, list := range byKind {
		slices.SortStableFunc(list, func(a, b *mutant) int { return slices.Compare(rank(a, seed), rank(b, seed)) })
	}
	var drawn []*mutant
	for round := 0; len(drawn) < min(n, len(all)); round++ {
		for _, kind := range kinds {
			if round < len(byKind[kind]) && len(drawn) < n {
				drawn = append(drawn, byKind[kind][round])
			}
		}
	}
	return drawn
}

func rank(m *mutant, seed uint64) []byte {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), m.ID...))
	return sum[:8]
}
