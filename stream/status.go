package stream

import (
	"strings"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/spec"
)

// Status returns the state of the pipelines; nil before Run has opened them.
func (e *Engine) Status() []Status {
	if !e.isOpen.Load() {
		return nil
	}
	all := e.pipelines()
	out := make([]Status, 0, len(all))
	for _, p := range all {
		out = append(out, p.status())
	}
	return out
}

// status composes the status from what each part of the pipeline reports.
func (p *pipeline) status() Status {
	s := Status{Stage: p.Running.Status(), Contract: p.Running.Contract(), Labels: p.Running.LabelStatus(),
		FixedModel: p.Stage.Fixed != nil}
	s.Pipeline, s.Generation = p.Name, int(p.generation.Load())
	s.Messages, s.DeadRows = p.Series.Total()
	p.training.Report(&s)
	p.replica.Report(&s)
	p.relay.Report(&s)
	s.Age, s.Stale = p.Freshness.Age()
	s.Lag, s.Oldest, s.LagKnown = p.lag()
	if seen := p.observer.Snapshot(); seen != nil {
		s.DeadLetters = seen.Dead
	}
	p.updateConditions()
	s.Conditions = p.Conditions.All()
	f := health.Facts{IsDraining: p.isDraining.Load(), Until: p.Stage.Until, WhenStale: p.WhenStale,
		Blocked: p.Conditions.First(spec.BlocksAnswers), Parked: p.Conditions.First(spec.BlocksDeadLetters),
		Notice:      p.Conditions.First(spec.BlocksNothing),
		IsInspected: p.Input == nil || p.LearnsFromEdges() || p.observer.Snapshot() != nil,
		Idle:        p.relay.Idle()}
	if s.Stage.Live == nil {
		f.Progress = p.progress()
	} else {
		f.Learning, f.Stale = p.training.Learned(), p.relay.StaleReason(s.Age)
	}
	s.State, s.Reason = health.Derive(&s, f)
	if open := spec.OpenText(s.Changes, p.Name); open != "" {
		s.Reason = strings.TrimPrefix(s.Reason+"; "+open, "; ")
	}
	s.Ready = s.State.Ready()
	return s
}

// lag returns how many inputs wait for an answer, as last inspected or on core NATS here, and the age of the oldest.
func (p *pipeline) lag() (messages uint64, age time.Duration, isKnown bool) {
	messages, oldest := p.relay.CoreLag()
	isKnown = true
	if s := p.observer.Snapshot(); s != nil {
		messages, oldest, isKnown = s.Lag, s.Oldest, s.LagKnown
	}
	if !oldest.IsZero() {
		age = max(0, time.Since(oldest))
	}
	return messages, age, isKnown
}

// updateConditions sets the conditions that are read from the connection and the replica.
func (p *pipeline) updateConditions() {
	p.Conditions.Set(health.ModelStore, p.replica.Outdated())
	if foreign := replica.ForeignEntries(p.replica); p.Conditions.Set(health.ForeignEntry, foreign) && foreign != "" {
		p.Log.Warn("a key was overwritten by a message that no replica wrote", "reason", foreign)
	}
	offline := ""
	if !p.Conn.IsConnected() {
		offline = "not connected to the server"
	}
	p.Conditions.Set(health.Connection, offline)
	if p.Input == nil {
		for component, subject := range map[health.Component]string{health.Permission: p.OutputPattern(),
			health.DeadLetter: p.Dead} {
			p.Conditions.SetError(component, p.Permissions.PublishDenied(subject))
		}
	}
}
