package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/doctable"
)

// TestDoorsAreDocumented: the page about models has the table of doors.
func TestDoorsAreDocumented(t *testing.T) {
	table := []string{"| Door | Models that may use it | Shown before | Key | Closed by | Epoch of the outputs |",
		"|---|---|---|---|---|---|"}
	for _, d := range Doors {
		key := d.Key
		if key != "" {
			key = "`" + key + "`"
		}
		table = append(table, strings.ReplaceAll(fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", d.Name, d.Models,
			d.Shown, key, d.Closed, d.Epoch), "  ", " "))
	}
	doctable.CheckTable(t, "../../../docs/models.md", table)
}
