package health

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// statusGauge is one metric that is read from a Status.
type statusGauge struct {
	desc
	of func(spec.Status) []sample
}

// sample is one series of such a metric: the values of its labels other than the pipeline, and its value. NaN is left
// out.
type sample struct {
	labels []string
	value  float64
}

func one(v float64) []sample { return []sample{{value: v}} }

// ofStage reads a metric from the status of the stage.
func ofStage(of func(plugin.Status) []sample) func(spec.Status) []sample {
	return func(s spec.Status) []sample { return of(s.Stage) }
}

// ofLabels reads a metric from the status of late labels; a pipeline without them has no series.
func ofLabels(of func(plugin.LabelStatus) []sample) func(spec.Status) []sample {
	return func(s spec.Status) []sample {
		if !s.LateLabels {
			return nil
		}
		return of(s.Labels)
	}
}

// when is a metric that has a series only if a condition holds.
func when(holds bool, v float64) []sample {
	if !holds {
		return nil
	}
	return one(v)
}

// ifCounted is a metric that only the replica has that observes the input's lag.
func ifCounted(s spec.Status, v float64) []sample { return when(s.LagKnown, v) }

// ifPositive is a metric without a series where its value is 0: not known, or not limited.
func ifPositive(v float64) []sample { return when(v > 0, v) }

// ifKnown is a metric without a series where its value is not known.
func ifKnown[T int | int64 | uint64 | float64](v *T) []sample {
	if v == nil {
		return nil
	}
	return one(float64(*v))
}

// oneOf is a series for each value of a label: 1 where a condition holds, 0 for the others.
func oneOf[T ~string](values []T, holds func(T) bool) (out []sample) {
	for _, v := range values {
		out = append(out, sample{[]string{string(v)}, boolean(holds(v))})
	}
	return out
}

