package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

func statusCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("status [PIPELINE]", "show the state of running pipelines", 0, 1)
	cmd.ValidArgsFunction = cli.CompleteArguments(client.Pipelines)
	server := client.ServerFlags(f, " of the daemon")
	out := report.TableFlag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		nc, err := server.Dial(ctx, e)
		if err != nil {
			return err
		}
		names, instances, err := client.Running(ctx, nc, names)
		if err != nil {
			return err
		}
		var reports []stream.Report
		var failed error
		for _, name := range names {
			remaining := len(instances[name])
			subject := stream.ServiceSubject(name, "status")
			err := client.Gather(ctx, nc.Conn, subject, nil, client.Timeout, func(msg *nats.Msg) bool {
				if r, err := client.ReadReport(msg); err == nil {
					reports = append(reports, r)
				} else { // it does not hide what the others report
					failed = errors.Join(failed, fmt.Errorf("pipeline %s: %w", name, err))
				}
				remaining--
				return remaining > 0
			})
			if err != nil {
				return err
			}
		}
		if len(reports) == 0 && failed != nil {
			return failed
		}
		return errors.Join(printReports(out, reports), failed)
	}
	return cmd
}

// printReports prints a table of the pipelines, and longer texts below each row. For a pipeline without a model that is
// the reason alone.
func printReports(out *report.Output, reports []stream.Report) error {
	if out.JSON {
		return report.Objects(out, reports)
	}
	t := out.Table("PIPELINE", "STATE", "LAG", "EPOCH", "AGE", "WINDOW", "ACCURACY")
	for _, r := range reports {
		l := &r.Learning
		lag, epoch, age, window, accuracy := "-", "-", "-", "-", "-"
		if r.Lag != nil && r.Lag.Messages > 0 {
			lag = fmt.Sprintf("%d, oldest %v", r.Lag.Messages, time.Duration(r.Lag.Seconds)*time.Second)
		}
		if m := r.Model; m != nil {
			epoch = epochText(m.Epoch, m.SameAs, m.Undecided)
			age = (time.Duration(m.AgeSeconds) * time.Second).String()
		}
		if l.Rows > 0 {
			window = fmt.Sprintf("%d rows", l.Rows)
		}
		if l.Accuracy != nil {
			accuracy = fmt.Sprintf("%.3f", *l.Accuracy)
		}
		t.Row(r.Pipeline, r.State, lag, epoch, age, window, accuracy)
		t.Below(r.Reason)
		if r.Claimed > 0 {
			t.Below(fmt.Sprintf("%d answers have their second identity, because other messages had the first", r.Claimed))
		}
		if r.DeadLabels > 0 {
			t.Below(fmt.Sprintf("%.0f label messages became dead letters since the start", r.DeadLabels))
		}
		if r.Undeliverable != nil && r.State != stream.StateParked {
			t.Below(fmt.Sprintf("%d inputs are undeliverable: %s", r.Undeliverable.Messages, r.Undeliverable.Reason))
		}
		if m := r.Model; m != nil {
			text := fmt.Sprintf("model: %s, %s, %d dimensions", m.Version, m.Method, m.Dim)
			for _, state := range []struct {
				holds bool
				name  string
			}{{m.Pinned, "pinned"}, {m.WasReset, "reset"}, {m.Stale, "stale"}} {
				if state.holds {
					text += ", " + state.name
				}
			}
			t.Below(text)
		}
		printLearning(t, &r)
	}
	return t.Flush()
}

// printLearning adds what is known about training: the window, the candidate, and the backlog.
func printLearning(t *report.Table, r *stream.Report) {
	l := &r.Learning
	if l.Rows > 0 {
		t.Below("window: " + windowText(l))
	}
	for _, u := range l.Unusual {
		t.Below(string(u.Kind) + ": " + u.Text)
	}
	if l.Candidate != nil {
		required := "closed"
		if l.EvidenceRequired != nil {
			required = fmt.Sprintf("%.4g", *l.EvidenceRequired)
		}
		t.Below(fmt.Sprintf("candidate: %.3f on %d rows, evidence %.3g of %s at door %s", *l.Candidate, l.CandidateRows,
			l.Evidence, required, l.Door))
	}
	switch {
	case l.Restoring:
		t.Below("refilling the window")
	case l.BehindSeconds != nil && l.Backlog > 0:
		t.Below(fmt.Sprintf("%d rows wait, training is %.0f s behind", l.Backlog, *l.BehindSeconds))
	case l.Backlog > 0:
		t.Below(fmt.Sprintf("%d rows wait", l.Backlog))
	}
	if late := r.Labels; late != nil {
		t.Below(fmt.Sprintf("%d rows wait for labels, %d labels wait for rows", late.RowsWaiting, late.LabelsWaiting))
		if !strings.Contains(r.Reason, late.Note) {
			t.Below(late.Note)
		}
	}
	if l.LastFit != "" {
		t.Below("last fit: " + l.LastFit)
	}
	t.Below(l.InputEvent)
	if r.Partitions != nil {
		t.Below(fmt.Sprintf("%d partitions here", *r.Partitions))
	}
	t.Below(r.Trainer)
}

// windowText describes the rows that a pipeline learns from.
func windowText(l *stream.Learning) string {
	text := fmt.Sprintf("%d rows", l.Rows)
	if l.EffectiveRows != nil && int(*l.EffectiveRows) != l.Rows {
		text += fmt.Sprintf(" (worth %.0f independent ones)", *l.EffectiveRows)
	}
	if l.ClassesSeen > l.Classes {
		text += fmt.Sprintf(", %d of %d classes", l.Classes, l.ClassesSeen)
	} else {
		text += fmt.Sprintf(", %d classes", l.Classes)
	}
	if l.HasRuns && l.RunRows != nil {
		text += fmt.Sprintf(", runs of %.3g rows", *l.RunRows)
	}
	if l.LabelledShare != nil {
		text += fmt.Sprintf(", labels on %.3g %% of the rows", 100**l.LabelledShare)
	}
	return text
}
