package health

import (
	"errors"
	"fmt"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metric describes one metric that the pipelines move. The table below lists all of them; what is read from a Status
// when Prometheus scrapes is in the table of gauges. Names and labels are part of the public contract.
type Metric struct {
	name, help string
	kind       kind
	labels     []string // in addition to the pipeline
	buckets    []float64
	of         feature
	starts     [][]string // label values of the series that exist, at zero, from the start
}

type kind uint8

const (
	counter kind = iota
	gauge
	histogram
)

// feature says for which pipelines the series of a metric exist from the start.
type feature uint8

const (
	always feature = iota
	onDemand
	lateLabels
	summaries
)

// each is one series for each value of a single label.
func each(values ...string) (starts [][]string) {
	for _, v := range values {
		starts = append(starts, []string{v})
	}
	return starts
}

func eachCode() (starts [][]string) {
	for _, code := range wire.Codes {
		starts = append(starts, []string{string(code)})
	}
	return starts
}

var single = [][]string{{}}

// The metrics. A new one is an entry here, a line in docs/metrics.md, and a call to Series where its value changes.
var (
	Messages = define(Metric{name: "embedd_messages_total", labels: []string{"result"},
		help:   "Input messages by result: out, dead, skip, or pass while the model is stale.",
		starts: each("out", "dead", "skip", "pass")})
	Rows = define(Metric{name: "embedd_rows_total", labels: []string{"result"},
		help:   "Rows by result: out, dead, skip, or pass while the model is stale.",
		starts: each("out", "dead", "skip", "pass")})
	Dropped = define(Metric{name: "embedd_dropped_messages_total", labels: []string{"path"},
		help: "Messages dropped: on core NATS from a full queue (path answer); from the training queue where the input " +
			"can be read only once, or deleted from the input stream before training read them (path learn).",
		starts: each(PathAnswer, PathLearn)})
	ReadMessages = define(Metric{name: "embedd_read_messages_total", labels: []string{"path"},
		help:   "Messages read from the input stream, to answer them (path answer) or for training (path learn).",
		starts: each(PathAnswer, PathLearn)})
	ReadBytes = define(Metric{name: "embedd_read_bytes_total", labels: []string{"path"},
		help: "Bytes of the messages of embedd_read_messages_total.", starts: each(PathAnswer, PathLearn)})
	UnseenCategories = define(Metric{name: "embedd_unseen_categories_total", starts: single,
		help: "Values of categories that the model of model.file does not have: all features of the category were 0."})
	Redeliveries = define(Metric{name: "embedd_redeliveries_total", starts: single,
		help: "Input messages that arrived again, because an earlier delivery was not acknowledged."})
	Duplicates = define(Metric{name: "embedd_duplicates_total", starts: single,
		help: "Outputs and dead letters that an earlier attempt had stored, and that were not stored again."})
	ReaderRestarts = define(Metric{name: "embedd_reader_restarts_total", labels: []string{"cause"},
		help: "Restarts of the learning path's reader by cause: the input stream was recreated, purged or renumbered, " +
			"the reader fell behind the hot path's messages, or a read failed.",
		starts: each("recreated", "purged", "renumbered", "behind", "failed")})
	DeadLetters = define(Metric{name: "embedd_dead_letters_total", labels: []string{"code"}, starts: eachCode(),
		help: "Dead letters by error code, those of rows and of labels included."})
	Undeliverable = define(Metric{name: "embedd_undeliverable_messages", kind: gauge, starts: single,
		help: "Input messages that wait because their dead letters cannot be stored. They are redelivered."})
	Claimed = define(Metric{name: "embedd_claimed_identities_total", starts: single,
		help: "Outputs and dead letters that were sent under a second identity, because another message had theirs."})
	Halted = define(Metric{name: "embedd_halted", kind: gauge, starts: single,
		help: "1 while the pipeline is halted because too many messages were bad."})
	Model = define(Metric{name: "embedd_model_info", kind: gauge, of: onDemand,
		labels: []string{"version", "method", "epoch"},
		help:   "Always 1; the labels describe the live model."})
	ModelAge = define(Metric{name: "embedd_model_age_seconds", kind: gauge, of: onDemand,
		help: "Time since the live model was last confirmed: fitted, or scored on a labelled row and kept."})
	EpochChanges = define(Metric{name: "embedd_epoch_changes_total", starts: single,
		help: "Changes of the live model's epoch: outputs of two epochs are not comparable."})
	HubSilence = define(Metric{name: "embedd_hub_silence_seconds", kind: gauge, of: onDemand,
		help: "On a leaf node whose models come from a hub: time since the hub last reported the live model."})
	Pinned = define(Metric{name: "embedd_model_pinned", kind: gauge, starts: single,
		help: "1 while the live model is pinned and nothing replaces it."})
	Candidates = define(Metric{name: "embedd_candidates_total", labels: []string{"result"},
		help:   "Candidates by result: promoted, rejected (the live model was kept), failed (no fit).",
		starts: each("promoted", "rejected", "failed")})
	Promotions = define(Metric{name: "embedd_promotions_total", labels: []string{"door"},
		help:   "Models that training made live by the door that they passed; models.md lists the doors.",
		starts: each(policy.TrainedDoors()...)})
	Displacement = define(Metric{name: "embedd_swap_displacement", kind: gauge, of: onDemand,
		help: "How far the last promotion moved the outputs after alignment, relative to their spread."})
	FitSeconds = define(Metric{name: "embedd_fit_seconds", kind: histogram, starts: single,
		buckets: prometheus.ExponentialBuckets(0.001, 2, 19),
		help:    "Duration of a promotion, including the fits of the other candidates, alignment and storing."})
	TransformSeconds = define(Metric{name: "embedd_transform_seconds", kind: histogram, starts: single,
		buckets: prometheus.ExponentialBuckets(0.00001, 2, 19),
		help:    "Time to decode, project and encode one message."})
	ConfirmSeconds = define(Metric{name: "embedd_publish_confirm_seconds", kind: histogram, starts: single,
		buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		help: "Time from first sending the last output of an input until all its outputs are confirmed as stored, in the " +
			"order of the inputs."})
	EndToEndSeconds = define(Metric{name: "embedd_end_to_end_seconds", kind: histogram, starts: single,
		buckets: prometheus.ExponentialBuckets(0.0005, 2, 20),
		help: "Time from when the server stored an input, by its clock, until its outputs are confirmed as stored. Inputs " +
			"of a backlog count with the time that they waited."})
	Summaries = define(Metric{name: "embedd_summaries_total", labels: []string{"result"}, of: summaries,
		help: "Summaries of blocks of the input by result: stored, duplicate (another replica had stored the same), " +
			"recomputed (the stored one was unusable), sent (to the hub).",
		starts: each("stored", "duplicate", "recomputed", "sent")})
	EdgeSummaries = define(Metric{name: "embedd_edge_summaries_total", labels: []string{"edge", "result"}, of: onDemand,
		help: "At a hub: summaries received from an edge: learned, duplicate (their messages had been learned before), " +
			"or rejected (damaged, or of other settings or features; the status says which)."})
	LabelMessages = define(Metric{name: "embedd_label_messages_total", labels: []string{"result"}, of: lateLabels,
		help: "Messages of late labels by result: learned or dead.", starts: each("learned", "dead")})
)

// metrics are all that were defined.
var metrics []*Metric

func define(m Metric) *Metric {
	metrics = append(metrics, &m)
	return &m
}

// The values of the label path.
const (
	PathAnswer = "answer"
	PathLearn  = "learn"
)

// Registry holds the metrics of an engine.
type Registry struct {
	counters   map[*Metric]*prometheus.CounterVec
	gauges     map[*Metric]*prometheus.GaugeVec
	histograms map[*Metric]*prometheus.HistogramVec
	status     *statusGauges
}

// NewRegistry registers the metrics, or shares those that an engine before registered. With a nil registerer they are
// private to the engine. It fails where a metric of another kind has one of the names.
func NewRegistry(r prometheus.Registerer) (*Registry, error) {
	g := &Registry{counters: map[*Metric]*prometheus.CounterVec{}, gauges: map[*Metric]*prometheus.GaugeVec{},
		histograms: map[*Metric]*prometheus.HistogramVec{}}
	for _, m := range metrics {
		labels := append([]string{"pipeline"}, m.labels...)
		var err error
		switch m.kind {
		case counter:
			g.counters[m], err = share(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help}, labels))
		case gauge:
			g.gauges[m], err = share(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.name, Help: m.help}, labels))
		case histogram:
			g.histograms[m], err = share(r, prometheus.NewHistogramVec(
				prometheus.HistogramOpts{Name: m.name, Help: m.help, Buckets: m.buckets}, labels))
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	g.status, err = share(r, newStatusGauges())
	return g, err
}

