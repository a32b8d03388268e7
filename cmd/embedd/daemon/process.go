package daemon

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/console"
)

// Build identifies the source and the compiler of the program. It is what `embedd version` prints.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`     // of the revision, RFC 3339
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is the text form.
func (b Build) String() string {
	text := fmt.Sprintf("embedd %s\n", b.Version)
	if b.Revision != "" {
		modified := ""
		if b.Modified {
			modified = " (modified)"
		}
		text += fmt.Sprintf("revision %s%s\n", b.Revision, modified)
	}
	if b.Date != "" {
		text += fmt.Sprintf("date %s\n", b.Date)
	}
	return text + fmt.Sprintf("%s %s\n", b.Go, b.Platform)
}

// processMetric is a metric of the process, which has no label for a pipeline.
type processMetric struct {
	name, help string
	kind       prometheus.ValueType
	labels     prometheus.Labels
	read       func() float64
}

// processMetrics are the metrics of the process, in addition to those of the pipelines. conn returns nil until the
// first connection exists.
func processMetrics(b Build, conn func() *connection.Conn, page *console.Console) []processMetric {
	return []processMetric{
		{"embedd_build_info", "Always 1; the labels say from what the program was built.", prometheus.GaugeValue,
			prometheus.Labels{"version": b.Version, "revision": b.Revision, "date": b.Date, "goversion": b.Go},
			func() float64 { return 1 }},
		{"embedd_nats_connected", "1 while the process is connected to a NATS server.", prometheus.GaugeValue, nil,
			func() float64 {
				if c := conn(); c != nil && c.IsConnected() {
					return 1
				}
				return 0
			}},
		{"embedd_nats_reconnects_total", "Connections to a NATS server after the first one.", prometheus.CounterValue, nil,
			func() float64 {
				if c := conn(); c != nil {
					return float64(c.Stats().Reconnects)
				}
				return 0
			}},
		{"embedd_console_clients", "Open event streams of the console.", prometheus.GaugeValue, nil, func() float64 {
			connected, _ := page.Clients()
			return float64(connected)
		}},
		{"embedd_console_disconnects_total", "Event streams that were closed because their clients did not read.",
			prometheus.CounterValue, nil, func() float64 {
				_, dropped := page.Clients()
				return float64(dropped)
			}},
	}
}

// collect registers the metrics of the process.
func collect(r prometheus.Registerer, all []processMetric) {
	for _, m := range all {
		if m.kind == prometheus.CounterValue {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: m.name, Help: m.help, ConstLabels: m.labels},
				m.read))
			continue
		}
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.name, Help: m.help, ConstLabels: m.labels},
			m.read))
	}
}
