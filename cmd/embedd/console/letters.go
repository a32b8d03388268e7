package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// The bounds of dead letters: those that are listed, those that are replayed at once, and how many of the newest
// messages of their stream are read.
const (
	maxLetters    = 100
	lettersWithin = 1000
)

// replayTimeout is how long a request to replay dead letters may take, answerTimeout how long its answer then may.
const (
	replayTimeout = time.Minute
	answerTimeout = 10 * time.Second
)

// deadLetters selects the dead letters of the pipeline that a request names.
func (s *server) deadLetters(r *request) (jetstream.JetStream, admin.DeadLetters, error) {
	subject := s.options.Dead[r.pipeline()]
	if subject == "" {
		return nil, admin.DeadLetters{}, fmt.Errorf("%w: %s", stream.ErrNoPipeline, r.pipeline())
	}
	conn := s.options.Conn()
	if conn == nil {
		return nil, admin.DeadLetters{}, errNotOpen
	}
	js, err := conn.JetStream()
	return js, admin.DeadLetters{Subject: subject}, err
}

// letters answers with the newest dead letters, the newest first, without their bodies.
func (s *server) letters(_ http.ResponseWriter, r *request) (any, error) {
	js, which, err := s.deadLetters(r)
	if err != nil {
		return nil, err
	}
	which.Within = lettersWithin
	var newest []admin.ListedLetter
	err = which.Read(r.Context(), js, func(l *admin.DeadLetter) error {
		newest = append(newest, l.Listed())
		newest = newest[max(0, len(newest)-maxLetters):]
		return nil
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, stream.WithCode("not_found", errors.New("dead letters are not stored: no stream has their subject"))
	}
	out := []admin.ListedLetter{}
	for i := len(newest) - 1; i >= 0; i-- {
		out = append(out, newest[i])
	}
	return map[string]any{"dead_letters": out}, err
}

// replay replays the dead letters of a request, one after another. What was done is in the answer also if the rest
// fails.
func (s *server) replay(w http.ResponseWriter, r *request) (any, error) {
	if n := len(r.body.Numbers); n == 0 || n > maxLetters {
		return nil, badRequest(fmt.Errorf("the request has %d numbers; want 1 to %d", n, maxLetters))
	}
	js, which, err := s.deadLetters(r)
	if err != nil {
		return nil, err
	}
	which.Bodies = true
	ctx, cancel := context.WithTimeout(r.Context(), replayTimeout)
	defer cancel()
	err = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replayTimeout + answerTimeout))
	if err != nil {
		return nil, err
	}
	out := []admin.ReplayedLetter{}
	for _, number := range r.body.Numbers {
		l, err := which.Find(ctx, js, number)
		if errors.Is(err, admin.ErrNoDeadLetter) { // another operator was first
			out = append(out, admin.ReplayedLetter{Number: number, Error: err.Error()})
			continue
		}
		if err != nil && len(out) == 0 {
			return nil, err
		}
		if err != nil {
			out = append(out, admin.ReplayedLetter{Number: number, Kept: true, Error: err.Error()})
			break // it would fail for the others too
		}
		one, err := admin.Replays{}.Do(ctx, js, l)
		out = append(out, one)
		if err != nil {
			break // it would fail for the others too
		}
	}
	s.options.Log.Info("an operator replayed dead letters", "pipeline", r.pipeline(), "numbers", r.body.Numbers,
		"by", r.by())
	return map[string]any{"replayed": out}, nil
}
