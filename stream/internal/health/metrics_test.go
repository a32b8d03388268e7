package health

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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

// TestMetricsPage checks that docs/metrics.md names exactly the registered metrics.
func TestMetricsPage(t *testing.T) {
	r := prometheus.NewRegistry()
	if _, err := NewRegistry(r); err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 1000)
	r.Describe(descs)
	close(descs)
	var there []string
	for d := range descs {
		there = append(there, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(embedd_\\w+)`").FindAllStringSubmatch(string(page), -1) {
		named = append(named, match[1])
	}
	slices.Sort(there)
	slices.Sort(named)
	if !slices.Equal(there, named) {
		t.Errorf("there are\n%v\nand the page has\n%v", there, named)
	}
}
