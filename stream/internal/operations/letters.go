package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/dlq"
	"github.com/embedd/embedd/stream/internal/needs"
)

// The bounds of dead letters: those that are listed, those that are replayed at once, and how many of the newest
// messages of their stream are read.
const (
	maxLetters    = 100
	lettersWithin = 1000
)

// listedLetter is a dead letter of the list, and why the daemon would not replay it.
type listedLetter struct {
	dlq.ListedLetter
	WhyNot string `json:"why_not,omitempty"`
}

// readLetters waits until no other request of this process reads dead letters of the pipeline, and reads.
func readLetters(p *Pipeline, ctx context.Context, read func() error) error {
	select {
	case p.letters <- struct{}{}:
		defer func() { <-p.letters }()
		return read()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listLetters answers with the newest dead letters, the newest first, without their bodies.
func listLetters(p *Pipeline, ctx context.Context, _ *Request) (any, error) {
	newest := []listedLetter{}
	which := dlq.DeadLetters{Subject: p.Dead, Pipeline: p.Name, Within: lettersWithin}
	err := readLetters(p, ctx, func() error {
		return which.Read(ctx, p.JS, func(l *dlq.DeadLetter) error {
			newest = append(newest, listedLetter{ListedLetter: l.Listed()})
			newest = newest[max(0, len(newest)-maxLetters):]
			return nil
		})
	})
	if err != nil {
		return nil, notStored(err)
	}
	slices.Reverse(newest)
	for i := range newest {
		if err := mayReplay(p, newest[i].Stream, newest[i].Input); err != nil {
			newest[i].WhyNot = err.Error()
		}
	}
	return map[string]any{"dead_letters": newest}, nil
}

// notStored is the error of a pipeline whose dead letters no stream has.
func notStored(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return WithCode(CodeNotStored, errors.New("dead letters are not stored: no stream has their subject"))
	}
	return err
}

// replay replays dead letters, one after another. What was done is in the answer also if the rest fails.
func replay(p *Pipeline, ctx context.Context, q *Request) (any, error) {
	if n := len(q.Numbers); n == 0 || n > maxLetters {
		return nil, WithCode(CodeBadRequest, fmt.Errorf("the request has %d numbers; want 1 to %d", n, maxLetters))
	}
	which := dlq.DeadLetters{Subject: p.Dead, Pipeline: p.Name, Bodies: true}
	out := []dlq.ReplayedLetter{}
	for _, number := range q.Numbers {
		var l *dlq.DeadLetter
		err := readLetters(p, ctx, func() (err error) {
			l, err = which.Find(ctx, p.JS, number)
			return err
		})
		if errors.Is(err, dlq.ErrNoDeadLetter) { // another operator was first
			out = append(out, dlq.ReplayedLetter{Number: number, Error: err.Error()})
			continue
		}
		if err != nil && len(out) == 0 {
			return nil, notStored(err)
		}
		if err != nil {
			out = append(out, dlq.ReplayedLetter{Number: number, Kept: true, Error: err.Error()})
			break // it would fail for the others too
		}
		if err := mayReplay(p, l.Stream, l.Header.Get(wire.HeaderSubject)); err != nil {
			one, _ := dlq.Replays{DryRun: true}.Do(ctx, p.JS, l) // describes it
			one.DryRun, one.Error = false, err.Error()
			out = append(out, one)
			continue
		}
		one, err := dlq.Replays{}.Do(ctx, p.JS, l)
		out = append(out, one)
		if err != nil {
			break // it would fail for the others too
		}
	}
	p.record(ctx, "replay", q, "numbers", q.Numbers)
	return map[string]any{"replayed": out}, nil
}

// mayReplay returns an error unless a subject is one of the pipeline's inputs, and the daemon may publish on it and
// delete the dead letter from its stream. The publisher of a dead letter chooses its header with the subject, and the
// daemon has permissions that an operator may lack.
func mayReplay(p *Pipeline, stream, subject string) error {
	isInput := p.Labels != "" && wildcard.Covers(p.Labels, subject)
	for _, q := range needs.Partitions(&p.Pipeline) {
		isInput = isInput || wildcard.Covers(q.Filter(p.Subject), subject)
	}
	if !isInput {
		return fmt.Errorf("subject %q is no input of pipeline %s; `embedd dlq replay` publishes there, with the permissions "+
			"of its user", subject, p.Name)
	}
	for _, one := range []string{subject, natsx.APIPrefix(p.JS) + "STREAM.MSG.DELETE." + stream} {
		if p.Permissions.PublishDenied(one) != nil {
			return fmt.Errorf("the daemon has no permission to publish on %q, which a replay needs: grant it, or use `embedd "+
				"dlq replay` as a user of role operator", one)
		}
	}
	return nil
}
