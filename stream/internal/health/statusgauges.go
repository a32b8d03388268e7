package health

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// statusGauge is a metric that is read from a Status; it is a counter if its name ends in _total.
type statusGauge struct {
	name, help string
	labels     []string // in addition to the pipeline
	value      any      // a number, true for 1, a pointer to a number, or byLabel; nil or NaN: it has no series
}

// byLabel has a value for each series of a metric. The key is the values of the labels, joined by joinLabels.
type byLabel map[string]any

// number is a number or a bool, or what a pointer to one points to; NaN for nil.
func number(value any) float64 {
	v := reflect.Indirect(reflect.ValueOf(value))
	switch {
	case !v.IsValid():
		return math.NaN()
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	case v.Kind() == reflect.Bool:
		return 0
	}
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

// when is a metric that has a series only if a condition holds.
func when(holds bool, value any) any {
	if !holds {
		return nil
	}
	return value
}

// ifPositive is a metric without a series where its value is 0: not known, or not limited.
func ifPositive[T int | int64 | float64](v T) any { return when(v > 0, v) }

// timestamp is a time in seconds since 1970; a zero one has no series.
func timestamp(t time.Time) any { return when(!t.IsZero(), float64(t.UnixNano())/1e9) }

// oneOf is a series for each value of a label: 1 where a condition holds, 0 for the others.
func oneOf[T ~string](values []T, holds func(T) bool) byLabel {
	out := byLabel{}
	for _, v := range values {
		out[string(v)] = holds(v)
	}
	return out
}

// statusGauges are the metrics that are read from a Status. Their order and labels do not depend on it.
func statusGauges(s spec.Status) []statusGauge {
	stage, limits, labels := &s.Stage, s.Stage.Limits, s.Labels
	conditions := byLabel{}
	for _, one := range componentTable {
		conditions[joinLabels(one.Name, string(one.Blocks))] = slices.ContainsFunc(s.Conditions,
			func(c spec.Condition) bool { return c.Name == one.Name })
	}
	role := "transform"
	if s.IsTrainer {
		role = "train"
	} else if s.Role != spec.RoleTransform && !s.FixedModel {
		role = "standby"
	}
	info, accuracy, created := byLabel{}, byLabel{"holdout": stage.HeldOut}, any(nil)
	if l := stage.Live; l != nil {
		info[joinLabels(l.Version, l.Model.Method(), strconv.Itoa(l.Epoch))] = 1
		accuracy["promotion"] = ifPositive(l.Score)
		created = timestamp(l.Model.Note().Created) // a model file may not say when
	}
	return []statusGauge{
		{"embedd_ready", "1 while an input would be answered now.", nil, s.Ready},
		{"embedd_state", "1 for the state of the pipeline, 0 for the others.", []string{"state"},
			oneOf(spec.States, func(state spec.State) bool { return state == s.State })},
		{"embedd_condition", "1 while a condition holds that blocks answers or needs attention, 0 for the others.",
			[]string{"condition", "blocks"}, conditions},
		{"embedd_role", "1 for the role of this process: trainer, standby, or transformer only; 0 for the others.",
			[]string{"role"},
			oneOf([]string{"train", "standby", "transform"}, func(one string) bool { return one == role })},
		{"embedd_lease_term", "Term of the lease under which this process trains; 0 if it does not.", nil, s.Term},
		{"embedd_model_revision", "Newest revision of the model store's pointer that this process follows.", nil, s.Revision},
		{"embedd_lag_messages", "Input messages without an answer; of the trainer alone.", nil, when(s.LagKnown, s.Lag)},
		{"embedd_lag_seconds", "Age of the oldest of embedd_lag_messages.", nil, when(s.LagKnown, s.Oldest.Seconds())},
		{"embedd_busy_ratio", "Share of about the last ten seconds with an input to answer.", nil, s.Busy},
		{"embedd_partitions_held", "Partitions of the input that this process holds.", nil, s.Partitions},
		{"embedd_config_generation", "Configurations that the process has run with; 1 at its start.", nil, s.Generation},
		{"embedd_inflight_bytes", "Memory of the inputs between pull and acknowledgement.", nil, s.InFlight},
		{"embedd_inflight_limit_bytes", "Limit of embedd_inflight_bytes, limits.in_flight.", nil, s.InFlightLimit},
		{"embedd_dead_letters_stored", "Messages that are stored as dead letters; of the trainer alone.", nil, s.DeadLetters},
		{"embedd_undeliverable_messages", "Inputs whose dead letters cannot be stored.", nil, s.Undeliverable},
		{"embedd_halted", "1 while the pipeline is halted because too many messages were bad.", nil, s.Halted != ""},
		{"embedd_model_info", "Always 1; the labels describe the live model.", []string{"version", "method", "epoch"}, info},
		{"embedd_model_age_seconds", "Time since the live model was last fitted or confirmed.", nil, s.Age.Seconds()},
		{"embedd_model_pinned", "1 while the live model is pinned and nothing replaces it.", nil, stage.Pinned},
		{"embedd_swap_displacement", "How far the last promotion moved outputs, over their spread.", nil, s.Displacement},
		{"embedd_hub_silence_seconds", "On a leaf node with models of a hub: time since the hub last reported which model " +
			"is live.", nil, when(s.Hub != "", s.HubSilence.Seconds())},
		{"embedd_model_created_timestamp_seconds", "When the live model was fitted.", nil, created},
		{"embedd_model_stale", "1 while the model is older than training.max_age.", nil, when(stage.Live != nil, s.Stale)},
		{"embedd_accuracy", "Accuracy of the live model: with which it was promoted, and on held-out rows of the window.",
			[]string{"kind"}, accuracy},
		{"embedd_fit_due_rows", "Labelled rows until the next fit is due by their number.", nil, stage.RowsUntilFit},
		{"embedd_drift", "Largest difference that the drift detector found, over its limit: at 1 the window is cut.", nil,
			ifPositive(stage.Drift)},
		{"embedd_fits_total", "Models that were fitted, candidates included.", nil, stage.Fits},
		{"embedd_prequential_accuracy", "Prequential accuracy of the live model, of the best candidate, and of chance.",
			[]string{"model"},
			byLabel{"live": stage.Accuracy, "candidate": stage.Candidate, "chance": stage.Chance}},
		{"embedd_evidence", "Evidence for the best candidate.", nil, stage.Evidence},
		{"embedd_evidence_required", "Evidence at which the best candidate is promoted; +Inf: never; 0: there is none.", nil,
			stage.EvidenceRequired},
		{"embedd_drift_alarms_total", "Drift alarms, each of which cut the window.", nil, stage.Alarms},
		{"embedd_window_rows", "Labelled rows in the window: all, of the largest class, and of classes too rare for a fit.",
			[]string{"class"}, byLabel{"all": stage.Rows, "largest": stage.Largest, "rare": stage.RareClassRows}},
		{"embedd_window_classes", "Classes with rows in the window.", nil, stage.Classes},
		{"embedd_seen_classes", "Classes that labelled rows had lately.", nil, stage.ClassesSeen},
		{"embedd_window_effective_rows", "How many independent rows those of the window are worth.", nil,
			when(stage.Rows != 0, stage.EffectiveRows)},
		{"embedd_labelled_ratio", "Share of the rows that arrived since the start that have a label.", nil,
			when(stage.Received != 0, stage.LabelledShare)},
		{"embedd_unusual", "1 for what is unusual about the stream, 0 for the others.", []string{"kind"},
			oneOf(plugin.UnusualKinds, func(kind plugin.UnusualKind) bool {
				return slices.ContainsFunc(stage.Unusual, func(u plugin.Unusual) bool { return u.Kind == kind })
			})},
		{"embedd_window_bytes", "Memory of the window, bounded by training.window.bytes.", nil, stage.Bytes},
		{"embedd_window_limit_bytes", "Limit of embedd_window_bytes, training.window.bytes.", nil,
			ifPositive(limits.WindowBytes)},
		{"embedd_window_limit_rows", "Rows that the window can hold.", nil, ifPositive(limits.WindowRows)},
		{"embedd_window_limit_classes", "Limit of embedd_window_classes, limits.classes.", nil, ifPositive(limits.Classes)},
		{"embedd_quarantined_messages", "Inputs excluded from training: they crashed the process.", nil, s.Quarantined},
		{"embedd_training_stopped", "1 while training is stopped after repeated crashes.", nil, s.TrainingStopped},
		{"embedd_training_backlog_rows", "Labelled rows in the training queue.", nil, stage.Backlog},
		{"embedd_training_newest_row_timestamp_seconds", "Time of the newest labelled row that was learned.", nil,
			timestamp(stage.Newest)},
		{"embedd_training_skipped_rows_total", "Labelled rows not used for training, by reason.", []string{"reason"},
			byLabel{"queue_full": stage.Dropped, "class_limit": stage.OverClassLimit, "outlier": stage.Outliers}},
		{"embedd_labels_total", "Late labels by result; expired counts rows whose label never arrived.", []string{"result"},
			when(s.LateLabels, byLabel{"joined": labels.Joined, "corrected": labels.Corrected,
				"duplicate": labels.Duplicate, "late": labels.Late, "expired": labels.Expired, "skip": labels.Skipped})},
		{"embedd_labels_waiting", "Rows that wait for a label, and labels that wait for a row.", []string{"kind"},
			when(s.LateLabels, byLabel{"rows": labels.RowsWaiting, "labels": labels.LabelsWaiting})},
		{"embedd_labels_bytes", "Memory of the rows and labels that wait, and of what is kept to correct them.", nil,
			when(s.LateLabels, labels.Bytes)},
		{"embedd_labels_limit_bytes", "Limit of embedd_labels_bytes, limits.labels.", nil, ifPositive(limits.LabelBytes)},
	}
}

// statusDescs are the descriptions of the metrics of statusGauges.
var statusDescs = func() (all []*prometheus.Desc) {
	for _, m := range statusGauges(spec.Status{}) {
		all = append(all, newDesc(m.name, m.help, m.labels))
	}
	return all
}()

func collectStatus(out chan<- prometheus.Metric, pipeline string, now spec.Status) {
	for i, m := range statusGauges(now) {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(m.name, "_total") {
			kind = prometheus.CounterValue
		}
		values, isByLabel := m.value.(byLabel)
		if !isByLabel {
			values = byLabel{"": m.value}
		}
		for joined, value := range values {
			if n := number(value); !math.IsNaN(n) {
				out <- prometheus.MustNewConstMetric(statusDescs[i], kind, n, labelValues(pipeline, m.labels, joined)...)
			}
		}
	}
}
