package training

import (
	"fmt"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// unreadable counts the messages that could not be decoded for learning, with the last error. Until a first model is
// live they have no dead letters.
type unreadable struct {
	messages int
	last     error
}

// addUnreadable counts a message that cannot be learned. The hot path makes a dead letter of it.
func (p *Path) addUnreadable(m *Message, err error) {
	u := &unreadable{messages: 1, last: err}
	if before := p.unreadable.Load(); before != nil {
		u.messages += before.messages
	} else if p.Running.Live() == nil {
		p.Log.Warn("a message cannot be read, so nothing is learned from it", "source", m.Origin.Source(), "error", err)
	}
	p.unreadable.Store(u)
}

// codeOf returns the code and the text of an error of decoding; "" for none.
func codeOf(err error) (code wire.Code, text string) {
	if err == nil {
		return "", ""
	}
	return scope.CodeOf(err), err.Error()
}

// SetEvent logs what happened to the input, and shows it in the status until the next event.
func (p *Path) SetEvent(text string) {
	p.Log.Warn(text, "stream", p.Stream)
	p.event.Store(text)
}

// Event is what last happened to the input, a sentence, "" when nothing did.
func (p *Path) Event() string {
	text, _ := p.event.Load().(string)
	return text
}

// Report fills in the part of a status about training.
func (p *Path) Report(s *spec.Status) {
	s.LateLabels, s.InputEvent = p.HasLateLabels(), p.Event()
	if s.LateLabels {
		s.DeadLabels = p.Series.Load(health.LabelMessages, "dead")
	}
	if g := p.guard.Load(); g != nil {
		s.Quarantined, s.TrainingStopped = int(g.quarantined.Load()), g.isStopped.Load()
	}
}

// Learned describes the labelled rows and the last fit in a sentence.
func (p *Path) Learned() string {
	s := p.Running.Status()
	text := fmt.Sprintf("%d of %d labelled rows", s.Rows, s.Needed)
	if len(s.Candidates) > 0 {
		text = spec.CountingText(&s)
	}
	if s.Hint != "" {
		text += "; " + s.Hint
	}
	if s.Note != "" {
		text += "; last fit: " + s.Note
	}
	if s := p.Running.LabelStatus(); p.HasLateLabels() {
		text += fmt.Sprintf("; %d rows wait for labels on %s", s.RowsWaiting, p.Labels)
		if s.Note != "" {
			text += "; " + s.Note
		}
	}
	return text
}

// Progress is a sentence on how far learning is from a first model, and what keeps it from one.
func (p *Path) Progress() string {
	text := p.Learned()
	if u := p.unreadable.Load(); u != nil {
		text += fmt.Sprintf("; %d messages cannot be read, the last: %v", u.messages, u.last)
	}
	if event := p.Event(); event != "" {
		text += "; " + event
	}
	return text
}
