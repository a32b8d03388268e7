package stream

import (
	"context"

	"github.com/embedd/embedd/stream/internal/scope"
)

// noteLetters counts and logs the dead letters of an answer that was stored.
func (p *relay) noteLetters(a *answer) {
	for _, l := range a.letters {
		p.letterLog.Add(&l.Letter)
	}
}

// sendLabelLetter sends the dead letter of a message of labels.
func (p *relay) sendLabelLetter(ctx context.Context, m *scope.Message, cause error) error {
	a := p.deadMessage(&answer{in: &input{Message: *m}}, cause)
	if p.labelLetters == nil { // core NATS
		p.sendCore(a)
		return nil
	}
	// An earlier process may have sent it: after a restart labels are read again.
	p.labelLetters.markStored(ctx, a, true)
	u, err := newPublisher(p.Conn, p.Models.Hub)
	if err != nil {
		return err
	}
	defer u.close()
	a, err = newConfirmer(p, u).deliver(ctx, a)
	if err == nil {
		p.noteLetters(a)
	}
	return err
}
