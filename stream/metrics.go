package stream

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
)

// metrics are the counters of an engine. Their names are a contract.
type metrics struct {
	messages  *prometheus.CounterVec
	rows      *prometheus.CounterVec
	lost      *prometheus.CounterVec
	read      *prometheus.CounterVec
	readBytes *prometheus.CounterVec
	restarts  *prometheus.CounterVec
	letters   *prometheus.CounterVec
	parked    *prometheus.GaugeVec
	halted    *prometheus.GaugeVec
	model     *prometheus.GaugeVec
	pinned    *prometheus.GaugeVec
	age       *prometheus.GaugeVec
	hub       *prometheus.GaugeVec
	outcomes  *prometheus.CounterVec
	moved     *prometheus.GaugeVec
	stages    *stages
	fit       *prometheus.HistogramVec
	transform *prometheus.HistogramVec

	summaries     *prometheus.CounterVec
	edges         *prometheus.CounterVec
	labels        *prometheus.CounterVec
	labelMessages *prometheus.CounterVec
	labelsWaiting *prometheus.GaugeVec
	labelBytes    *prometheus.GaugeVec
}

// newMetrics registers the metrics, or shares those that an engine before registered; a nil registerer keeps them to
// the engine.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_messages_total",
			Help: "Input messages by what became of them: out, dead, skip, or pass while the model is stale."},
			[]string{"pipeline", "result"}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_rows_total",
			Help: "Rows by what became of them: out, dead, skip, or pass while the model is stale."},
			[]string{"pipeline", "result"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_dropped_messages_total",
			Help: "Messages dropped from a full queue, on core NATS (path answer) or by the learning side where the input can be read only once (path learn), and messages that left the input stream before they were learned (path learn)."}, []string{"pipeline", "path"}),
		read: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_read_messages_total",
			Help: "Messages that were read from the input stream, to be answered or once more to be learned."},
			[]string{"pipeline", "path"}),
		readBytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_read_bytes_total",
			Help: "Bytes of the messages of embedd_read_messages_total."}, []string{"pipeline", "path"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_reader_restarts_total",
			Help: "Times that the learning side began to read anew, by cause: recreated, purged or renumbered input stream, behind the hot path's messages, failed."},
			[]string{"pipeline", "cause"}),
		letters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_dead_letters_total",
			Help: "Dead letters by the code of what was wrong, those of rows and of labels included."},
			[]string{"pipeline", "code"}),
		parked: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_parked_messages",
			Help: "Input messages that cannot leave in any form now: their dead letters are not taken. They come back."},
			[]string{"pipeline"}),
		halted: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_halted",
			Help: "1 while the pipeline answers nothing because too many messages were bad."}, []string{"pipeline"}),
		model: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_model_info",
			Help: "1 for the live model."}, []string{"pipeline", "version", "method", "epoch"}),
		age: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_model_age_seconds",
			Help: "Time since the live model was last found good: made, or judged on a labelled row and kept."},
			[]string{"pipeline"}),
		hub: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_hub_silence_seconds",
			Help: "At a leaf node whose models come from a hub: time since that said what is live."}, []string{"pipeline"}),
		pinned: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_model_pinned",
			Help: "1 while the live model was chosen and nothing replaces it."}, []string{"pipeline"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_outcomes_total",
			Help: "What came of candidates: promoted, refused (looked at, and the live model kept), failed (no fit)."},
			[]string{"pipeline", "result"}),
		moved: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_swap_displacement",
			Help: "How far the last promotion moved the outputs after alignment, relative to their spread."},
			[]string{"pipeline"}),
		stages: newStages(),
		fit: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "embedd_fit_seconds",
			Help:    "Time of a promotion: fits of the other candidates, alignment and the store included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)}, []string{"pipeline"}),
		transform: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "embedd_transform_seconds",
			Help:    "Time to decode, project and encode one message.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10)}, []string{"pipeline"}),
		summaries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_summaries_total",
			Help: "Summaries of blocks of the input that this process made, by what became of them: stored, or again (another had stored the same); anew: those that it learns from, or sends, and had made again, since they could not be used; and sent to the hub."},
			[]string{"pipeline", "result"}),
		edges: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_edge_summaries_total",
			Help: "At a hub: summaries that came from an edge, by what became of them: learned, doubled (of messages that had come before, so nothing is learned), or refused (damaged, or of other settings or features; the status says which)."},
			[]string{"pipeline", "edge", "result"}),
		labels: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_labels_total",
			Help: "Labels that come apart from their rows, by what became of them: joined, corrected (a row that was learned got another), duplicate, late (their row was gone, or never came), skip (without key or label); expired counts rows whose label never came."}, []string{"pipeline", "result"}),
		labelMessages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "embedd_label_messages_total",
			Help: "Messages of labels by what became of them: learned or dead."}, []string{"pipeline", "result"}),
		labelsWaiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_labels_waiting",
			Help: "What waits for its other half: rows for a label, labels for a row."}, []string{"pipeline", "what"}),
		labelBytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "embedd_labels_bytes",
			Help: "Memory of rows and labels that wait, and of what is remembered to correct them."},
			[]string{"pipeline"}),
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(share(r, &m.messages), share(r, &m.rows), share(r, &m.lost),
		share(r, &m.letters), share(r, &m.parked), share(r, &m.halted),
		share(r, &m.model), share(r, &m.pinned), share(r, &m.age), share(r, &m.hub),
		share(r, &m.read), share(r, &m.readBytes), share(r, &m.restarts),
		share(r, &m.outcomes), share(r, &m.moved), share(r, &m.stages), share(r, &m.fit), share(r, &m.transform),
		share(r, &m.summaries), share(r, &m.edges), share(r, &m.labels), share(r, &m.labelMessages), share(r, &m.labelsWaiting), share(r, &m.labelBytes))
}

