package health

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/stream/spec"
)

// rowsOf returns the rows of the tables of a section of docs/operations.md whose first cell has names in backquotes:
// the names, and the second cell.
func rowsOf(t *testing.T, section string) (names, second []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	for line := range strings.Lines(text) {
		cells := strings.Split(line, " | ")
		if first, isRow := strings.CutPrefix(cells[0], "| `"); isRow && len(cells) > 1 {
			for name := range strings.SplitSeq(strings.TrimSuffix(first, "`"), "`, `") {
				names, second = append(names, name), append(second, cells[1])
			}
		}
	}
	return names, second
}

// TestConditionsAreDocumented: docs/operations.md lists the conditions, with what each blocks.
func TestConditionsAreDocumented(t *testing.T) {
	names, blocks := rowsOf(t, "Conditions")
	for _, c := range componentTable {
		at := slices.Index(names, c.Name)
		if at < 0 || blocks[at] != strings.ReplaceAll(string(c.Blocks), "_", " ") {
			t.Errorf("docs/operations.md does not say that condition %s blocks %s", c.Name, c.Blocks)
		}
	}
	if len(componentTable) != maxComponents {
		t.Errorf("maxComponents is %d, of %d", maxComponents, len(componentTable))
	}
	if len(names) != len(componentTable) {
		t.Errorf("docs/operations.md lists %d conditions, of %d: %q", len(names), len(componentTable), names)
	}
}

// TestStatesAreDocumented: docs/operations.md lists the states in their order, with whether a pipeline is ready.
func TestStatesAreDocumented(t *testing.T) {
	names, ready := rowsOf(t, "States")
	if len(names) != len(spec.States) {
		t.Fatalf("docs/operations.md lists %q, not %q", names, spec.States)
	}
	for i, state := range spec.States {
		if want := map[bool]string{true: "yes", false: "no"}[state.Ready()]; names[i] != string(state) || ready[i] != want {
			t.Errorf("row %d of docs/operations.md is %s, %s, not %s, %s", i, names[i], ready[i], state, want)
		}
	}
}

// TestStatesAreInOrder: of the states that apply, the first of spec.States is reported.
func TestStatesAreInOrder(t *testing.T) {
	s, f := &spec.Status{}, Facts{IsDraining: true, Blocked: "no server"}
	s.Halted = "bad messages"
	var got []spec.State
	for _, end := range []func(){func() { f.IsDraining = false }, func() { s.Halted = "" }, func() { f.Blocked = "" },
		func() { f.IsInspected = true }, func() {}} {
		state, _ := Derive(s, f)
		got = append(got, state)
		end()
	}
	if want := spec.States[:len(got)]; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
