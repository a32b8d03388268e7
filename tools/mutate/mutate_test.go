package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample is a module whose mutants have known outcomes.
var sample = map[string]string{
	"go.mod": "module sample\n\ngo 1.26.0\n",
	"limit/limit.go": `package limit

// Max is used by another package.
const Max = 40

const Half = Max / 2

var Table = []int{7, 8}

type box[T any] struct{ held []T }

func (b *box[T]) put(_ string, more ...T) int {
	for _, m := range more {
		b.held = append(b.held, m)
	}
	return len(b.held)
}

func First[T any](a, b T) T { return a }

func Clamp(x int, _ bool) int {
	if x > Max {
		x = Max
	}
	if x < 0 && Unreached() {
		return -1
	}
	return x
}

func Unreached() bool { panic("no test calls this") }

func Put() int { return new(box[int]).put("", 1, 2) }

func Difference(a, b int) int { return a - b }

func Seven() int { return Difference(9, 2) }
`,
	"limit/limit_test.go": `package limit

import "testing"

func TestClamp(t *testing.T) {
	for x, want := range map[int]int{10: 10, 40: 40, 50: 40} {
		if got := Clamp(x, true); got != want {
			t.Errorf("Clamp(%d) = %d", x, got)
		}
	}
}

func TestPut(t *testing.T) {
	if Put() != 2 {
		t.Error("two values were put")
	}
}

func TestGoldenTable(t *testing.T) {
	if Table[0] != 7 || First(1, 2) != 1 || Seven() != 7 {
		t.Error("the table changed")
	}
}
`,
	"user/user.go": `package user

import "sample/limit"

type row [limit.Half]byte

func Room(n int) int { return limit.Max - n }
`,
	"user/user_test.go": `package user_test

import (
	"testing"

	"sample/limit"
	"sample/user"
)

func TestRoom(t *testing.T) {
	if user.Room(30) != 10 {
		t.Error("there is room for ten")
	}
}

func TestRoomFollowsTheLimit(t *testing.T) {
	if user.Room(0) != limit.Max {
		t.Error("the whole limit is room")
	}
}
`,
}