// share registers a collector, or takes the one of the same name that is there.
func share[C prometheus.Collector](r prometheus.Registerer, c *C) error {
	err := r.Register(*c)
	var there prometheus.AlreadyRegisteredError
	if !errors.As(err, &there) {
		return err
	}
	same, ok := there.ExistingCollector.(C)
	if !ok {
		return fmt.Errorf("%w, by a collector of type %T; give embedd a registry of its own", err,
			there.ExistingCollector)
	}
	*c = same
	return nil
}

// begin makes the series of a pipeline, so that they are there, at zero, before anything happens.
func (m *metrics) begin(pipeline string) *counters {
	c := &counters{messages: map[string]prometheus.Counter{}, rows: map[string]prometheus.Counter{},
		read: map[string]prometheus.Counter{}, readBytes: map[string]prometheus.Counter{}}
	for _, result := range []string{"out", "dead", "skip", "pass"} {
		c.messages[result] = m.messages.WithLabelValues(pipeline, result)
		c.rows[result] = m.rows.WithLabelValues(pipeline, result)
	}
	for _, result := range []string{"promoted", "refused", "failed"} {
		m.outcomes.WithLabelValues(pipeline, result)
	}
	m.dropped(pipeline, 0)
	m.unlearned(pipeline, 0)
	for _, path := range []string{pathAnswer, pathLearn} {
		c.read[path] = m.read.WithLabelValues(pipeline, path)
		c.readBytes[path] = m.readBytes.WithLabelValues(pipeline, path)
	}
	for _, cause := range causes {
		m.restarts.WithLabelValues(pipeline, string(cause))
	}
	m.parked.WithLabelValues(pipeline)
	m.halted.WithLabelValues(pipeline)
	m.pin(pipeline, false)
	m.fit.WithLabelValues(pipeline)
	c.transform = m.transform.WithLabelValues(pipeline)
	return c
}

// counters are the series of a pipeline that every message moves: looked up once.
type counters struct {
	messages, rows  map[string]prometheus.Counter // by result
	read, readBytes map[string]prometheus.Counter // by path
	transform       prometheus.Observer
}

func (c *counters) answered(a *answer) {
	c.messages[a.result].Inc()
	c.rows["out"].Add(float64(a.rows.out))
	c.rows["dead"].Add(float64(a.rows.dead))
	c.rows["skip"].Add(float64(a.rows.skip))
	c.rows["pass"].Add(float64(a.rows.pass))
	c.transform.Observe(a.seconds)
}

