package health

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/stream/spec"
	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes one counter or histogram of the pipelines. The table below lists all of them; the gauges are in
// statusGauges, and are read from a Status at each scrape. Names and labels are part of the public contract.
type Metric struct {
	name, help string
	labels     []string  // in addition to the pipeline
	buckets    []float64 // of a histogram; nil: it is a counter
	of         feature
	starts     []string // label values of the series that exist, at zero, from the start, as joinLabels joins them
	desc       *prometheus.Desc
}

// feature says for which pipelines the series of a metric exist from the start.
type feature uint8

const (
	always feature = iota
	lateLabels
	summaries
)

// The metrics. A new one is an entry here, a line in docs/metrics.md, and a call to Series where its value changes.
var (
	Messages = counter("embedd_messages_total", "Input messages by result: out, dead, skip, or pass while the model is "+
		"stale.", always, "result", "out", "dead", "skip", "pass")
	Rows = counter("embedd_rows_total", "Rows by result: out, dead, skip, or pass while the model is stale.", always,
		"result", "out", "dead", "skip", "pass")
	Dropped = counter("embedd_dropped_messages_total", "Messages dropped from a full queue, or deleted before "+
		"training read them (path learn).", always, "path", PathAnswer, PathLearn)
	ReadMessages = counter("embedd_read_messages_total", "Messages read from the input stream, to answer them (path "+
		"answer) or for training (path learn).", always, "path", PathAnswer, PathLearn)
	ReadBytes = counter("embedd_read_bytes_total", "Bytes of the messages of embedd_read_messages_total.", always,
		"path", PathAnswer, PathLearn)
	UnseenCategories = single("embedd_unseen_categories_total", "Values of categories that the model of model.file does "+
		"not have: all features of the category were 0.", nil)
	Redeliveries = single("embedd_redeliveries_total", "Input messages that arrived again, because an earlier delivery "+
		"was not acknowledged.", nil)
	Duplicates = single("embedd_duplicates_total", "Outputs and dead letters that were not stored, "+
		"because an earlier attempt had stored them.", nil)
	ReaderRestarts = counter("embedd_reader_restarts_total", "Restarts of the learning path's reader by cause.", always,
		"cause", "recreated", "purged", "renumbered", "behind", "failed")
	DeadLetters = counter("embedd_dead_letters_total", "Dead letters by error code, those of rows and of labels included.",
		always, "code", wire.Codes...)
	Claimed = single("embedd_claimed_identities_total", "Outputs and dead letters that were sent under a second "+
		"identity, because another message had theirs.", nil)
	EpochChanges = single("embedd_epoch_changes_total", "Changes of the live model's epoch: outputs of two epochs are "+
		"not comparable.", nil)
	Candidates = counter("embedd_candidates_total", "Candidates by result: promoted, rejected (the live model was kept), "+
		"failed (no fit).", always, "result", "promoted", "rejected", "failed")
	Promotions = counter("embedd_promotions_total", "Models that training made live by the door that they passed; "+
		"models.md lists the doors.", always, "door", policy.TrainedDoors()...)
	FitSeconds = single("embedd_fit_seconds", "Duration of a promotion, including the fits of the other candidates, "+
		"alignment and storing.", prometheus.ExponentialBuckets(0.001, 2, 19))
	TransformSeconds = single("embedd_transform_seconds", "Time to decode, project and encode one message.",
		prometheus.ExponentialBuckets(0.00001, 2, 19))
	ConfirmSeconds = single("embedd_publish_confirm_seconds", "Time from first sending the last output of an input until "+
		"all its outputs are confirmed as stored, in the order of the inputs.", prometheus.ExponentialBuckets(0.0001, 2, 16))
	EndToEndSeconds = single("embedd_end_to_end_seconds", "Time from when the server stored an input, by its clock, "+
		"until its outputs are confirmed as stored.", prometheus.ExponentialBuckets(0.0005, 2, 20))
	Summaries = counter("embedd_summaries_total", "Summaries of blocks of the input by result.", summaries,
		"result", "stored", "duplicate", "recomputed", "sent")
	EdgeSummaries = define(Metric{name: "embedd_edge_summaries_total", labels: []string{"edge", "result"},
		help: "At a hub: summaries received from an edge, by result."})
	LabelMessages = counter("embedd_label_messages_total", "Messages of late labels by result: learned or dead.",
		lateLabels, "result", "learned", "dead")
)

