package dlq

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// ListedLetter is a dead letter in a list, as `embedd dlq ls --format json` prints it.
type ListedLetter struct {
	Stream   string    `json:"stream"`
	Number   uint64    `json:"number"`
	Time     time.Time `json:"time"`
	Subject  string    `json:"subject"` // of the dead letter
	Code     string    `json:"code"`
	Kind     string    `json:"kind"`
	Source   string    `json:"source,omitempty"`
	Input    string    `json:"input"` // the subject of the message
	Attempts int       `json:"attempts"`
	Rows     string    `json:"rows,omitempty"`
	Bytes    int       `json:"bytes"`
	Parts    int       `json:"parts"`
	Of       int       `json:"of"`
	Error    string    `json:"error"`
}

// Listed describes a dead letter without its body.
func (l *DeadLetter) Listed() ListedLetter {
	attempts, _ := strconv.Atoi(l.Header.Get(wire.HeaderAttempts))
	return ListedLetter{Stream: l.Stream, Number: l.Number, Time: l.Time, Subject: l.Subject,
		Code: l.Header.Get(wire.HeaderCode), Kind: l.Header.Get(wire.HeaderKind), Source: l.Header.Get(wire.HeaderSource),
		Input: l.Header.Get(wire.HeaderSubject), Attempts: attempts, Rows: l.Header.Get(wire.HeaderRows), Bytes: l.Bytes,
		Parts: l.Parts, Of: l.Of, Error: l.Header.Get(wire.HeaderError)}
}

// ReplayedLetter is the result of a replay, as `embedd dlq replay --format json` prints it.
type ReplayedLetter struct {
	Stream string `json:"stream"`
	Number uint64 `json:"number"`
	Code   string `json:"code"`
	Source string `json:"source,omitempty"`
	To     string `json:"to"`
	Bytes  int    `json:"bytes"`
	As     string `json:"as,omitempty"`    // STREAM:NUMBER of the new message
	Again  bool   `json:"again,omitempty"` // it was replayed before, and the stream took no second message
	Kept   bool   `json:"kept"`            // it is still among the dead letters
	DryRun bool   `json:"dry_run,omitempty"`
	Error  string `json:"error,omitempty"` // why it was not, or would not be, replayed
}

// Replays says how dead letters are replayed.
type Replays struct {
	To     string // subject instead of the original one
	Keep   bool   // do not delete them
	DryRun bool   // only describe them
}

// replayTimeout is how long the replay of one dead letter may take.
const replayTimeout = 5 * time.Second

// Do replays a dead letter that was read with its body, and deletes it. The error is that of a deletion that failed,
// after which the next replay would publish the message again; why a letter was not replayed is in the result. A letter
// that was read without its body is not replayed.
func (r Replays) Do(ctx context.Context, js jetstream.JetStream, l *DeadLetter) (ReplayedLetter, error) {
	one := ReplayedLetter{Stream: l.Stream, Number: l.Number, Code: l.Header.Get(wire.HeaderCode),
		Source: l.Header.Get(wire.HeaderSource), To: cmp.Or(r.To, l.Header.Get(wire.HeaderSubject)), Bytes: l.Bytes,
		Kept: true, DryRun: r.DryRun}
	if r.DryRun {
		if _, err := l.replayMessage(r.To); err != nil {
			one.Error = err.Error()
		}
		return one, nil
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	ack, err := l.replay(ctx, js, r.To)
	if ack != nil {
		one.As, one.Again = fmt.Sprintf("%s:%d", ack.Stream, ack.Sequence), ack.Duplicate
	}
	if err != nil {
		one.Error = err.Error()
		return one, nil
	}
	if r.Keep {
		return one, nil
	}
	if err := l.remove(ctx, js); err != nil {
		one.Error = fmt.Sprintf("it was not deleted, and would be replayed again: %v", err)
		return one, err
	}
	one.Kept = false
	return one, nil
}
