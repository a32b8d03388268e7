package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/relay"
)

// endpoint answers the requests to one subject, one at a time.
type endpoint struct {
	about    *operations.Operation // nil: it answers PING, INFO and STATS
	maxBytes int                   // of the requests that wait

	// Guarded by the mutex of the service.
	stats     micro.EndpointStats
	pending   []*nats.Msg
	bytes     int // of them
	isRunning bool
}

// receive has a request answered after those before it. A goroutine runs while there are any.
func (s *Service) receive(e *endpoint, msg *nats.Msg) {
	s.mu.Lock()
	requests, bytes := len(e.pending), e.bytes
	isFull := requests == maxPending || bytes+msg.Size() > e.maxBytes
	if !isFull {
		e.pending, e.bytes = append(e.pending, msg), bytes+msg.Size()
	}
	if !isFull && !e.isRunning {
		e.isRunning = true
		s.running.Go(func() { s.run(e) })
	}
	s.mu.Unlock()
	if isFull {
		s.tooMany.Warn(s.pipeline.Log, "requests are dropped: too many wait for an answer", "subject", msg.Subject,
			"requests", requests, "bytes", bytes)
	}
}

func (s *Service) run(e *endpoint) {
	for {
		s.mu.Lock()
		if len(e.pending) == 0 {
			e.pending, e.isRunning = nil, false
			s.mu.Unlock()
			return
		}
		msg := e.pending[0]
		e.pending[0] = nil
		e.pending, e.bytes = e.pending[1:], e.bytes-msg.Size()
		s.mu.Unlock()
		if !needs.IsInbox(s.pipeline.Conn, msg.Reply) {
			s.noInbox.Warn(s.pipeline.Log, "a request is not answered: its reply subject is no inbox", "subject", msg.Subject,
				"reply", msg.Reply, "fix", "use a reply subject that begins with _INBOX or with nats.inbox_prefix of the daemon")
			continue
		}
		begin := time.Now()
		err := s.answer(e, msg)
		if err != nil {
			s.pipeline.Log.Debug("a request was not answered as asked", "subject", msg.Subject, "error", err)
		}
		s.mu.Lock()
		e.stats.NumRequests++
		e.stats.ProcessingTime += time.Since(begin)
		e.stats.AverageProcessingTime = e.stats.ProcessingTime / time.Duration(e.stats.NumRequests)
		if err != nil {
			e.stats.NumErrors++
			e.stats.LastError = err.Error()
		}
		s.mu.Unlock()
	}
}

// errStopping refuses requests during a stop.
var errStopping = operations.WithCode(operations.CodeStopping,
	errors.New("the engine is stopping; send the request again"))

// answer answers a request. It returns the error that it answered with, or the one of the response.
func (s *Service) answer(e *endpoint, msg *nats.Msg) error {
	if e.about == nil {
		return s.describe(msg)
	}
	answer := nats.NewMsg("")
	err := errStopping
	if !s.isStopped.Load() {
		err = s.do(s.ctx, e.about, msg.Data, answer)
	}
	switch {
	case errors.Is(err, operations.ErrNotTrainer):
		return nil
	case err != nil:
		answer.Header, answer.Data = ErrorHeaders(operations.CodeOf(err), err), nil
	}
	return errors.Join(err, msg.RespondMsg(answer))
}

// do reads a request, does what it asks for, and fills in the answer.
func (s *Service) do(ctx context.Context, o *operations.Operation, data []byte, answer *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, needs.RequestTimeout)
	defer cancel()
	q := operations.Request{Data: data}
	if !o.IsMessage {
		var err error
		if q, err = operations.Read(data); err != nil {
			return err
		}
		if q.By == "" {
			q.By = "a NATS request"
		}
	}
	got, err := o.Do(s.pipeline, ctx, &q)
	if err != nil {
		return err
	}
	if out, isRows := got.(operations.Message); isRows {
		answer.Data = out.Data
		answer.Header.Set(wire.HeaderContentType, out.Format.ContentType())
		for _, pair := range out.Pairs {
			answer.Header[pair.Key] = []string{pair.Value}
		}
	} else if answer.Data, err = json.Marshal(got); err != nil {
		return err
	}
	if limit := s.pipeline.Conn.MaxPayload() - needs.OwnHeaderBytes; int64(len(answer.Data)) > limit {
		return operations.WithCode(string(wire.TooLarge),
			fmt.Errorf("the answer has %d bytes and the server takes %d; ask for less, or raise the server's max_payload",
				len(answer.Data), limit))
	}
	return nil
}

// ErrorHeaders are the headers of an answer that is an error: its code and its text, as NATS services and as embedd
// name them.
func ErrorHeaders(code string, err error) nats.Header {
	text := relay.HeaderText(err)
	return nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}, wire.HeaderCode: {code},
		wire.HeaderError: {text}}
}