// metrics are all that were defined.
var metrics []*Metric

func define(m Metric) *Metric {
	m.desc = newDesc(m.name, m.help, m.labels)
	metrics = append(metrics, &m)
	return &m
}

// counter defines a counter with a label, whose series with these values exist from the start.
func counter[T ~string](name, help string, of feature, label string, values ...T) *Metric {
	m := Metric{name: name, help: help, labels: []string{label}, of: of}
	for _, v := range values {
		m.starts = append(m.starts, string(v))
	}
	return define(m)
}

// single defines a counter, or a histogram with buckets, that has one series.
func single(name, help string, buckets []float64) *Metric {
	return define(Metric{name: name, help: help, buckets: buckets, starts: []string{""}})
}

func newDesc(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"pipeline"}, labels...), nil)
}

// The values of the label path.
const (
	PathAnswer = "answer"
	PathLearn  = "learn"
)

// Registry is the prometheus.Collector of the pipelines of an engine. It stores plain numbers and creates constant
// metrics at each scrape: vectors of the client library take five times as much memory, 47 KB a pipeline.
type Registry struct {
	mu        sync.Mutex
	pipelines map[string]*Series
}

// NewRegistry registers the metrics, or shares those that an engine before registered. With a nil registerer they are
// private to the engine. It fails where another metric has one of the names.
func NewRegistry(r prometheus.Registerer) (*Registry, error) {
	g := &Registry{pipelines: map[string]*Series{}}
	if r == nil {
		return g, nil
	}
	err := r.Register(g)
	var existing prometheus.AlreadyRegisteredError
	if errors.As(err, &existing) {
		if same, ok := existing.ExistingCollector.(*Registry); ok {
			return same, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; give embedd a separate registry", err)
	}
	return g, nil
}

// Describe implements prometheus.Collector.
func (g *Registry) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	for _, desc := range statusDescs {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (g *Registry) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.pipelines))
	g.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		values, status := maps.Clone(s.values), s.status
		s.mu.Unlock()
		for k, v := range values {
			out <- v.metric(k.of, labelValues(s.pipeline, k.of.labels, k.labels))
		}
		if status != nil {
			collectStatus(out, s.pipeline, status())
		}
	}
}

// Series are the metrics of one pipeline.
type Series struct {
	pipeline string

	mu     sync.Mutex
	values map[seriesKey]*value
	status func() spec.Status // what the gauges of the status are read from; nil: they have no series

	// The series that every message moves, looked up once.
	messages, rows  map[string]*value // by result
	read, readBytes map[string]*value // by path
	transform       *value
	confirm         *value
	endToEnd        *value
	unseen          *value
}

// seriesKey identifies a series of a pipeline: a metric and its label values, as joinLabels joins them.
type seriesKey struct {
	of     *Metric
	labels string
}

const labelSeparator = "\xff" // a byte that UTF-8 never contains

// joinLabels joins values of labels. Invalid UTF-8 is replaced, since the client library rejects it.
func joinLabels(values ...string) string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return strings.Join(text, labelSeparator)
}

// labelValues are the values of the label pipeline and of further labels, which were joined.
func labelValues(pipeline string, labels []string, joined string) []string {
	if len(labels) == 0 {
		return []string{pipeline}
	}
	return append([]string{pipeline}, strings.Split(joined, labelSeparator)...)
}

// value is the value of a series: a number, or the sum of a histogram.
type value struct {
	bits    atomic.Uint64 // of the float64
	buckets *buckets      // nil unless it is a histogram
}

// buckets count the observations of a histogram by bucket, and those above the last one.
type buckets struct {
	counts []atomic.Uint64
	bounds []float64
}

func (v *value) Load() float64 { return math.Float64frombits(v.bits.Load()) }

