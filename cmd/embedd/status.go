package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/stream"
)

// statusCommand asks running daemons how their pipelines stand.
func statusCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [PIPELINE]", Short: "ask running daemons how their pipelines stand",
		Args: arguments(0, 1),
	}
	f := flagsOf(cmd)
	server := f.server(" of the daemon")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		nc, err := server.dial(ctx, e)
		if err != nil {
			return err
		}
		defer nc.Close()
		names, instances, err := running(ctx, nc, names)
		if err != nil {
			return err
		}
		var reports []stream.Report
		for _, name := range names {
			want := len(reports) + instances[name]
			var failed error
			err := gather(ctx, nc.Conn, stream.ServiceSubject(name, "status"), askWait, func(msg *nats.Msg) bool {
				r, err := reportOf(msg)
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

func printReports(out *output, reports []stream.Report) error {
	if out.json {
		for _, r := range reports {
			if err := out.object(r); err != nil {
				return err
			}
		}
		return nil
	}
	t := out.table("PIPELINE", "STATE", "LAG", "MODEL", "EPOCH", "AGE", "WINDOW", "LEARNING")
	for _, r := range reports {
		state, lag, version, epoch, age := string(r.State), "-", "-", "-", "-"
		if r.Reason != "" {
			state += ": " + r.Reason
		}
		if r.Lag != nil && r.Lag.Messages > 0 {
			lag = fmt.Sprintf("%d, oldest %v", r.Lag.Messages, time.Duration(r.Lag.Seconds)*time.Second)
		}
		if r.Parked != nil && r.State != stream.StateParked {
			state += fmt.Sprintf("; %d inputs are parked: %s", r.Parked.Messages, r.Parked.Reason)
		}
		if m := r.Model; m != nil {
			version, epoch = m.Version+" ("+m.Method+", "+fmt.Sprint(m.Dim)+")", fmt.Sprint(m.Epoch)
			if m.Pinned {
				version += ", pinned"
			}
			age = (time.Duration(m.AgeSeconds) * time.Second).String()
			if m.Stale {
				age += ", stale"
			}
		}
		l := r.Learning
		t.row(r.Pipeline, state, lag, version, epoch, age, fmt.Sprintf("%d rows, %d classes", l.Rows, l.Classes),
			learningText(l, r.Labels, r.Held, r.Others))
	}
	return t.flush()
}

// learningText says how learning goes: how good the live model is, and what may replace it.
func learningText(l stream.Learning, late *stream.Labels, held *int, others string) string {
	var parts []string
	if l.Accuracy != nil {
		parts = append(parts, fmt.Sprintf("accuracy %.3f", *l.Accuracy))
	}
	if l.Candidate != nil {
		parts = append(parts, fmt.Sprintf("a candidate %.3f on %d rows, evidence %.3g", *l.Candidate, l.CandidateRows,
			l.Evidence))
	}
	switch {
	case l.Filling:
		parts = append(parts, "filling the window again")
	case l.Backlog > 0:
		parts = append(parts, fmt.Sprintf("%d rows wait", l.Backlog))
	}
	if late != nil {
		parts = append(parts, fmt.Sprintf("%d rows wait for labels, %d labels for rows", late.Rows, late.Early))
		if late.Note != "" {
			parts = append(parts, late.Note)
		}
	}
	for _, text := range []string{l.LastFit, l.Input} {
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
