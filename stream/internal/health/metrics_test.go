package health

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/internal/doctable"
	"github.com/embedd/embedd/stream/spec"
)

// TestTwoEnginesOneRegistry checks that a second engine shares the collectors of the first (Invariant 9).
func TestTwoEnginesOneRegistry(t *testing.T) {
	r := prometheus.NewRegistry()
	for _, pipeline := range []string{"a", "b"} {
		m, err := NewRegistry(r)
		if err != nil {
			t.Fatal(err)
		}
		m.Series(pipeline, false, false).Answered("out", RowCounts{}, 0)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "embedd_messages_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			counted[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
		}
	}
	if counted["a out"] != 1 || counted["b out"] != 1 || len(counted) != 8 {
		t.Errorf("the registry has %v", counted)
	}
}

// TestForeignMetric checks that a metric of another kind under one of the names is an error, not a panic.
func TestForeignMetric(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_messages_total",
		Help: "Input messages by what became of them: out, dead or skip."}, []string{"pipeline", "result"}))
	if _, err := NewRegistry(r); err == nil {
		t.Error("a gauge serves as a counter")
	}
}

// TestMetricsPage checks that docs/metrics.md has a row for each metric, and for nothing else.
func TestMetricsPage(t *testing.T) {
	var entries []doctable.Entry
	for _, m := range metrics {
		entries = append(entries, entry(m.name, m.help, m.labels))
	}
	for _, m := range statusGauges(spec.Status{}) {
		entries = append(entries, entry(m.name, m.help, m.labels))
	}
	for _, name := range []string{"embedd_build_info", "embedd_nats_connected", "embedd_nats_reconnects_total",
		"embedd_console_clients", "embedd_console_disconnects_total"} {
		entries = append(entries, doctable.Entry{Name: name}) // of the process, in cmd/embedd/daemon
	}
	doctable.Check(t, "../../../docs/metrics.md", regexp.MustCompile(`embedd_\w+`), entries)
}

func entry(name, help string, labels []string) doctable.Entry {
	cell := "| "
	if len(labels) > 0 {
		cell = "`" + strings.Join(labels, "`, `") + "` | "
	}
	return doctable.Entry{Name: name, Row: cell + help}
}

// TestInvalidLabels: an edge name that is not UTF-8 does not make a scrape fail.
func TestInvalidLabels(t *testing.T) {
	registry := prometheus.NewRegistry()
	g, err := NewRegistry(registry)
	if err != nil {
		t.Fatal(err)
	}
	g.Series("p", false, false).Add(EdgeSummaries, 1, "a\xffb", "learned")
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "embedd_edge_summaries_total" && m.GetMetric()[0].GetLabel()[0].GetValue() == "a\uFFFDb" {
			return
		}
	}
	t.Errorf("no series of the edge: %v", all)
}