func (v *value) Add(n float64) {
	for n != 0 {
		old := v.bits.Load()
		if v.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+n)) {
			return
		}
	}
}

// Observe adds an observation to a histogram.
func (v *value) Observe(n float64) {
	i, _ := slices.BinarySearch(v.buckets.bounds, n)
	v.buckets.counts[i].Add(1)
	v.Add(n)
}

func (v *value) metric(m *Metric, labels []string) prometheus.Metric {
	if m.buckets == nil {
		return prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, v.Load(), labels...)
	}
	sum, count, upTo := v.Load(), uint64(0), map[float64]uint64{}
	for i := range v.buckets.counts {
		if count += v.buckets.counts[i].Load(); i < len(v.buckets.bounds) {
			upTo[v.buckets.bounds[i]] = count
		}
	}
	return prometheus.MustNewConstHistogram(m.desc, count, sum, upTo, labels...)
}

// Series returns the metrics of a pipeline, and creates at zero those that exist from the start: late labels and
// summaries only where the pipeline has them.
func (g *Registry) Series(pipeline string, hasLateLabels, hasSummaries bool) *Series {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.pipelines[pipeline]
	if s == nil {
		s = &Series{pipeline: pipeline, values: map[seriesKey]*value{}}
		s.messages, s.rows = s.each(Messages), s.each(Rows)
		s.read, s.readBytes = s.each(ReadMessages), s.each(ReadBytes)
		s.transform, s.confirm, s.endToEnd = s.of(TransformSeconds), s.of(ConfirmSeconds), s.of(EndToEndSeconds)
		s.unseen = s.of(UnseenCategories)
		g.pipelines[pipeline] = s
	}
	for _, m := range metrics {
		if m.of == lateLabels && !hasLateLabels || m.of == summaries && !hasSummaries {
			continue
		}
		for _, labels := range m.starts {
			s.at(seriesKey{m, labels})
		}
	}
	return s
}

// of returns the series of a metric with label values other than the pipeline.
func (s *Series) of(m *Metric, labels ...string) *value {
	return s.at(seriesKey{m, joinLabels(labels...)})
}

// at returns a series, and creates it at zero if it does not exist.
func (s *Series) at(k seriesKey) *value {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values[k]
	if v == nil {
		v = &value{}
		if bounds := k.of.buckets; bounds != nil {
			v.buckets = &buckets{make([]atomic.Uint64, len(bounds)+1), bounds}
		}
		s.values[k] = v
	}
	return v
}

// each are the series of a metric with a single label, by its value.
func (s *Series) each(m *Metric) map[string]*value {
	all := map[string]*value{}
	for _, label := range m.starts {
		all[label] = s.of(m, label)
	}
	return all
}

// Watch has the status metrics of the pipeline read from status; nil: they have no series.
func (s *Series) Watch(status func() spec.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Add adds n to a counter; values are those of its labels other than the pipeline.
func (s *Series) Add(m *Metric, n float64, values ...string) { s.of(m, values...).Add(n) }

// Load returns a counter.
func (s *Series) Load(m *Metric, values ...string) float64 { return s.of(m, values...).Load() }

// Observe adds an observation to a histogram.
func (s *Series) Observe(m *Metric, v float64, values ...string) { s.of(m, values...).Observe(v) }

// Total is what was counted so far: messages that were answered, and rows that became dead letters.
func (s *Series) Total() (messages, deadRows float64) {
	for _, v := range s.messages {
		messages += v.Load()
	}
	return messages, s.rows["dead"].Load()
}

// RowCounts are the rows of a message by result.
type RowCounts struct {
	Out, Dead, Skip, Pass int
	Unseen                int // values of categories that the model does not have
}

// Answered counts a message that was answered: its result, its rows, and the seconds that decoding, projecting and
// encoding took.
func (s *Series) Answered(result string, rows RowCounts, seconds float64) {
	s.messages[result].Add(1)
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

// Read counts a message read from the input stream, by one of the two paths.
func (s *Series) Read(path string, bytes int) {
	s.read[path].Add(1)
	s.readBytes[path].Add(float64(bytes))
}