// The paths of a message, as labels.
const (
	pathAnswer = "answer"
	pathLearn  = "learn"
)

func (c *counters) fetched(path string, msg *natsx.Message) {
	c.read[path].Inc()
	c.readBytes[path].Add(float64(len(msg.Data())))
}

func (m *metrics) restarted(pipeline string, c cause) {
	m.restarts.WithLabelValues(pipeline, string(c)).Inc()
}

func (m *metrics) dropped(pipeline string, n int) {
	m.lost.WithLabelValues(pipeline, pathAnswer).Add(float64(n))
}

func (m *metrics) unlearned(pipeline string, n uint64) {
	m.lost.WithLabelValues(pipeline, pathLearn).Add(float64(n))
}

func (m *metrics) fitted(pipeline string, f plugin.Outcome) {
	result := "refused"
	switch {
	case f.Err != nil:
		result = "failed"
	case f.Promoted:
		result = "promoted"
		m.live(pipeline, f.Live)
	}
	m.outcomes.WithLabelValues(pipeline, result).Inc()
	if f.Promoted {
		m.fit.WithLabelValues(pipeline).Observe(f.Duration.Seconds())
		m.moved.WithLabelValues(pipeline).Set(f.Displacement)
	}
}

func (m *metrics) pin(pipeline string, pinned bool) {
	value := 0.0
	if pinned {
		value = 1
	}
	m.pinned.WithLabelValues(pipeline).Set(value)
}

// beginLabels makes the series of a pipeline whose labels come apart from its rows.
func (m *metrics) beginLabels(pipeline string) {
	m.joined(pipeline, plugin.LabelStatus{}, plugin.LabelStatus{})
	for _, result := range []string{"learned", "dead"} {
		m.labelMessages.WithLabelValues(pipeline, result)
	}
}

// beginSummaries makes the series of a pipeline that is learned from summaries.
func (m *metrics) beginSummaries(pipeline string) {
	for _, result := range []string{"stored", "again", "anew", "sent"} {
		m.summaries.WithLabelValues(pipeline, result)
	}
}

// summed counts a summary that was made; first where nobody had stored it before.
func (m *metrics) summed(pipeline string, first bool) {
	result := "again"
	if first {
		result = "stored"
	}
	m.summaries.WithLabelValues(pipeline, result).Inc()
}

func (m *metrics) sent(pipeline string) { m.summaries.WithLabelValues(pipeline, "sent").Inc() }

// What became of a summary that came from an edge.
const (
	edgeLearned = "learned"
	edgeDoubled = "doubled"
	edgeRefused = "refused"
)

func (m *metrics) fromEdge(pipeline, edge, result string) {
	m.edges.WithLabelValues(pipeline, edge, result).Inc()
}

func (m *metrics) summedAnew(pipeline string) { m.summaries.WithLabelValues(pipeline, "anew").Inc() }

// joined counts what became of labels between two looks.
func (m *metrics) joined(pipeline string, before, now plugin.LabelStatus) {
	for _, c := range []struct {
		result      string
		before, now uint64
	}{
		{"joined", before.Joined, now.Joined}, {"corrected", before.Corrected, now.Corrected},
		{"duplicate", before.Duplicate, now.Duplicate}, {"late", before.Late, now.Late},
		{"expired", before.Expired, now.Expired}, {"skip", before.Skipped, now.Skipped},
	} {
		m.labels.WithLabelValues(pipeline, c.result).Add(float64(c.now - c.before))
	}
	m.labelsWaiting.WithLabelValues(pipeline, "rows").Set(float64(now.Rows))
	m.labelsWaiting.WithLabelValues(pipeline, "labels").Set(float64(now.Early))
	m.labelBytes.WithLabelValues(pipeline).Set(float64(now.Bytes))
}

func (m *metrics) live(pipeline string, l *plugin.Live) {
	m.model.DeletePartialMatch(prometheus.Labels{"pipeline": pipeline})
	m.model.With(prometheus.Labels{
		"pipeline": pipeline, "version": l.Version, "method": l.Model.Method(), "epoch": strconv.Itoa(l.Epoch),
	}).Set(1)
}
