package daemon

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/internal/doctable"
)

// TestProcessMetrics checks that the metrics of the process exist before there is a connection, and that
// docs/metrics.md has a row for each.
func TestProcessMetrics(t *testing.T) {
	all := processMetrics(Build{Version: "v1"}, func() *connection.Conn { return nil }, idle())
	r := prometheus.NewRegistry()
	collect(r, all)
	families, err := r.Gather()
	if err != nil || len(families) != len(all) {
		t.Fatalf("%d of %d metrics: %v", len(families), len(all), err)
	}
	var entries []doctable.Entry
	for _, m := range all {
		labels := ""
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(slices.Sorted(maps.Keys(m.labels)), "`, `") + "` "
		}
		entries = append(entries, doctable.Entry{Name: m.name, Row: labels + "| " + m.help})
	}
	doctable.Check(t, "../../../docs/metrics.md", regexp.MustCompile(`embedd_(build|console|nats)_\w+`), entries)
}
