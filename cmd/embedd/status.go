package main

import (
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
	cmd := &cobra.Command{
		Use: "status [PIPELINE]", Short: "show the state of running pipelines",
		Args: cli.Arguments(0, 1), ValidArgsFunction: cli.CompleteArguments(client.Pipelines),
	}
	f := cli.FlagsOf(cmd)
	server := client.ServerFlags(f, " of the daemon")
	out := report.TableFlag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		nc, err := server.Dial(ctx, e)
		if err != nil {
			return err
		}
		defer nc.Close()
		names, instances, err := client.Running(ctx, nc, names)
		if err != nil {
			return err
		}
		var reports []stream.Report
		for _, name := range names {
			want := len(reports) + len(instances[name])
			var failed error
			subject := stream.ServiceSubject(name, "status")
			err := client.Gather(ctx, nc.Conn, subject, nil, client.Timeout, func(msg *nats.Msg) bool {
				r, err := client.ReadReport(msg)
				if err != nil {
					failed = fmt.Errorf("pipeline %s: %w", name, err)
					return false
				}
				reports = append(reports, r)
				return len(reports) < want
			})
			if err == nil {
				err = failed
			}
			if err != nil {
				return err
			}
		}
		return printReports(out, reports)
	}
	return cmd
}

func printReports(out *report.Output, reports []stream.Report) error {
	if out.JSON {
		return report.Objects(out, reports)
	}
	t := out.Table("PIPELINE", "STATE", "LAG", "MODEL", "EPOCH", "AGE", "WINDOW", "LEARNING")
	for _, r := range reports {
		state, lag, version, epoch, age := string(r.State), "-", "-", "-", "-"
		if r.Reason != "" {
			state += ": " + r.Reason
		}
		if r.Lag != nil && r.Lag.Messages > 0 {
			lag = fmt.Sprintf("%d, oldest %v", r.Lag.Messages, time.Duration(r.Lag.Seconds)*time.Second)
		}
		if r.Claimed > 0 {
			state += fmt.Sprintf("; %d answers have their second identity, because other messages had the first", r.Claimed)
		}
		if r.Undeliverable != nil && r.State != stream.StateParked {
			state += fmt.Sprintf("; %d inputs are undeliverable: %s", r.Undeliverable.Messages, r.Undeliverable.Reason)
		}
		if m := r.Model; m != nil {
			version, epoch = m.Version+" ("+m.Method+", "+fmt.Sprint(m.Dim)+")", epochText(m.Epoch, m.SameAs, m.Undecided)
			if m.Pinned {
				version += ", pinned"
			}
			if m.WasReset {
				version += ", reset"
			}
			age = (time.Duration(m.AgeSeconds) * time.Second).String()
			if m.Stale {
				age += ", stale"
			}
		}
		l := r.Learning
		t.Row(r.Pipeline, state, lag, version, epoch, age, fmt.Sprintf("%d rows, %s", l.Rows, classesText(&l)),
			learningText(l, r.Labels, r.Partitions, r.Trainer))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printWindows(out, reports)
	return nil
}

// learningText summarises training: the accuracy of the live model, the candidate, and the backlog.
func learningText(l stream.Learning, late *stream.Labels, held *int, others string) string {
	var parts []string
	if l.Accuracy != nil {
		parts = append(parts, fmt.Sprintf("accuracy %.3f", *l.Accuracy))
	}
	if l.Candidate != nil {
		required := "closed"
		if l.EvidenceRequired != nil {
			required = fmt.Sprintf("%.4g", *l.EvidenceRequired)
		}
		parts = append(parts, fmt.Sprintf("a candidate %.3f on %d rows, evidence %.3g of %s at door %s", *l.Candidate,
			l.CandidateRows, l.Evidence, required, l.Door))
	}
	switch {
	case l.Restoring:
		parts = append(parts, "refilling the window")
	case l.Backlog > 0:
		text := fmt.Sprintf("%d rows wait", l.Backlog)
		if l.BehindSeconds != nil {
			text += fmt.Sprintf(", training is %.0f s behind", *l.BehindSeconds)
		}
		parts = append(parts, text)
	}
	if late != nil {
		parts = append(parts, fmt.Sprintf("%d rows wait for labels, %d labels wait for rows", late.RowsWaiting,
			late.LabelsWaiting))
		if late.Note != "" {
			parts = append(parts, late.Note)
		}
	}
	for _, text := range []string{l.LastFit, l.InputEvent} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if held != nil {
		parts = append(parts, fmt.Sprintf("%d partitions here", *held))
	}
	if others != "" {
		parts = append(parts, others)
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, "; ")
}
