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

// statusGauge is one metric that is read from a Status: a number, true for 1, a pointer to a number, or a sample for
// each series; nil: it has no series.
type statusGauge struct {
	desc
	of func(spec.Status) any
}

// sample is one series of such a metric: the values of its labels other than the pipeline, and its value. NaN is left
// out.
type sample struct {
	labels []string
	value  float64
}

// byLabel are the values of a metric with one label other than the pipeline.
type byLabel map[string]any

// samples are the series of a metric with a value.
func samples(value any) (out []sample) {
	switch v := value.(type) {
	case []sample:
		return v
	case byLabel:
		for label, one := range v {
			out = append(out, sample{[]string{label}, number(one)})
		}
		return out
	}
	return []sample{{value: number(value)}}
}

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

// statusGaugeTable lists the metrics that are read from a Status.
var statusGaugeTable = []statusGauge{
	{describe("embedd_ready", "1 while an input would be answered now."), func(s spec.Status) any { return s.Ready }},
	{describe("embedd_state", "1 for the state of the pipeline, 0 for the others.", "state"),
		func(s spec.Status) any {
			return oneOf(spec.States, func(state spec.State) bool { return state == s.State })
		}},
	{describe("embedd_condition", "1 while a condition holds that blocks answers or needs attention, 0 for the "+
		"others.", "condition", "blocks"), func(s spec.Status) any {
		var out []sample
		for _, one := range componentTable {
			holds := slices.ContainsFunc(s.Conditions, func(c spec.Condition) bool { return c.Name == one.Name })
			out = append(out, sample{[]string{one.Name, string(one.Blocks)}, number(holds)})
		}
		return out
	}},
	{describe("embedd_role", "1 for the role of this process: train (it is the trainer), standby (it can take over), "+
		"transform (it never trains), 0 for the others.", "role"), func(s spec.Status) any {
		is := "transform"
		if s.IsTrainer {
			is = "train"
		} else if s.Role != spec.RoleTransform && !s.FixedModel {
			is = "standby"
		}
		return oneOf([]string{"train", "standby", "transform"}, func(role string) bool { return role == is })
	}},
	{describe("embedd_lease_term", "Term of the lease under which this process trains; 0 when it does not, or there are "+
		"no leases."), func(s spec.Status) any { return s.Term }},
	{describe("embedd_model_revision", "Newest revision of the model store's pointer that this process follows."),
		func(s spec.Status) any { return s.Revision }},
	{describe("embedd_lag_messages", "Input messages that are not answered yet. Only the trainer's replica has the "+
		"series."), func(s spec.Status) any { return when(s.LagKnown, s.Lag) }},
	{describe("embedd_lag_seconds", "Age of the oldest input message that is not answered yet; 0 when there is none. "+
		"Only the trainer's replica has the series."),
		func(s spec.Status) any { return when(s.LagKnown, s.Oldest.Seconds()) }},
	{describe("embedd_busy_ratio", "Share of about the last ten seconds in which the hot path had an input to answer; "+
		"near 1 it no longer keeps up."), func(s spec.Status) any { return s.Busy }},
	{describe("embedd_partitions_held", "Partitions of the input that this process holds, for pipelines with "+
		"input.partitions. The part of the stream stored before it had partitions counts as one."),
		func(s spec.Status) any { return s.Partitions }},
	{describe("embedd_config_generation", "Configurations that the process has run with: 1 at its start, one more after "+
		"each reload that changed something."), func(s spec.Status) any { return s.Generation }},
	{describe("embedd_inflight_bytes", "Memory of the inputs between pull and acknowledgement; on core NATS of those "+
		"that wait."), func(s spec.Status) any { return s.InFlight }},
	{describe("embedd_inflight_limit_bytes", "Limit of embedd_inflight_bytes, limits.in_flight. A single message may "+
		"exceed it."), func(s spec.Status) any { return s.InFlightLimit }},
	{describe("embedd_dead_letters_stored", "Messages that the stream has on the subject of the dead letters, as of the "+
		"last 10 seconds. Only the trainer's replica has the series."), func(s spec.Status) any { return s.DeadLetters }},
	{describe("embedd_undeliverable_messages", "Input messages that wait because their dead letters cannot be stored. "+
		"They are redelivered."), func(s spec.Status) any { return s.Undeliverable }},
	{describe("embedd_halted", "1 while the pipeline is halted because too many messages were bad."),
		func(s spec.Status) any { return s.Halted != "" }},
	{describe("embedd_model_info", "Always 1; the labels describe the live model.", "version", "method", "epoch"),
		func(s spec.Status) any {
			if s.Stage.Live == nil {
				return nil
			}
			method := strings.ToValidUTF8(s.Stage.Live.Model.Method(), "\uFFFD")
			return []sample{{[]string{s.Stage.Live.Version, method, strconv.Itoa(s.Stage.Live.Epoch)}, 1}}
		}},
	{describe("embedd_model_age_seconds", "Time since the live model was last confirmed: fitted, or scored on a "+
		"labelled row and kept."), func(s spec.Status) any { return s.Age.Seconds() }},
	{describe("embedd_model_pinned", "1 while the live model is pinned and nothing replaces it."),
		func(s spec.Status) any { return s.Stage.Pinned }},
	{describe("embedd_swap_displacement", "How far the last promotion moved the outputs after alignment, relative to "+
		"their spread."), func(s spec.Status) any { return s.Displacement }},
	{describe("embedd_hub_silence_seconds", "On a leaf node whose models come from a hub: time since the hub last "+
		"reported the live model."), func(s spec.Status) any { return when(s.Hub != "", s.HubSilence.Seconds()) }},
	{describe("embedd_model_created_timestamp_seconds", "When the live model was fitted."), func(s spec.Status) any {
		if s.Stage.Live == nil { // a model file may not say when
			return nil
		}
		return timestamp(s.Stage.Live.Model.Note().Created)
	}},
	{describe("embedd_model_stale", "1 while the live model is older than training.max_age, else 0."),
		func(s spec.Status) any { return when(s.Stage.Live != nil, s.Stale) }},
	{describe("embedd_accuracy", "Accuracy of the live model: with which it was promoted, and on the held-out rows of "+
		"the window when they last judged a candidate, which is done where labels come in runs.", "kind"),
		func(s spec.Status) any {
			values := byLabel{"holdout": s.Stage.HeldOut}
			if l := s.Stage.Live; l != nil && l.Score > 0 {
				values["promotion"] = l.Score
			}
			return values
		}},
	{describe("embedd_fit_due_rows", "Labelled rows until the next fit is due by their number. Only the trainer has the "+
		"series."), func(s spec.Status) any { return s.Stage.RowsUntilFit }},
	{describe("embedd_drift", "Largest difference that the drift detector found at its last check, over its limit: at 1 "+
		"the window is cut, and the value starts over. No series while there are too few rows."),
		func(s spec.Status) any { return ifPositive(s.Stage.Drift) }},
	{describe("embedd_fits_total", "Models that were fitted, candidates included."),
		func(s spec.Status) any { return s.Stage.Fits }},
	{describe("embedd_prequential_accuracy", "Prequential accuracy over the last 500 to 1,000 labelled rows: of the "+
		"live model, of the best candidate, and of chance.", "model"), func(s spec.Status) any {
		return byLabel{"live": s.Stage.Accuracy, "candidate": s.Stage.Candidate, "chance": s.Stage.Chance}
	}},
	{describe("embedd_evidence", "Evidence for the best candidate; it is promoted at embedd_evidence_required."),
		func(s spec.Status) any { return s.Stage.Evidence }},
	{describe("embedd_evidence_required", "Evidence at which the door of the best candidate opens; +Inf: it is closed. "+
		"0: there is no candidate."), func(s spec.Status) any { return s.Stage.EvidenceRequired }},
	{describe("embedd_drift_alarms_total", "Drift alarms, each of which cut the window."),
		func(s spec.Status) any { return s.Stage.Alarms }},
	{describe("embedd_window_rows", "Labelled rows in the window: all, of the largest class, and of rare classes, with "+
		"too few rows for a fit.", "class"), func(s spec.Status) any {
		return byLabel{"all": s.Stage.Rows, "largest": s.Stage.Largest, "rare": s.Stage.RareClassRows}
	}},
	{describe("embedd_window_classes", "Classes with rows in the window."),
		func(s spec.Status) any { return s.Stage.Classes }},
	{describe("embedd_seen_classes", "Classes that labelled rows had lately, those of the window included."),
		func(s spec.Status) any { return s.Stage.ClassesSeen }},
	{describe("embedd_window_effective_rows", "How many independent rows those of the window are worth: their number "+
		"divided by the design effect of rows that depend on each other. No series while it is not known."),
		func(s spec.Status) any { return when(s.Stage.Rows != 0, s.Stage.EffectiveRows) }},
	{describe("embedd_labelled_ratio", "Share of the rows that arrived since the start that have a label."),
		func(s spec.Status) any { return when(s.Stage.Received != 0, s.Stage.LabelledShare) }},
	{describe("embedd_unusual", "1 for what is unusual about the stream, 0 for the others.", "kind"),
		func(s spec.Status) any {
			return oneOf(plugin.UnusualKinds, func(kind plugin.UnusualKind) bool {
				return slices.ContainsFunc(s.Stage.Unusual, func(u plugin.Unusual) bool { return u.Kind == kind })
			})
		}},
	{describe("embedd_window_bytes", "Memory of the window, bounded by training.window.bytes."),
		func(s spec.Status) any { return s.Stage.Bytes }},
	{describe("embedd_window_limit_bytes", "Limit of embedd_window_bytes, training.window.bytes."),
		func(s spec.Status) any { return ifPositive(s.Stage.Limits.WindowBytes) }},
	{describe("embedd_window_limit_rows", "Rows that the window can hold: training.window.rows, or fewer where "+
		"training.window.bytes has no room for so many."),
		func(s spec.Status) any { return ifPositive(s.Stage.Limits.WindowRows) }},
	{describe("embedd_window_limit_classes", "Limit of embedd_window_classes, limits.classes."),
		func(s spec.Status) any { return ifPositive(s.Stage.Limits.Classes) }},
	{describe("embedd_quarantined_messages", "Input messages excluded from training because the process crashed each "+
		"time it learned from them."), func(s spec.Status) any { return s.Quarantined }},
	{describe("embedd_training_stopped", "1 while training is stopped because the process crashed in it repeatedly."),
		func(s spec.Status) any { return s.TrainingStopped }},
	{describe("embedd_training_backlog_rows", "Labelled rows in the training queue."),
		func(s spec.Status) any { return s.Stage.Backlog }},
	{describe("embedd_training_newest_row_timestamp_seconds", "Time of the newest labelled row that was learned; time() "+
		"minus this is its age, and where labelled rows arrive, how far training is behind."),
		func(s spec.Status) any { return timestamp(s.Stage.Newest) }},
	{describe("embedd_training_skipped_rows_total", "Labelled rows that were not used for training, by reason: "+
		"queue_full (they arrived too fast), class_limit (limits.classes was reached), outlier (many extreme values, or "+
		"one beyond 1e140).", "reason"), func(s spec.Status) any {
		return byLabel{"queue_full": s.Stage.Dropped, "class_limit": s.Stage.OverClassLimit, "outlier": s.Stage.Outliers}
	}},
	{describe("embedd_labels_total", "Late labels by result: joined, corrected (a learned row got another label), "+
		"duplicate, late (their row was gone or never arrived), skip (without key or label); expired counts rows whose "+
		"label never arrived.", "result"), func(s spec.Status) any {
		l := s.Labels
		return when(s.LateLabels, byLabel{"joined": l.Joined, "corrected": l.Corrected, "duplicate": l.Duplicate,
			"late": l.Late, "expired": l.Expired, "skip": l.Skipped})
	}},
	{describe("embedd_labels_waiting", "Rows that wait for a label, and labels that wait for a row.", "kind"),
		func(s spec.Status) any {
			return when(s.LateLabels, byLabel{"rows": s.Labels.RowsWaiting, "labels": s.Labels.LabelsWaiting})
		}},
	{describe("embedd_labels_bytes", "Memory of the rows and labels that wait, and of what is kept to correct them."),
		func(s spec.Status) any { return when(s.LateLabels, s.Labels.Bytes) }},
	{describe("embedd_labels_limit_bytes", "Limit of embedd_labels_bytes, limits.labels."),
		func(s spec.Status) any { return ifPositive(s.Stage.Limits.LabelBytes) }},
}

// desc is the description of a metric, which is a counter if its name says so.
type desc struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func describe(name, help string, labels ...string) desc {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return desc{prometheus.NewDesc(name, help, append([]string{"pipeline"}, labels...), nil), kind}
}

func collectStatus(out chan<- prometheus.Metric, pipeline string, now spec.Status) {
	for _, m := range statusGaugeTable {
		for _, s := range samples(m.of(now)) {
			if !math.IsNaN(s.value) {
				out <- prometheus.MustNewConstMetric(m.Desc, m.kind, s.value, append([]string{pipeline}, s.labels...)...)
			}
		}
	}
}