// share registers a collector, or returns the one of the same name that is registered already.
func share[C prometheus.Collector](r prometheus.Registerer, c C) (C, error) {
	if r == nil {
		return c, nil
	}
	err := r.Register(c)
	var existing prometheus.AlreadyRegisteredError
	if !errors.As(err, &existing) {
		return c, err
	}
	same, ok := existing.ExistingCollector.(C)
	if !ok {
		return c, fmt.Errorf("%w, by a collector of type %T; give embedd a separate registry", err,
			existing.ExistingCollector)
	}
	return same, nil
}

// Series are the metrics of one pipeline.
type Series struct {
	registry *Registry
	pipeline string

	// The series that every message moves, looked up once.
	messages, rows  map[string]prometheus.Counter // by result
	read, readBytes map[string]prometheus.Counter // by path
	transform       prometheus.Observer
	confirm         prometheus.Observer
	endToEnd        prometheus.Observer
	unseen          prometheus.Counter
	redeliveries    prometheus.Counter
}

// Series returns the metrics of a pipeline, and creates at zero those that exist from the start: late labels and
// summaries only where the pipeline has them.
func (g *Registry) Series(pipeline string, hasLateLabels, hasSummaries bool) *Series {
	s := &Series{registry: g, pipeline: pipeline, messages: map[string]prometheus.Counter{},
		rows: map[string]prometheus.Counter{}, read: map[string]prometheus.Counter{},
		readBytes: map[string]prometheus.Counter{}}
	for _, m := range metrics {
		if m.of == onDemand || m.of == lateLabels && !hasLateLabels || m.of == summaries && !hasSummaries {
			continue
		}
		for _, values := range m.starts {
			switch m.kind {
			case counter:
				s.Add(m, 0, values...)
			case gauge:
				s.Set(m, 0, values...)
			case histogram:
				g.histograms[m].WithLabelValues(s.labels(values)...)
			}
		}
	}
	for _, result := range []string{"out", "dead", "skip", "pass"} {
		s.messages[result] = g.counters[Messages].WithLabelValues(pipeline, result)
		s.rows[result] = g.counters[Rows].WithLabelValues(pipeline, result)
	}
	for _, path := range []string{PathAnswer, PathLearn} {
		s.read[path] = g.counters[ReadMessages].WithLabelValues(pipeline, path)
		s.readBytes[path] = g.counters[ReadBytes].WithLabelValues(pipeline, path)
	}
	s.transform = g.histograms[TransformSeconds].WithLabelValues(pipeline)
	s.confirm = g.histograms[ConfirmSeconds].WithLabelValues(pipeline)
	s.endToEnd = g.histograms[EndToEndSeconds].WithLabelValues(pipeline)
	s.unseen = g.counters[UnseenCategories].WithLabelValues(pipeline)
	s.redeliveries = g.counters[Redeliveries].WithLabelValues(pipeline)
	return s
}

