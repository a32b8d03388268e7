// Package service is the NATS service of a pipeline: one endpoint for each of its operations.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/relay"
)

// version is the version of the endpoints and their requests and answers.
const version = "1.0.0"

// MetadataPipeline is the key of the service's metadata whose value is the name of the pipeline.
const MetadataPipeline = "pipeline"

// The client drops requests to one endpoint beyond maxPending, or beyond maxPendingBytes in total; for transform, which
// has rows, beyond maxTransformBytes or limits.in_flight.
const (
	maxPending        = 256
	maxPendingBytes   = 1 << 20
	maxTransformBytes = 64 << 20
)

// Service answers requests about one pipeline. Each endpoint answers one request at a time.
type Service struct {
	pipeline *operations.Pipeline
	micro    micro.Service
	noInbox  ratelog.Limiter

	mu        sync.Mutex
	isStopped bool
	running   sync.WaitGroup
}

// Start adds the service and its endpoints to the connection. Stop ends it.
func Start(ctx context.Context, p *operations.Pipeline) (*Service, error) {
	s := &Service{pipeline: p}
	var err error
	s.micro, err = micro.AddService(p.Conn, micro.Config{Name: needs.ServiceName(p.Name), Version: version,
		Description: "embedd pipeline " + p.Name, Metadata: map[string]string{MetadataPipeline: p.Name}})
	if err != nil {
		return nil, err
	}
	for _, o := range operations.All {
		bytes := maxPendingBytes
		if o.IsMessage {
			bytes = int(min(p.InFlight, maxTransformBytes))
		}
		options := []micro.EndpointOpt{micro.WithEndpointSubject(needs.ServiceSubject(p.Name, o.Name)),
			micro.WithEndpointPendingLimits(maxPending, bytes),
			micro.WithEndpointMetadata(map[string]string{"about": o.About})}
		if o.IsForAll {
			options = append(options, micro.WithEndpointQueueGroupDisabled())
		}
		if err := s.micro.AddEndpoint(strings.ReplaceAll(o.Name, " ", "-"), s.handler(ctx, o), options...); err != nil {
			s.Stop()
			return nil, err
		}
	}
	return s, nil
}

// ID is the identity of the service in its connection's server.
func (s *Service) ID() string { return s.micro.Info().ID }

// Stop receives no more requests, and waits for those that are being answered.
func (s *Service) Stop() {
	if err := s.micro.Stop(); err != nil {
		s.pipeline.Log.Debug("the service was not removed from the connection", "error", err)
	}
	s.mu.Lock()
	s.isStopped = true
	s.mu.Unlock()
	s.running.Wait()
}

// begin reports whether a request may still be answered. The caller ends it with running.Done.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isStopped {
		s.running.Add(1)
	}
	return !s.isStopped
}

func (s *Service) handler(ctx context.Context, o operations.Operation) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !needs.IsInbox(s.pipeline.Conn, r.Reply()) {
			s.noInbox.Warn(s.pipeline.Log, "a request is not answered: its reply subject is no inbox", "subject", r.Subject(),
				"reply", r.Reply(), "fix", "use a reply subject that begins with _INBOX or with nats.inbox_prefix of the daemon")
			return
		}
		if !s.begin() {
			s.refuse(r, operations.WithCode(operations.CodeStopping,
				errors.New("the engine is stopping; send the request again")))
			return
		}
		defer s.running.Done()
		ctx, cancel := context.WithTimeout(ctx, needs.RequestTimeout)
		defer cancel()
		got, err := s.do(ctx, &o, r.Data())
		if errors.Is(err, operations.ErrNotTrainer) {
			return
		}
		if err != nil {
			s.refuse(r, err)
			return
		}
		headers := micro.Headers{}
		out, isRows := got.(operations.Message)
		if isRows {
			headers[wire.HeaderContentType] = []string{out.Format.ContentType()}
			for _, pair := range out.Pairs {
				headers[pair.Key] = []string{pair.Value}
			}
		} else if out.Data, err = json.Marshal(got); err != nil {
			s.refuse(r, err)
			return
		}
		if limit := s.pipeline.Conn.MaxPayload() - needs.OwnHeaderBytes; int64(len(out.Data)) > limit {
			s.refuse(r, operations.WithCode(string(wire.TooLarge),
				fmt.Errorf("the answer has %d bytes and the server takes %d; ask for less, or raise the server's max_payload",
					len(out.Data), limit)))
			return
		}
		if err := r.Respond(out.Data, micro.WithHeaders(headers)); err != nil {
			s.pipeline.Log.Debug("a request cannot be answered", "subject", r.Subject(), "error", err)
		}
	})
}

// do reads a request and does what it asks for.
func (s *Service) do(ctx context.Context, o *operations.Operation, data []byte) (any, error) {
	if o.IsMessage {
		return o.Do(s.pipeline, ctx, &operations.Request{Data: data})
	}
	q, err := operations.Read(data)
	if err != nil {
		return nil, err
	}
	if q.By == "" {
		q.By = "a NATS request"
	}
	return o.Do(s.pipeline, ctx, &q)
}

// ErrorHeaders are the headers of an answer that is an error.
func ErrorHeaders(code string, err error) nats.Header {
	text := relay.HeaderText(err)
	return nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}, wire.HeaderCode: {code},
		wire.HeaderError: {text}}
}

// refuse answers with an error: its code and its text, in the headers of NATS services and of embedd.
func (s *Service) refuse(r micro.Request, err error) {
	headers := ErrorHeaders(operations.CodeOf(err), err)
	code, text := headers.Get(wire.HeaderCode), headers.Get(wire.HeaderError)
	if err = r.Error(code, text, nil, micro.WithHeaders(micro.Headers(headers))); err != nil {
		s.pipeline.Log.Debug("a request cannot be answered", "subject", r.Subject(), "error", err)
	}
}
