package plugin

import (
	"context"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/evidence"
)

// Standby keeps the stage from fitting while another process of the same stream does, or lets it. On standby it learns
// every row, so that its window is full when its turn comes, and what Adopt brings answers at once. Config.Standby is
// how a stage begins. With a fixed model it does nothing.
func (s *Stage) Standby(on bool) {
	if s.learner != nil {
		s.learner.stand(on)
	}
}

// stand changes sides, at its turn among the lessons.
func (l *learner) stand(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.standby != on {
		l.standby = on
		l.push(&lesson{standby: &on})
	}
}

// stand keeps the trainer from fitting, or lets it. Candidates of a trainer that was only interrupted stay as they were;
// one that another has come before begins from what that one stored, which Adopt has brought.
func (t *trainer) stand(ctx context.Context, on bool) {
	t.standby = on
	if on {
		return
	}
	if len(t.candidates) == 0 {
		t.policy.Fitted = nil
	}
	if t.resume == nil {
		t.look(ctx)
	}
}

// keepStep brings the window to where that of the process stood that stored a model, and returns what it had chosen.
func (t *trainer) keepStep(m *Live) *model.Choice {
	if len(m.State) == 0 {
		return nil
	}
	s, err := readState(m.State)
	if err != nil {
		return nil // it is of a newer form; the model says enough
	}
	if t.standby && t.window != nil {
		t.window.Cut(s.Start)
		t.references.cut(s.Start)
		t.window.LowerLevel(s.Level)
		t.references.follow(t.window)
	}
	return s.Choice
}

// forget leaves of a checkpoint what is of the rows: what it says of models is of others than the live one.
func (s *state) forget() {
	s.Candidates, s.Scouts, s.Live, s.Drift, s.Policy.Fitted = nil, nil, agreement{}, evidence.Adaptive{}, nil
}