func (s *Series) labels(values []string) []string { return append([]string{s.pipeline}, values...) }

// Add adds n to a counter; values are those of its labels other than the pipeline.
func (s *Series) Add(m *Metric, n float64, values ...string) {
	s.registry.counters[m].WithLabelValues(s.labels(values)...).Add(n)
}

// Set sets a gauge.
func (s *Series) Set(m *Metric, v float64, values ...string) {
	s.registry.gauges[m].WithLabelValues(s.labels(values)...).Set(v)
}

// Replace sets a gauge whose label values changed: the pipeline's other series of it end.
func (s *Series) Replace(m *Metric, v float64, values ...string) {
	s.registry.gauges[m].DeletePartialMatch(prometheus.Labels{"pipeline": s.pipeline})
	s.Set(m, v, values...)
}

// Observe adds an observation to a histogram.
func (s *Series) Observe(m *Metric, v float64, values ...string) {
	s.registry.histograms[m].WithLabelValues(s.labels(values)...).Observe(v)
}

// Total is what was counted so far: messages that were answered, and rows that became dead letters.
func (s *Series) Total() (messages, deadRows float64) {
	for _, c := range s.messages {
		messages += valueOf(c)
	}
	return messages, valueOf(s.rows["dead"])
}

func valueOf(c prometheus.Counter) float64 {
	var m dto.Metric
	if c.Write(&m) != nil { // never, for a counter
		return 0
	}
	return m.Counter.GetValue()
}

// RowCounts are the rows of a message by result.
type RowCounts struct {
	Out, Dead, Skip, Pass int
	Unseen                int // values of categories that the model does not have
}

// Answered counts a message that was answered: its result, its rows, and the seconds that decoding, projecting and
// encoding took.
func (s *Series) Answered(result string, rows RowCounts, seconds float64) {
	s.messages[result].Inc()
	s.rows["out"].Add(float64(rows.Out))
	s.rows["dead"].Add(float64(rows.Dead))
	s.rows["skip"].Add(float64(rows.Skip))
	s.rows["pass"].Add(float64(rows.Pass))
	s.unseen.Add(float64(rows.Unseen))
	s.transform.Observe(seconds)
}

// Stored counts an input whose outputs are stored: when the server stored the input, and when the last output was first
// sent.
func (s *Series) Stored(input, sent time.Time) {
	now := time.Now()
	s.endToEnd.Observe(max(now.Sub(input).Seconds(), 0)) // clocks differ
	s.confirm.Observe(now.Sub(sent).Seconds())
}

// Redelivered counts an input that arrived again.
func (s *Series) Redelivered() { s.redeliveries.Inc() }

// Read counts a message read from the input stream, by one of the two paths.
func (s *Series) Read(path string, bytes int) {
	s.read[path].Inc()
	s.readBytes[path].Add(float64(bytes))
}
