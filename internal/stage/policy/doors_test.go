package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/doctable"
	"github.com/embedd/embedd/plugin/spec"
)

// TestDoorsAreDocumented: the page about models has the table of doors. A long text of an earlier door is not repeated.
func TestDoorsAreDocumented(t *testing.T) {
	table := []string{"| Door | Models that may use it | Shown before | Key | Closed by | Epoch of the outputs |",
		"|---|---|---|---|---|---|"}
	first := map[string]string{} // door by its text
	once := func(d Door, text string) string {
		named := strings.ReplaceAll(text, d.Key, "")
		if len(text) < 100 || first[named] == "" {
			first[named] = d.Name
			return text
		}
		if named != text && d.Key != "" {
			return "as for `" + first[named] + "`, with the key of this door"
		}
		return "as for `" + first[named] + "`"
	}
	for _, d := range Doors {
		key := d.Key
		if key != "" {
			key = "`" + key + "`"
		}
		table = append(table, strings.ReplaceAll(fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", d.Name, d.Models,
			once(d, d.Shown), key, d.Closed, once(d, d.Epoch)), "  ", " "))
	}
	doctable.CheckTable(t, "../../../docs/models.md", table)
}

// TestDoorOf: a candidate from more rows, or with a new class, has the door that asks for less evidence; one that is
// closed is none.
func TestDoorOf(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		gate               spec.Gate
		moreRows, newClass bool
		want               string
	}{
		{spec.Gate{Evidence: 100}, false, false, DoorBetter}, {spec.Gate{Evidence: 100}, true, false, DoorMoreRows},
		{spec.Gate{Evidence: 100}, false, true, DoorNewClass}, {spec.Gate{Evidence: 100}, true, true, DoorMoreRows},
		{spec.Gate{Evidence: 100, NewClass: 9}, true, true, DoorNewClass},
		{spec.Gate{Evidence: 100, NewClass: 11}, true, true, DoorMoreRows},
		{spec.Gate{Evidence: 100, MoreRows: inf}, true, false, DoorBetter},
		{spec.Gate{Evidence: 100, MoreRows: inf}, true, true, DoorNewClass},
	} {
		if got := DoorOf(c.gate, c.moreRows, c.newClass); got != c.want {
			t.Errorf("%+v: door %s", c, got)
		}
	}
	g := spec.Gate{Evidence: 100, Margin: 0.02}
	for door, want := range map[string]float64{DoorBetter: 0.025, DoorMoreRows: 0.01, DoorNewClass: 0.01,
		DoorFollowing: 0.025} {
		c := NewComparison(g, door)
		if c.Door != door || !near(c.Test.Margin, want) || !near(c.Nearest.Margin, want) ||
			c.IsNonInferiority() != (door != DoorBetter) || !c.IsOpen(g) {
			t.Errorf("door %s: %+v, want a margin of %g", door, c, want)
		}
	}
	if c := (&Comparison{Test: capital(3, 1), HeldOut: HeldOut{Evidence: 4}}); !near(c.Evidence(), 4) {
		t.Errorf("evidence %g", c.Evidence())
	}
	if want := []string{DoorBootstrap, DoorFirst, DoorBetter, DoorMoreRows, DoorNewClass, DoorFollowing}; !slices.Equal(
		TrainedDoors(), want) {
		t.Errorf("doors %v", TrainedDoors())
	}
}