func writeSample(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range sample {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func loadSample(t *testing.T, root string) (*tree, []*mutant) {
	t.Helper()
	read, err := load(root, []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	return read, candidates(read.files, read.root)
}

// TestOutcomes runs all mutants of the sample and compares those with a known outcome.
func TestOutcomes(t *testing.T) {
	root := writeSample(t)
	read, all := loadSample(t, root)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := &run{tree: read, work: t.TempDir(), log: log, started: time.Now(), budget: time.Minute, workers: 2,
		names: regexp.MustCompile("")}
	outcomes, err := r.outcomes(all, len(all))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range outcomes {
		got[o.In+": "+o.From+" -> "+o.To] = strings.TrimSpace(o.Status + " " + o.Test)
	}
	for mutation, want := range map[string]string{
		"Half: Max / 2 -> Max * 2":                                                "", // a part of a type
		"Clamp: x > Max -> x >= Max":                                              "survived",
		"Clamp: x > Max -> false && (x > Max)":                                    "killed limit.TestClamp",
		"Clamp: x > Max -> true || (x > Max)":                                     "killed limit.TestClamp",
		"Clamp: x < 0 && Unreached() -> x < 0 || Unreached()":                     "killed limit.TestClamp",
		"Clamp: 1 -> (1*10)":                                                      "survived",
		"Clamp: x -> 0*(x)":                                                       "killed limit.TestClamp",
		"box.put: b.held = append(b.held, m) -> _, _ = b, m":                      "killed limit.TestPut",
		"box.put: len(b.held) -> 0*(len(b.held))":                                 "killed limit.TestPut",
		"Table: 7 -> (7*10)":                                                      "killed by a digest limit.TestGoldenTable",
		"Table: 8 -> (8*10)":                                                      "survived",
		"Seven: Difference(9, 2) -> Difference(2, 9)":                             "killed by a digest limit.TestGoldenTable",
		"Difference: a - b -> a + b":                                              "killed by a digest limit.TestGoldenTable",
		"Room: limit.Max - n -> limit.Max + n":                                    "killed user.TestRoom",
		"Put: new(box[int]).put(\"\", 1, 2) -> 0*(new(box[int]).put(\"\", 1, 2))": "killed limit.TestPut",
	} {
		if got[mutation] != want {
			t.Errorf("%s: %q, want %q", mutation, got[mutation], want)
		}
	}
	for name, text := range sample {
		now, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(now) != text {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

// TestConstantOfAnotherPackage: a mutated constant changes every package that uses it, tests included.
func TestConstantOfAnotherPackage(t *testing.T) {
	sampleWithoutType := writeSample(t)
	user := filepath.Join(sampleWithoutType, "user", "user.go")
	text := strings.Replace(sample["user/user.go"], "type row [limit.Half]byte\n", "", 1)
	if err := os.WriteFile(user, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	read, all := loadSample(t, sampleWithoutType)
	var queue []*mutant
	for _, m := range all {
		if m.In == "Max" && m.To == "(40*10)" {
			queue = append(queue, m)
		}
	}
	if len(queue) != 1 {
		t.Fatalf("%d mutants of the constant, want 1", len(queue))
	}
	queue[0].number = 1
	o, rejected := schemata(read, queue)
	if len(rejected) > 0 {
		t.Fatal("the constant was rejected")
	}
	for name, want := range map[string]string{
		"limit/limit.go":    "const M1_Half = M1_Max / 2",
		"user/user.go":      "func M1_Room(n int) int { return limit.M1_Max - n }",
		"user/user_test.go": "user.Room(0) != limit.M1_Max",
	} {
		if got := string(o.text[filepath.Join(read.root, name)]); !strings.Contains(got, want) {
			t.Errorf("%s has no %q:\n%s", name, want, got)
		}
	}
}

// TestDraw: a draw is a function of the seed, has all kinds alike, and keeps its mutants when other code changes.
func TestDraw(t *testing.T) {
	root := writeSample(t)
	_, all := loadSample(t, root)
	first, second := draw(all, 12, 1), draw(all, 12, 1)
	if len(first) != 12 || !slices.Equal(first, second) {
		t.Fatalf("%d mutants, then %d others", len(first), len(second))
	}
	if slices.Equal(first, draw(all, 12, 2)) {
		t.Error("two seeds draw the same mutants")
	}
	used := map[string]bool{}
	for _, m := range first {
		used[m.Kind] = true
	}
	if len(used) < 8 {
		t.Errorf("12 mutants are of %d kinds", len(used))
	}
	file := filepath.Join(root, "limit", "limit.go")
	text := strings.Replace(sample["limit/limit.go"], "func Put()", "func More() int { return 1 }\n\nfunc Put()", 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, changed := loadSample(t, root)
	var ids, after []string
	for _, m := range first {
		ids = append(ids, m.ID)
	}
	for _, m := range draw(changed, len(changed), 1) {
		if slices.Contains(ids, m.ID) {
			after = append(after, m.ID)
		}
	}
	if !slices.Equal(ids, after) {
		t.Errorf("after a change of other code the draw has %v, want %v", after, ids)
	}
}

func TestChooseByID(t *testing.T) {
	all := []*mutant{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	got, err := choose(all, 1, 1, "c,a")
	if err != nil || len(got) != 2 || got[0].ID != "c" || got[1].ID != "a" {
		t.Errorf("choose = %v, %v", got, err)
	}
	if _, err := choose(all, 1, 1, "d"); err == nil || !strings.Contains(err.Error(), `no mutant has the id "d"`) {
		t.Errorf("an unknown id gives %v", err)
	}
}

// TestTable counts what it lists.
func TestTable(t *testing.T) {
	m := &mutant{ID: "1f", File: "a.go", Line: 3, In: "f", Kind: "logic", From: "a || b", To: "a && b"}
	got := table([]outcome{{mutant: m, Status: "killed", Test: "a.TestF", How: "panic"},
		{mutant: m, Status: "survived", Reached: 4, Run: 2}})
	for _, want := range []string{"`a \\|\\| b`", "a.TestF (panic)", "2 of 4 tests", "2 mutants: 1 killed"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestLoadNamesTheError: a package that does not compile is an error that names it.
func TestLoadNamesTheError(t *testing.T) {
	root := writeSample(t)
	text := sample["user/user.go"] + "\nvar x int = \"\"\n"
	if err := os.WriteFile(filepath.Join(root, "user", "user.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := load(root, []string{"./..."})
	if err == nil || !strings.Contains(err.Error(), "package sample/user does not compile") {
		t.Errorf("load gives %v", err)
	}
}

// TestPageNeedsAllConstants: what is not run would lose its row.
func TestPageNeedsAllConstants(t *testing.T) {
	for _, args := range [][]string{{"-page", "x.md", "-only", "a"}, {"-page", "x.md", "-constants", "-run", "TestA"}} {
		if err := mutate(args); err == nil || !strings.Contains(err.Error(), "it needs -constants") {
			t.Errorf("%v gives %v", args, err)
		}
	}
}

// TestPage: rows of the packages that ran are replaced, and others stay.
func TestPage(t *testing.T) {
	constant := func(name, kind, test string) outcome {
		return outcome{mutant: &mutant{File: "model/x/a.go", In: name, Named: name, Kind: kind, From: "8", Why: "a | b"},
			Test: test}
	}
	page := "# Page\n\n" + noticed + "| `model/x old` | `1` | | TestOld | - |\n" +
		"| `model/y kept` | `2` | | TestY | - |\n\n## Cost\n\n" + unnoticed + "| `model/x cost` | `3` | |\n"
	got, err := withRows(page, []outcome{constant("most", "constant times ten", "model/x.TestMost"),
		constant("most", "tenth of a constant", "model.TestLeast"), constant("size", "constant times ten", "")})
	want := "# Page\n\n" + noticed + "| `model/x most` | `8` | a \\| b | TestMost | TestLeast |\n" +
		"| `model/y kept` | `2` | | TestY | - |\n\n## Cost\n\n" + unnoticed + "| `model/x size` | `8` | a \\| b |\n"
	if err == nil && got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := withRows("# Page\n", nil); err == nil {
		t.Error("a page without tables is no error")
	}
}
