package stream

import (
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/plugin"
)

// stages are the figures of how pipelines stand, read from each when somebody asks for them. Engines that share a
// registerer share one.
type stages struct {
	mu   sync.Mutex
	read map[string]func() Status // by pipeline
}

func newStages() *stages { return &stages{read: map[string]func() Status{}} }

func (s *stages) add(pipeline string, read func() Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read[pipeline] = read
}

func (s *stages) remove(pipeline string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, pipeline)
}

// figure is one metric of a pipeline.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(Status) []value
}

// learned makes a figure of the stage one of the pipeline.
func learned(of func(plugin.Status) []value) func(Status) []value {
	return func(s Status) []value { return of(s.Stage) }
}

// value is a figure with its labels beside the pipeline; one that is not a number is left out.
type value struct {
	labels []string
	number float64
}

func one(v float64) []value { return []value{{number: v}} }

// counted is a figure of what this replica counts for all.
func counted(s Status, v float64) []value {
	if !s.Counted {
		return nil
	}
	return one(v)
}

func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

var figures = []figure{
	{describe("embedd_ready", "1 while an input would be answered now."), prometheus.GaugeValue,
		func(s Status) []value { return one(truth(s.Ready)) }},
	{describe("embedd_state", "1 for the state of the pipeline, 0 for the others.", "state"), prometheus.GaugeValue,
		func(s Status) (out []value) {
			for _, state := range States {
				out = append(out, value{[]string{string(state)}, truth(s.State == state)})
			}
			return out
		}},
	{describe("embedd_role", "1 for what this process does of the pipeline: learn (it holds the lease, or there are none), standby (it is ready to), transform (it only answers), 0 for the rest.", "role"),
		prometheus.GaugeValue, func(s Status) (out []value) {
			is := "transform"
			if s.Learns {
				is = "learn"
			} else if s.Role != RoleTransform && !s.FixedModel {
				is = "standby"
			}
			for _, role := range []string{"learn", "standby", "transform"} {
				out = append(out, value{[]string{role}, truth(role == is)})
			}
			return out
		}},
	{describe("embedd_lease_term", "Term of the lease under which this process learns; 0: it does not, or there are none."),
		prometheus.GaugeValue, func(s Status) []value { return one(float64(s.Term)) }},
	{describe("embedd_model_revision", "Revision of the model store's pointer that this process lives with."),
		prometheus.GaugeValue, func(s Status) []value { return one(float64(s.Revision)) }},
	{describe("embedd_lag_messages", "Input messages that are not answered. Of the replicas of a pipeline one has the series, which learns."),
		prometheus.GaugeValue, func(s Status) []value { return counted(s, float64(s.Lag)) }},
	{describe("embedd_lag_seconds", "Age of the oldest input message that is not answered; 0 where there is none. One replica has the series."),
		prometheus.GaugeValue, func(s Status) []value { return counted(s, s.Oldest.Seconds()) }},
	{describe("embedd_busy_ratio", "Share of the last ten seconds or so in which there was an input to answer; at 1 the process keeps up no longer."),
		prometheus.GaugeValue, func(s Status) []value { return one(s.Busy) }},
	{describe("embedd_partitions_held", "Partitions of the input that this process holds; one series for each pipeline with input.partitions. One more is what the stream has without a partition."),
		prometheus.GaugeValue, func(s Status) []value {
			if s.Held == nil {
				return nil
			}
			return one(float64(*s.Held))
		}},
	{describe("embedd_fits_total", "Models that were fitted, candidates included."), prometheus.CounterValue,
		learned(func(s plugin.Status) []value { return one(float64(s.Fits)) })},
	{describe("embedd_prequential_accuracy",
		"Share of the last 500 to 1,000 labelled rows whose class the live model's outputs told before they were learned; of the candidate for which most speaks; and what chance would have.", "model"),
		prometheus.GaugeValue, learned(func(s plugin.Status) []value {
			return []value{{[]string{"live"}, s.Accuracy}, {[]string{"candidate"}, s.Candidate},
				{[]string{"chance"}, s.Chance}}
		})},
	{describe("embedd_evidence", "What speaks for the best candidate; training.gate.evidence is when it goes live."),
		prometheus.GaugeValue, learned(func(s plugin.Status) []value { return one(s.Evidence) })},
	{describe("embedd_drift_alarms_total", "Changes of the rows that cut the window."), prometheus.CounterValue,
		learned(func(s plugin.Status) []value { return one(float64(s.Alarms)) })},
	{describe("embedd_window_rows", "Labelled rows in the window, of its largest class, and of classes that have too few to enter a fit.", "class"),
		prometheus.GaugeValue, learned(func(s plugin.Status) []value {
			return []value{{[]string{"all"}, float64(s.Rows)}, {[]string{"largest"}, float64(s.Largest)},
				{[]string{"sparse"}, float64(s.Sparse)}}
		})},
	{describe("embedd_window_classes", "Classes that have rows in the window."), prometheus.GaugeValue,
		learned(func(s plugin.Status) []value { return one(float64(s.Classes)) })},
	{describe("embedd_window_bytes", "Memory of the window, as training.window.bytes bounds it."),
		prometheus.GaugeValue,
		learned(func(s plugin.Status) []value { return one(float64(s.Bytes)) })},
	{describe("embedd_set_aside_messages", "Input messages that are not learned from, since the process died each time that it did."),
		prometheus.GaugeValue, func(s Status) []value { return one(float64(s.SetAside)) }},
	{describe("embedd_learning_stopped", "1 while nothing is learned, since the process died of it again and again."),
		prometheus.GaugeValue, func(s Status) []value { return one(truth(s.Stopped)) }},
	{describe("embedd_learn_backlog_rows", "Labelled rows that wait to be learned from."), prometheus.GaugeValue,
		learned(func(s plugin.Status) []value { return one(float64(s.Backlog)) })},
	{describe("embedd_unlearned_rows_total",
		"Labelled rows that were not learned from, by reason: they came too fast (backlog), their class was one too many (classes), or a feature is too far from where the others have it (far).", "reason"),
		prometheus.CounterValue, learned(func(s plugin.Status) []value {
			return []value{{[]string{"backlog"}, float64(s.Dropped)}, {[]string{"classes"}, float64(s.Overfull)},
				{[]string{"far"}, float64(s.Far)}}
		})},
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"pipeline"}, labels...), nil)
}

// Describe is that of a prometheus.Collector.
func (s *stages) Describe(out chan<- *prometheus.Desc) {
	for _, f := range figures {
		out <- f.desc
	}
}

// Collect is that of a prometheus.Collector.
func (s *stages) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	read := make(map[string]func() Status, len(s.read))
	for name, f := range s.read {
		read[name] = f
	}
	s.mu.Unlock()
	for name, status := range read {
		now := status()
		for _, f := range figures {
			for _, v := range f.of(now) {
				if !math.IsNaN(v.number) {
					out <- prometheus.MustNewConstMetric(f.desc, f.kind, v.number,
						append([]string{name}, v.labels...)...)
				}
			}
		}
	}
}
