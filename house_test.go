package embedd_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const module = "github.com/embedd/embedd/"

// below lists, for each package, the packages that it may import. ARCHITECTURE.md draws the same map.
var below = map[string][]string{
	"internal/spell":          {},
	"internal/strictjson":     {},
	"internal/narrow":         {},
	"internal/bound":          {},
	"internal/link":           {},
	"internal/natstest":       {"internal/link"},
	"internal/testsize":       {},
	"internal/transcript":     {},
	"internal/doctable":       {},
	"model/internal/fail":     {},
	"model/internal/parallel": {"model/internal/fail"},
	"model/internal/linalg":   {},
	"model/pencil": {"model/internal/fail", "model/internal/linalg", "model/internal/parallel",
		"model/internal/tile"},
	"model/internal/tile": {"model/internal/linalg", "model/internal/parallel"},
	"model/moments":       {"model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/graph":         {"model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/internal/mapping": {"model/internal/fail",
		"model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/internal/product":    {"model/internal/linalg"},
	"model":                     ofModel,
	"model/score":               {"model", "model/graph"},
	"model/onnx":                {"model", "model/internal/linalg", "model/internal/mapping"},
	"model/internal/lbfgs":      {"model/internal/fail", "model"},
	"model/internal/stiefel":    {"model", "model/internal/lbfgs"},
	"model/internal/svm":        {"model/internal/linalg"},
	"model/internal/similarity": {"model/internal/fail", "model/internal/linalg", "model/internal/parallel"},
	"model/internal/tangent":    {"model/internal/fail", "model/graph", "model/pencil", "model/internal/linalg"},
	"model/internal/frame": {"internal/spell", "model/internal/fail",
		"model", "model/score", "model/moments", "model/graph", "model/pencil",
		"model/internal/mapping",
		"model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/internal/method/scatter": {"model/internal/fail", "model", "model/pencil",
		"model/internal/frame", "model/internal/mapping", "model/internal/stiefel",
		"model/internal/linalg", "model/internal/parallel"},
	"model/internal/method/margin": {"model/internal/fail", "model/score", "model/graph", "model/pencil",
		"model/internal/frame", "model/internal/mapping", "model/internal/svm",
		"model/internal/linalg", "model/internal/parallel"},
	"model/internal/method/locality": {"model/internal/fail", "model/graph", "model/pencil", "model/internal/frame"},
	"model/internal/method/patch": {"model/internal/fail", "model/graph", "model/pencil",
		"model/internal/frame", "model/internal/tangent", "model/internal/linalg"},
	"model/internal/method/manifold": {"model/internal/fail", "model", "model/graph", "model/pencil",
		"model/internal/method/patch", "model/internal/frame", "model/internal/mapping", "model/internal/similarity",
		"model/internal/tangent", "model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/internal/method/iterative": {"model/internal/fail", "model", "model/score", "model/pencil",
		"model/internal/method/scatter", "model/internal/method/margin", "model/internal/frame",
		"model/internal/lbfgs", "model/internal/stiefel",
		"model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/internal/method": {"internal/spell", "model/internal/frame",
		"model/internal/method/scatter", "model/internal/method/margin", "model/internal/method/locality",
		"model/internal/method/patch", "model/internal/method/manifold", "model/internal/method/iterative"},
	"model/internal/preprocess": {"model/internal/fail",
		"model", "model/pencil", "model/internal/frame", "model/internal/mapping",
		"model/internal/linalg", "model/internal/parallel", "model/internal/tile"},
	"model/internal/blend": {"model/internal/fail",
		"model", "model/pencil", "model/internal/preprocess", "model/internal/method",
		"model/internal/frame", "model/internal/mapping", "model/internal/linalg", "model/internal/tile"},
	"model/internal/choose": {"model/internal/fail",
		"model", "model/score", "model/internal/blend", "model/internal/preprocess",
		"model/internal/method", "model/internal/frame", "model/pencil"},
	"model/fit": {"model/internal/fail",
		"model", "model/moments", "model/pencil", "model/internal/choose", "model/internal/blend",
		"model/internal/preprocess", "model/internal/method", "model/internal/frame", "model/internal/mapping",
		"model/internal/parallel"},
	"model/eval": {"model/internal/fail",
		"model", "model/score", "model/fit", "model/internal/frame", "model/internal/linalg",
		"model/internal/parallel"},

	"model/modeltest": {"internal/testsize", "model", "model/fit"},

	"model/internal/fixture": {"model", "model/internal/fail"},

	"arrowio/wire":             {},
	"arrowio/internal/flat":    {"arrowio/wire"},
	"arrowio/internal/ipc":     {"arrowio/wire", "arrowio/internal/flat"},
	"arrowio/internal/rewrite": {"arrowio/wire", "arrowio/internal/flat", "arrowio/internal/ipc"},
	"arrowio/internal/number":  {},
	"arrowio/internal/rowtext": {"arrowio/wire", "arrowio/internal/number"},
	"arrowio": {"internal/narrow", "arrowio/wire", "arrowio/internal/ipc",
		"arrowio/internal/number", "arrowio/internal/rewrite", "arrowio/internal/rowtext"},
	"arrowio/file": {"internal/narrow", "arrowio", "arrowio/wire", "arrowio/internal/flat", "arrowio/internal/ipc",
		"arrowio/internal/number"},
	"plugin/spec":             {"arrowio", "arrowio/wire", "model", "model/fit"},
	"internal/stage/evidence": {},
	"internal/stage/join":     {},
	"internal/stage/window":   {"model/moments"},
	"internal/stage/policy":   {"internal/stage/evidence", "plugin/spec"},
	"internal/stage/prequential": {"internal/stage/evidence", "internal/stage/policy", "internal/stage/window", "model",
		"model/score"},
	"internal/stage/profile": {"internal/stage/window", "plugin/spec"},
	"internal/stage/trainer": {"internal/stage/evidence", "internal/stage/policy", "internal/stage/prequential",
		"internal/stage/profile",
		"internal/stage/window", "plugin/spec", "model", "model/fit"},
	"internal/stage": {"internal/stage/join", "internal/stage/profile", "internal/stage/trainer", "internal/stage/window",
		"plugin/spec",
		"arrowio", "arrowio/wire", "model", "model/fit"},
	"plugin":             {"internal/stage", "plugin/spec", "model", "arrowio", "arrowio/wire"},
	"internal/killpoint": {},
	"internal/wildcard":  {},
	"internal/natsx":     {"internal/task", "internal/wildcard"},
	"internal/bytequeue": {},
	"internal/durable":   {},
	"internal/ratelog":   {},
	"internal/task":      {},
	"internal/cores":     {},
	"stream/registry": {"internal/durable", "internal/killpoint", "internal/natsx", "internal/task", "plugin",
		"model"},
	"stream/internal/lease":     {"internal/natsx", "internal/ratelog", "internal/task"},
	"stream/internal/summaries": {"internal/natsx"},
	"stream/spec": {"arrowio", "internal/natsx", "internal/wildcard", "stream/internal/lease", "stream/registry",
		"plugin"},
	"stream/internal/needs": {"internal/natsx", "internal/stage", "internal/wildcard", "stream/spec",
		"stream/internal/lease", "stream/internal/summaries", "stream/internal/statestore", "stream/registry", "plugin"},
	"stream/internal/statestore": {"internal/durable", "internal/natsx"},
	"stream/internal/configured": {"arrowio", "internal/natsx", "stream/internal/statestore", "stream/spec"},
	"stream/dlq":                 {"arrowio/wire", "internal/natsx"},
	"stream/admin": {"arrowio", "stream/internal/configured", "stream/internal/schema", "stream/internal/statestore",
		"internal/durable", "internal/natsx",
		"internal/wildcard", "stream/spec", "stream/internal/needs", "stream/registry",
		"stream/internal/summaries", "plugin", "arrowio/wire"},
	"stream/internal/health": {"arrowio/wire", "internal/natsx", "internal/stage/policy", "plugin", "stream/spec"},
	"stream/internal/observe": {"internal/natsx", "internal/task", "internal/wildcard", "stream/internal/health",
		"stream/internal/needs",
		"stream/internal/relay", "stream/internal/replica", "stream/internal/scope", "stream/spec"},
	"stream/internal/scope": {"arrowio", "arrowio/wire", "internal/natsx", "internal/stage", "stream/internal/health",
		"stream/internal/needs", "stream/spec"},
	"stream/internal/schema": {"arrowio", "internal/natsx", "stream/internal/statestore"},
	"stream/internal/replica": {"internal/natsx", "internal/ratelog", "internal/task", "model", "plugin",
		"stream/internal/health",
		"stream/internal/needs", "stream/internal/scope", "stream/internal/lease", "stream/registry", "stream/spec",
		"arrowio", "stream/internal/configured", "stream/internal/schema", "stream/internal/statestore"},
	"stream/internal/training": {"arrowio", "arrowio/wire", "internal/bytequeue", "internal/killpoint", "internal/natsx",
		"internal/ratelog", "internal/stage", "internal/task", "plugin", "stream/internal/health",
		"stream/internal/needs",
		"stream/internal/replica", "stream/internal/scope", "stream/internal/statestore", "stream/spec"},
	"stream/internal/blocks": {"arrowio", "stream/internal/schema", "stream/internal/statestore", "internal/natsx",
		"internal/ratelog", "internal/stage", "plugin", "stream/internal/health", "stream/internal/needs",
		"stream/internal/replica", "stream/internal/scope", "stream/internal/training", "stream/internal/summaries"},
	"stream/internal/deliveries": {"internal/natsx", "internal/task", "stream/internal/health", "stream/internal/needs",
		"stream/internal/scope", "stream/spec"},
	"stream/internal/relay": {"arrowio", "arrowio/wire", "internal/bytequeue", "internal/cores",
		"internal/killpoint", "internal/natsx", "internal/ratelog", "internal/stage", "internal/task", "internal/wildcard",
		"plugin",
		"stream/internal/deliveries", "stream/internal/health", "stream/internal/needs", "stream/internal/replica",
		"stream/internal/scope", "stream/internal/statestore", "stream/internal/training", "stream/internal/lease",
		"stream/spec"},
	"stream/internal/operations": {"arrowio", "arrowio/wire", "internal/natsx", "internal/stage", "internal/strictjson",
		"internal/wildcard", "model", "plugin", "stream/internal/needs", "stream/internal/relay", "stream/internal/replica",
		"stream/internal/scope", "stream/dlq", "stream/registry", "stream/spec"},
	"stream/internal/service": {"arrowio/wire", "internal/ratelog", "stream/internal/needs",
		"stream/internal/operations", "stream/internal/relay"},
	"stream": {"internal/natsx", "internal/stage", "internal/task", "plugin", "stream/internal/blocks",
		"stream/internal/deliveries", "stream/internal/health",
		"stream/internal/needs", "stream/internal/observe", "stream/internal/operations", "stream/internal/relay",
		"stream/internal/replica",
		"stream/internal/scope", "stream/internal/service", "stream/internal/statestore",
		"stream/internal/training", "stream/spec", "stream/internal/summaries"},
	"cmd/embedd/config": {"internal/spell", "internal/wildcard", "arrowio", "model/fit", "plugin", "stream",
		"stream/admin", "stream/registry"},
	"tools/comparison":       {"internal/cores", "model", "model/fit", "model/onnx"},
	"tools/mutate":           {},
	"tools/picture":          {},
	"tools/sbom":             {},
	"tools/soak":             {"internal/link", "arrowio/wire"},
	"tools/results":          {"tools/picture", "internal/cores", "model", "model/fit", "model/score", "model/eval"},
	"tools/learning/streams": {"cmd/embedd/data", "model"},
	"tools/learning/trial": {"tools/learning/streams", "internal/cores", "internal/stage/window", "plugin", "arrowio",
		"model", "model/fit", "model/moments", "model/score"},
	"tools/learning": {"tools/picture", "tools/learning/streams", "tools/learning/trial", "plugin", "model", "model/fit",
		"model/moments", "model/score"},
	"cmd/embedd/connection": {"internal/natsx", "cmd/embedd/config"},
	"cmd/embedd/cli":        {"internal/durable", "internal/spell"},
	"cmd/embedd/report":     {"cmd/embedd/cli"},
	"cmd/embedd/files":      {"cmd/embedd/cli", "arrowio/file", "model"},
	"cmd/embedd/dataset": {"cmd/embedd/cli", "cmd/embedd/files", "cmd/embedd/memory", "cmd/embedd/report", "arrowio",
		"arrowio/file", "arrowio/wire", "model"},
	"cmd/embedd/client": {"cmd/embedd/cli", "cmd/embedd/config", "cmd/embedd/connection", "stream",
		"stream/admin", "stream/registry"},
	"cmd/embedd/embedded": {"cmd/embedd/config", "cmd/embedd/connection", "internal/durable"},
	"cmd/embedd/engine": {"cmd/embedd/config", "cmd/embedd/embedded", "cmd/embedd/files", "stream", "stream/admin",
		"stream/registry",
		"plugin", "arrowio", "arrowio/wire", "model"},
	"cmd/embedd/console": {"internal/strictjson",
		"cmd/embedd/client", "cmd/embedd/config", "cmd/embedd/connection", "stream", "arrowio/file",
		"arrowio/wire"},
	"cmd/embedd/daemon": {"cmd/embedd/cli", "cmd/embedd/client", "cmd/embedd/config", "cmd/embedd/connection",
		"cmd/embedd/console", "cmd/embedd/embedded", "cmd/embedd/engine", "internal/ratelog", "internal/task",
		"stream"},
	"cmd/embedd/memory":  {"cmd/embedd/config"},
	"cmd/embedd/picture": {},
	"cmd/embedd/data":    {},
	"tools/bench": {"internal/cores", "cmd/embedd/connection", "cmd/embedd/embedded", "stream", "plugin", "arrowio",
		"model", "model/fit"},
	"tools/demo": {"cmd/embedd/cli", "cmd/embedd/connection", "cmd/embedd/data", "cmd/embedd/embedded",
		"cmd/embedd/files", "cmd/embedd/picture", "stream", "stream/admin", "plugin", "arrowio", "arrowio/file",
		"arrowio/wire", "model", "model/fit", "model/score"},
	"cmd/embedd": {"cmd/embedd/cli", "cmd/embedd/client", "cmd/embedd/config", "cmd/embedd/connection",
		"cmd/embedd/daemon", "cmd/embedd/dataset", "cmd/embedd/embedded", "cmd/embedd/engine", "cmd/embedd/files",
		"cmd/embedd/memory", "cmd/embedd/picture", "cmd/embedd/report", "internal/stage/policy", "tools/bench",
		"tools/demo", "stream", "stream/admin", "stream/dlq",
		"internal/durable", "internal/natsx", "internal/wildcard", "stream/registry", "arrowio", "arrowio/file",
		"arrowio/wire", "plugin", "model", "model/fit", "model/eval", "model/onnx"},
}

// ofModel lists the packages below a fitted map.
var ofModel = []string{"internal/narrow", "model/internal/fail",
	"model/internal/mapping", "model/internal/product", "model/internal/linalg",
	"model/internal/parallel", "model/internal/tile"}

// forbiddenModules lists the external modules that a package may not import, directly or indirectly, so that a host
// that embeds the package does not get them.
var forbiddenModules = map[string][]string{
	"model": {"github.com/", "go.yaml.in/", "google.golang.org/", "golang.org/x/net",
		"gonum.org/v1/gonum/optimize"},
	"model/eval":   {"github.com/", "go.yaml.in/", "google.golang.org/", "golang.org/x/net"},
	"arrowio/wire": {"github.com/", "google.golang.org/", "golang.org/x/", "gonum.org/", "go.yaml.in/"},
	"arrowio": {"github.com/nats-io/", "github.com/prometheus/", "go.yaml.in/", "github.com/parquet-go/",
		"gonum.org/", "github.com/spf13/"},
	"plugin": {"github.com/nats-io/", "github.com/prometheus/", "go.yaml.in/", "github.com/parquet-go/",
		"go.opentelemetry.io/", "google.golang.org/grpc", "github.com/spf13/"},
	"stream": {"go.yaml.in/", "github.com/parquet-go/", "github.com/nats-io/nats-server",
		"github.com/spf13/", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters",
		"go.opentelemetry.io/proto"},
	"cmd/embedd":            {"google.golang.org/grpc"},
	"arrowio/file":          {"github.com/spf13/"},
	"cmd/embedd/config":     {"github.com/spf13/", "github.com/nats-io/nats-server"},
	"cmd/embedd/connection": {"github.com/spf13/", "github.com/nats-io/nats-server"},
}

// TestArrows holds the map: imports point down, and to nothing that the map does not draw.
func TestArrows(t *testing.T) {
	for _, line := range goList(t, "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		words := strings.Fields(line)
		pkg, ok := strings.CutPrefix(words[0], module)
		if !ok || strings.HasPrefix(pkg, "examples/") || strings.HasPrefix(pkg, "integration") {
			continue
		}
		allowed, drawn := below[pkg]
		if !drawn {
			t.Errorf("package %s is not on the map; draw it in ARCHITECTURE.md and here, or put its code where it belongs", pkg)
			continue
		}
		for _, imported := range words[1:] {
			if ours, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s, and the map has no arrow for it", pkg, ours)
			}
		}
	}
}

// TestWireNames holds the names of the wire to one place.
func TestWireNames(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" ||
			strings.HasPrefix(path, filepath.Join("arrowio", "wire")+"/") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// A header is named by a whole literal; this one is split, since this file is read too.
		for _, quote := range []string{`"`, "`"} {
			if bytes.Contains(source, []byte(quote+"Embedd"+"-")) {
				t.Errorf("%s spells a header of the wire; take its name from arrowio/wire", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEmbeddingIsLight reads off what a package brings along.
func TestEmbeddingIsLight(t *testing.T) {
	for pkg, refused := range forbiddenModules {
		for _, dep := range goList(t, "-deps", "./"+pkg) {
			if strings.HasPrefix(dep, module) {
				continue
			}
			for _, prefix := range refused {
				if strings.HasPrefix(dep, prefix) {
					t.Errorf("importing %s brings %s along", pkg, dep)
				}
			}
		}
	}
}

// TestOneParallel: a panic on a goroutine that a package of the mathematics starts by itself would end the host.
// model/internal/parallel starts them all.
func TestOneParallel(t *testing.T) {
	const owner = "model/internal/parallel"
	found := map[string]int{}
	err := filepath.WalkDir("model", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		ast.Inspect(file, func(n ast.Node) bool {
			if startsGoroutine(n) {
				found[pkg]++
				if pkg != owner {
					t.Errorf("%s starts a goroutine; a panic there ends the host: let %s start it", fset.Position(n.Pos()), owner)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found[owner] == 0 {
		t.Errorf("no goroutine is started in %s: this test looks in the wrong place", owner)
	}
}

// startsGoroutine is a go statement, or a call of a method Go, as sync.WaitGroup has one.
func startsGoroutine(n ast.Node) bool {
	if call, ok := n.(*ast.CallExpr); ok {
		method, ok := call.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Go"
	}
	_, ok := n.(*ast.GoStmt)
	return ok
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// testName is a test that a page names.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)`")

// TestGuarantees checks that every test that docs/guarantees.md, SECURITY.md and ARCHITECTURE.md name exists, and that
// each promise of the first two names one.
func TestGuarantees(t *testing.T) {
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	eachGoFile(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, name := range declaration.FindAllStringSubmatch(text, -1) {
				declared[name[1]] = true
			}
		}
	})
	for page, least := range map[string]int{"docs/guarantees.md": 30, "SECURITY.md": 20, "ARCHITECTURE.md": 1} {
		text := readPage(t, page)
		named := testName.FindAllStringSubmatch(text, -1)
		if len(named) < least {
			t.Errorf("%s names %d tests", page, len(named))
		}
		for _, name := range named {
			if !declared[name[1]] {
				t.Errorf("%s names %s, which does not exist", page, name[1])
			}
		}
		if page == "ARCHITECTURE.md" {
			continue
		}
		for _, promise := range promises(text) {
			if !testName.MatchString(promise) && !strings.Contains(promise, "`go test ") {
				t.Errorf("%s: no test is named in: %s", page, promise)
			}
		}
	}
}

// promises returns the blocks of a page that promise something: paragraphs, items of lists and rows of tables, except
// the opening of the page, code, sections that promise nothing, and paragraphs that only refer to another place.
func promises(page string) (list []string) {
	_, page, _ = strings.Cut(page, "\n## ")
	for section := range strings.SplitSeq("## "+page, "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		if title == "What is not promised" || title == "Soak" {
			continue
		}
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			paragraph = strings.Trim(paragraph, "\n")
			switch {
			case paragraph == "" || strings.HasPrefix(paragraph, "    ") || strings.HasPrefix(paragraph, "[What is not"):
			case strings.HasPrefix(paragraph, "|"):
				list = append(list, strings.Split(paragraph, "\n")[2:]...) // behind its head
			default:
				list = append(list, strings.Split(paragraph, "\n- ")...)
			}
		}
	}
	return list
}

// TestInvariants checks that ARCHITECTURE.md lists the invariants 1 to 14, and that code and a test quote each of them
// by its number.
func TestInvariants(t *testing.T) {
	const count = 14
	_, listed, _ := strings.Cut(readPage(t, "ARCHITECTURE.md"), "\n## Invariants\n")
	listed, _, _ = strings.Cut(listed, "\n## ")
	numbers := regexp.MustCompile(`(?m)^ ?(\d+)\. `).FindAllStringSubmatch(listed, -1)
	for k, n := range numbers {
		if n[1] != strconv.Itoa(k+1) {
			t.Errorf("invariant %s is number %d of the list", n[1], k+1)
		}
	}
	if len(numbers) != count {
		t.Errorf("ARCHITECTURE.md lists %d invariants, want %d", len(numbers), count)
	}
	quote := regexp.MustCompile(`[Ii]nvariants? (\d+)(?: and (\d+))?`)
	inCode, inTests := map[string]bool{}, map[string]bool{}
	eachGoFile(t, func(path, text string) {
		quoted := inCode
		if strings.HasSuffix(path, "_test.go") {
			quoted = inTests
		}
		for _, q := range quote.FindAllStringSubmatch(text, -1) {
			for _, n := range q[1:] {
				if k, _ := strconv.Atoi(n); n != "" && (k < 1 || k > count) {
					t.Errorf("%s quotes invariant %s, which does not exist", path, n)
				}
				quoted[n] = true
			}
		}
	})
	for k := 1; k <= count; k++ {
		if n := strconv.Itoa(k); !inCode[n] || !inTests[n] {
			t.Errorf("invariant %d: quoted in code: %v, in a test: %v", k, inCode[n], inTests[n])
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eachGoFile calls f with each Go file of the repository.
func eachGoFile(t *testing.T, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		f(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The limits of structure: files in a reference cycle, methods of a type, files with methods of one type, and columns
// of a line.
const (
	maxCycle       = 8
	maxMethods     = 40
	maxMethodFiles = 4
	maxColumns     = 120
)

// TestFileCycles limits the reference cycles between the files of a package: files that refer to each other have to be
// read together.
func TestFileCycles(t *testing.T) {
	for _, pkg := range checkedPackages(t) {
		for _, cycle := range cycles(pkg.references()) {
			if len(cycle) > maxCycle {
				t.Errorf("%s: %d files refer to each other, the limit is %d: %s", pkg.name, len(cycle), maxCycle,
					strings.Join(cycle, " "))
			}
		}
	}
}

// TestTypeSize limits the methods of a type and the number of files that contain them.
func TestTypeSize(t *testing.T) {
	for _, pkg := range checkedPackages(t) {
		for _, name := range pkg.types.Scope().Names() {
			declared, ok := pkg.types.Scope().Lookup(name).(*types.TypeName)
			if !ok || declared.IsAlias() {
				continue
			}
			named, ok := declared.Type().(*types.Named)
			if !ok {
				continue
			}
			files := map[string]bool{}
			for m := range named.Methods() {
				files[pkg.file(m.Pos())] = true
			}
			if n := named.NumMethods(); n > maxMethods {
				t.Errorf("%s: type %s has %d methods, the limit is %d", pkg.name, name, n, maxMethods)
			}
			if len(files) > maxMethodFiles {
				t.Errorf("%s: the methods of type %s are in %d files, the limit is %d", pkg.name, name, len(files), maxMethodFiles)
			}
		}
	}
}

// TestAgesAreMonotonic: time.Unix has no monotonic reading, so that a step of the wall clock changes an age since then.
func TestAgesAreMonotonic(t *testing.T) {
	eachGoFile(t, func(path, text string) {
		if strings.Contains(text, "time.Since(time."+"Unix(") {
			t.Errorf("%s: the time.Time of time.Now has to be kept to measure an age", path)
		}
	})
}

// TestLineLength limits the length of lines, except in generated files. A tab counts as one column.
func TestLineLength(t *testing.T) {
	for path, source := range goFiles(t) {
		if generated(source) {
			continue
		}
		for i, line := range strings.Split(string(source), "\n") {
			if n := utf8.RuneCountInString(line); n > maxColumns {
				t.Errorf("%s:%d: the line has %d columns, the limit is %d", path, i+1, n, maxColumns)
			}
		}
	}
}

var (
	docLink    = regexp.MustCompile(`(?:^|[\s(])\[\*?((?:[a-zA-Z_][\w./]*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?)\](?:$|[\s).,;:'])`)
	backquoted = regexp.MustCompile("`([A-Za-z_]\\w*(?:\\.[A-Za-z_]\\w*)*)(?:\\(\\))?`")
	word       = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// TestCommentsNameWhatExists: a doc link leads to a declaration, and each part of a backquoted identifier (a word with
// a capital or a dot) is an identifier, a word of a string, or a file of the module. So it is in the pages about the
// code.
func TestCommentsNameWhatExists(t *testing.T) {
	for _, pkg := range checkedPackages(t) {
		for _, file := range pkg.syntax {
			for _, comment := range file.Comments {
				for _, link := range docLink.FindAllStringSubmatch(comment.Text(), -1) {
					if !pkg.resolves(link[1]) {
						t.Errorf("%s: nothing is declared for [%s]", pkg.fset.Position(comment.Pos()), link[1])
					}
				}
			}
		}
	}

	known, fset := map[string]bool{}, token.NewFileSet()
	var comments []*ast.CommentGroup
	for path, source := range goFiles(t) {
		known[filepath.Base(path)] = true
		file, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		comments = append(comments, file.Comments...)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				known[n.Name] = true
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					for _, w := range word.FindAllString(n.Value, -1) {
						known[w] = true
					}
				}
			}
			return true
		})
	}
	check := func(where any, text string) {
		for _, quoted := range backquoted.FindAllStringSubmatch(text, -1) {
			name := quoted[1]
			if known[name] || strings.ToLower(name) == name && !strings.Contains(name, ".") {
				continue
			}
			for _, part := range strings.Split(name, ".") {
				if !known[part] {
					t.Errorf("%s: `%s` does not exist", where, name)
					break
				}
			}
		}
	}
	for _, comment := range comments {
		check(fset.Position(comment.Pos()), comment.Text())
	}
	for _, page := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/evidence/mutants.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		check(page, string(text))
	}
}

// goFiles reads the Go files of the module, tests included.
func goFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func generated(source []byte) bool {
	return regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`).Match(source)
}

// checkedPackage is a package of the module with its types, tests excluded.
type checkedPackage struct {
	name     string
	fset     *token.FileSet
	syntax   []*ast.File
	types    *types.Package
	uses     map[*ast.Ident]types.Object
	imported types.Importer
	exports  map[string]string
}

// checkedPackages type-checks the packages of the module once for all tests, against the export data of what they
// import.
func checkedPackages(t *testing.T) []checkedPackage {
	t.Helper()
	pkgs, err := checkOnce()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

var checkOnce = sync.OnceValues(func() ([]checkedPackage, error) {
	out, err := exec.Command("go", "list", "-export", "-deps",
		"-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports, fset := map[string]string{}, token.NewFileSet()
	imported := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var pkgs []checkedPackage
	for line := range strings.Lines(strings.TrimSpace(string(out))) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		path := fields[0]
		exports[path] = fields[1]
		name, ours := strings.CutPrefix(path, module)
		if !ours || len(fields) < 4 {
			continue
		}
		pkg := checkedPackage{name: name, fset: fset, imported: imported, exports: exports,
			uses: map[*ast.Ident]types.Object{}}
		for _, base := range strings.Fields(fields[3]) {
			file, err := parser.ParseFile(fset, filepath.Join(fields[2], base), nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			pkg.syntax = append(pkg.syntax, file)
		}
		config := types.Config{Importer: imported}
		if pkg.types, err = config.Check(path, fset, pkg.syntax, &types.Info{Uses: pkg.uses}); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, pkg)
	}
	return pkgs, nil
})

func (p checkedPackage) file(pos token.Pos) string {
	return filepath.Base(p.fset.Position(pos).Filename)
}

// references are the files that each file refers to: by a declaration of the package, a field, or a method.
func (p checkedPackage) references() map[string][]string {
	refs := map[string][]string{}
	for ident, object := range p.uses {
		if object.Pkg() != p.types {
			continue
		}
		if object.Parent() != p.types.Scope() {
			field, isVar := object.(*types.Var)
			method, isFunc := object.(*types.Func)
			if !(isVar && field.IsField() || isFunc && method.Signature().Recv() != nil) {
				continue
			}
		}
		from, to := p.file(ident.Pos()), p.file(object.Pos())
		if from != to && !slices.Contains(refs[from], to) {
			refs[from] = append(refs[from], to)
		}
	}
	return refs
}

// cycles are the strongly connected components of more than one node, by Tarjan's algorithm.
func cycles(edges map[string][]string) [][]string {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var found [][]string
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		at := len(stack)
		stack, onStack[v] = append(stack, v), true
		for _, w := range edges[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		component := slices.Clone(stack[at:])
		for _, w := range component {
			onStack[w] = false
		}
		if stack = stack[:at]; len(component) > 1 {
			slices.Sort(component)
			found = append(found, component)
		}
	}
	for v := range edges {
		if index[v] == 0 {
			visit(v)
		}
	}
	return found
}

// resolves reports whether a doc link has a target: Name, Type.Member, or either behind a package that the package
// imports, by its name or path.
func (p checkedPackage) resolves(link string) bool {
	parts := strings.Split(link[strings.LastIndex(link, "/")+1:], ".")
	if declares(p.types, parts) || parts[0] == p.types.Name() && declares(p.types, parts[1:]) {
		return true
	}
	path := strings.TrimSuffix(link, "."+strings.Join(parts[1:], "."))
	for _, file := range p.syntax {
		for _, spec := range file.Imports {
			of, _ := strconv.Unquote(spec.Path.Value)
			other, err := p.imported.Import(of)
			if err == nil && (other.Name() == path || of == path || spec.Name != nil && spec.Name.Name == path) &&
				declares(other, parts[1:]) {
				return true
			}
		}
	}
	if p.exports[path] == "" {
		return false
	}
	other, err := p.imported.Import(path)
	return err == nil && declares(other, parts[1:])
}

// declares reports whether a package has a declaration, or a declaration with a member.
func declares(pkg *types.Package, parts []string) bool {
	if len(parts) == 0 || len(parts) > 2 {
		return false
	}
	object := pkg.Scope().Lookup(parts[0])
	if object == nil || len(parts) == 1 {
		return object != nil
	}
	member, _, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, parts[1])
	return member != nil
}