func boolean(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// statusGaugeTable lists the metrics that are read from a Status.
var statusGaugeTable = []statusGauge{
	{describe("embedd_ready", "1 while an input would be answered now."),
		func(s spec.Status) []sample { return one(boolean(s.Ready)) }},
	{describe("embedd_state", "1 for the state of the pipeline, 0 for the others.", "state"),
		func(s spec.Status) []sample {
			return oneOf(spec.States, func(state spec.State) bool { return state == s.State })
		}},
	{describe("embedd_condition", "1 while a condition holds that blocks answers or needs attention, 0 for the others.",
		"condition", "blocks"), func(s spec.Status) (out []sample) {
		for _, one := range componentTable {
			holds := slices.ContainsFunc(s.Conditions, func(c spec.Condition) bool { return c.Name == one.name })
			out = append(out, sample{[]string{one.name, string(one.blocks)}, boolean(holds)})
		}
		return out
	}},
	{describe("embedd_role", "1 for the role of this process: train (it is the trainer), standby (it can take over), "+
		"transform (it never trains), 0 for the others.", "role"), func(s spec.Status) []sample {
		is := "transform"
		if s.IsTrainer {
			is = "train"
		} else if s.Role != spec.RoleTransform && !s.FixedModel {
			is = "standby"
		}
		return oneOf([]string{"train", "standby", "transform"}, func(role string) bool { return role == is })
	}},
	{describe("embedd_lease_term",
		"Term of the lease under which this process trains; 0 when it does not, or there are no leases."),
		func(s spec.Status) []sample { return one(float64(s.Term)) }},
	{describe("embedd_model_revision", "Newest revision of the model store's pointer that this process follows."),
		func(s spec.Status) []sample { return one(float64(s.Revision)) }},
	{describe("embedd_lag_messages",
		"Input messages that are not answered yet. Only the trainer's replica has the series."),
		func(s spec.Status) []sample { return ifCounted(s, float64(s.Lag)) }},
	{describe("embedd_lag_seconds", "Age of the oldest input message that is not answered yet; 0 when there is none. "+
		"Only the trainer's replica has the series."),
		func(s spec.Status) []sample { return ifCounted(s, s.Oldest.Seconds()) }},
	{describe("embedd_busy_ratio",
		"Share of about the last ten seconds in which the hot path had an input to answer; near 1 it no longer keeps up."),
		func(s spec.Status) []sample { return one(s.Busy) }},
	{describe("embedd_partitions_held", "Partitions of the input that this process holds, for pipelines with "+
		"input.partitions. The part of the stream stored before it had partitions counts as one."),
		func(s spec.Status) []sample { return ifKnown(s.Partitions) }},
	{describe("embedd_config_generation", "Configurations that the process has run with: 1 at its start, one more after "+
		"each reload that changed something."), func(s spec.Status) []sample { return one(float64(s.Generation)) }},
	{describe("embedd_inflight_bytes", "Memory of the inputs between pull and acknowledgement; on core NATS of those "+
		"that wait."), func(s spec.Status) []sample { return one(float64(s.InFlight)) }},
	{describe("embedd_inflight_limit_bytes", "Limit of embedd_inflight_bytes, limits.in_flight. A single message may "+
		"exceed it."), func(s spec.Status) []sample { return one(float64(s.InFlightLimit)) }},
	{describe("embedd_dead_letters_stored", "Messages that the stream has on the subject of the dead letters, as of the "+
		"last 10 seconds. Only the trainer's replica has the series."),
		func(s spec.Status) []sample { return ifKnown(s.DeadLetters) }},
	{describe("embedd_undeliverable_messages", "Input messages that wait because their dead letters cannot be stored. "+
		"They are redelivered."), func(s spec.Status) []sample { return one(float64(s.Undeliverable)) }},
	{describe("embedd_halted", "1 while the pipeline is halted because too many messages were bad."),
		func(s spec.Status) []sample { return one(boolean(s.Halted != "")) }},
	{describe("embedd_model_info", "Always 1; the labels describe the live model.", "version", "method", "epoch"),
		ofStage(func(s plugin.Status) []sample {
			if s.Live == nil {
				return nil
			}
			method := strings.ToValidUTF8(s.Live.Model.Method(), "\uFFFD")
			return []sample{{[]string{s.Live.Version, method, strconv.Itoa(s.Live.Epoch)}, 1}}
		})},
	{describe("embedd_model_age_seconds",
		"Time since the live model was last confirmed: fitted, or scored on a labelled row and kept."),
		func(s spec.Status) []sample { return one(s.Age.Seconds()) }},
	{describe("embedd_model_pinned", "1 while the live model is pinned and nothing replaces it."),
		ofStage(func(s plugin.Status) []sample { return one(boolean(s.Pinned)) })},
	{describe("embedd_swap_displacement",
		"How far the last promotion moved the outputs after alignment, relative to their spread."),
		func(s spec.Status) []sample { return ifKnown(s.Displacement) }},
	{describe("embedd_hub_silence_seconds",
		"On a leaf node whose models come from a hub: time since the hub last reported the live model."),
		func(s spec.Status) []sample { return when(s.Hub != "", s.HubSilence.Seconds()) }},
	{describe("embedd_model_created_timestamp_seconds", "When the live model was fitted."),
		ofStage(func(s plugin.Status) []sample {
			if s.Live == nil || s.Live.Model.Note().Created.IsZero() { // a model file may not say
				return nil
			}
			return one(float64(s.Live.Model.Note().Created.UnixNano()) / 1e9)
		})},
	{describe("embedd_model_stale", "1 while the live model is older than training.max_age, else 0."),
		func(s spec.Status) []sample { return when(s.Stage.Live != nil, boolean(s.Stale)) }},
	{describe("embedd_accuracy", "Accuracy of the live model: with which it was promoted, and on the held-out rows of "+
		"the window when they last judged a candidate, which is done where labels come in runs.", "kind"),
		func(s spec.Status) (out []sample) {
			if l := s.Stage.Live; l != nil && l.Score > 0 {
				out = append(out, sample{[]string{"promotion"}, l.Score})
			}
			return append(out, sample{[]string{"holdout"}, s.Stage.HeldOut})
		}},
	{describe("embedd_fit_due_rows", "Labelled rows until the next fit is due by their number. Only the trainer has the "+
		"series."), ofStage(func(s plugin.Status) []sample { return ifKnown(s.RowsUntilFit) })},
	{describe("embedd_drift", "Largest difference that the drift detector found at its last check, over its limit: at 1 "+
		"the window is cut, and the value starts over. No series while there are too few rows."),
		ofStage(func(s plugin.Status) []sample { return ifPositive(s.Drift) })},
	{describe("embedd_fits_total", "Models that were fitted, candidates included."),
		ofStage(func(s plugin.Status) []sample { return one(float64(s.Fits)) })},
	{describe("embedd_prequential_accuracy",
		"Prequential accuracy over the last 500 to 1,000 labelled rows: of the live model, of the best candidate, and of "+
			"chance.", "model"), ofStage(func(s plugin.Status) []sample {
		return []sample{{[]string{"live"}, s.Accuracy}, {[]string{"candidate"}, s.Candidate},
			{[]string{"chance"}, s.Chance}}
	})},
	{describe("embedd_evidence", "Evidence for the best candidate; it is promoted at embedd_evidence_required."),
		ofStage(func(s plugin.Status) []sample { return one(s.Evidence) })},
	{describe("embedd_evidence_required", "Evidence at which the door of the best candidate opens; +Inf: it is closed. "+
		"0: there is no candidate."), ofStage(func(s plugin.Status) []sample { return one(s.EvidenceRequired) })},
	{describe("embedd_drift_alarms_total", "Drift alarms, each of which cut the window."),
		ofStage(func(s plugin.Status) []sample { return one(float64(s.Alarms)) })},
	{describe("embedd_window_rows",
		"Labelled rows in the window: all, of the largest class, and of rare classes, with too few rows for a fit.", "class"),
		ofStage(func(s plugin.Status) []sample {
			return []sample{{[]string{"all"}, float64(s.Rows)}, {[]string{"largest"}, float64(s.Largest)},
				{[]string{"rare"}, float64(s.RareClassRows)}}
		})},
	{describe("embedd_window_classes", "Classes with rows in the window."),
		ofStage(func(s plugin.Status) []sample { return one(float64(s.Classes)) })},
	{describe("embedd_seen_classes", "Classes that labelled rows had lately, those of the window included."),
		ofStage(func(s plugin.Status) []sample { return one(float64(s.ClassesSeen)) })},
	{describe("embedd_window_effective_rows", "How many independent rows those of the window are worth: their number "+
		"divided by the design effect of rows that depend on each other. No series while it is not known."),
		ofStage(func(s plugin.Status) []sample { return when(s.Rows != 0, s.EffectiveRows) })},
	{describe("embedd_labelled_ratio", "Share of the rows that arrived since the start that have a label."),
		ofStage(func(s plugin.Status) []sample { return when(s.Received != 0, s.LabelledShare) })},
	{describe("embedd_unusual", "1 for what is unusual about the stream, 0 for the others.", "kind"),
		ofStage(func(s plugin.Status) []sample {
			return oneOf(plugin.UnusualKinds, func(kind plugin.UnusualKind) bool {
				return slices.ContainsFunc(s.Unusual, func(u plugin.Unusual) bool { return u.Kind == kind })
			})
		})},
	{describe("embedd_window_bytes", "Memory of the window, bounded by training.window.bytes."),
		ofStage(func(s plugin.Status) []sample { return one(float64(s.Bytes)) })},
	{describe("embedd_window_limit_bytes", "Limit of embedd_window_bytes, training.window.bytes."),
		ofStage(func(s plugin.Status) []sample { return ifPositive(float64(s.Limits.WindowBytes)) })},
	{describe("embedd_window_limit_rows", "Rows that the window can hold: training.window.rows, or fewer where "+
		"training.window.bytes has no room for so many."),
		ofStage(func(s plugin.Status) []sample { return ifPositive(float64(s.Limits.WindowRows)) })},
	{describe("embedd_window_limit_classes", "Limit of embedd_window_classes, limits.classes."),
		ofStage(func(s plugin.Status) []sample { return ifPositive(float64(s.Limits.Classes)) })},
	{describe("embedd_quarantined_messages",
		"Input messages excluded from training because the process crashed each time it learned from them."),
		func(s spec.Status) []sample { return one(float64(s.Quarantined)) }},
	{describe("embedd_training_stopped",
		"1 while training is stopped because the process crashed in it repeatedly."),
		func(s spec.Status) []sample { return one(boolean(s.TrainingStopped)) }},
	{describe("embedd_training_backlog_rows", "Labelled rows in the training queue."),
		ofStage(func(s plugin.Status) []sample { return one(float64(s.Backlog)) })},
	{describe("embedd_training_newest_row_timestamp_seconds", "Time of the newest labelled row that was learned; "+
		"time() minus this is its age, and where labelled rows arrive, how far training is behind."),
		ofStage(func(s plugin.Status) []sample { return when(!s.Newest.IsZero(), float64(s.Newest.UnixNano())/1e9) })},
	{describe("embedd_training_skipped_rows_total",
		"Labelled rows that were not used for training, by reason: queue_full (they arrived too fast), class_limit "+
			"(limits.classes was reached), outlier (many extreme values, or one beyond 1e140).", "reason"),
		ofStage(func(s plugin.Status) []sample {
			return []sample{{[]string{"queue_full"}, float64(s.Dropped)}, {[]string{"class_limit"}, float64(s.OverClassLimit)},
				{[]string{"outlier"}, float64(s.Outliers)}}
		})},
	{describe("embedd_labels_total", "Late labels by result: joined, corrected (a learned row got another label), "+
		"duplicate, late (their row was gone or never arrived), skip (without key or label); expired counts rows whose "+
		"label never arrived.", "result"), ofLabels(func(l plugin.LabelStatus) []sample {
		return []sample{{[]string{"joined"}, float64(l.Joined)}, {[]string{"corrected"}, float64(l.Corrected)},
			{[]string{"duplicate"}, float64(l.Duplicate)}, {[]string{"late"}, float64(l.Late)},
			{[]string{"expired"}, float64(l.Expired)}, {[]string{"skip"}, float64(l.Skipped)}}
	})},
	{describe("embedd_labels_waiting", "Rows that wait for a label, and labels that wait for a row.", "kind"),
		ofLabels(func(l plugin.LabelStatus) []sample {
			return []sample{{[]string{"rows"}, float64(l.RowsWaiting)}, {[]string{"labels"}, float64(l.LabelsWaiting)}}
		})},
	{describe("embedd_labels_bytes", "Memory of the rows and labels that wait, and of what is kept to correct them."),
		ofLabels(func(l plugin.LabelStatus) []sample { return one(float64(l.Bytes)) })},
	{describe("embedd_labels_limit_bytes", "Limit of embedd_labels_bytes, limits.labels."),
		ofStage(func(s plugin.Status) []sample { return ifPositive(float64(s.Limits.LabelBytes)) })},
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
		for _, s := range m.of(now) {
			if !math.IsNaN(s.value) {
				out <- prometheus.MustNewConstMetric(m.Desc, m.kind, s.value, append([]string{pipeline}, s.labels...)...)
			}
		}
	}
}
