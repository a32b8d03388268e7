// Package service has the NATS service of a pipeline: status, transforms on request, and the choice of the live model.
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
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
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
	pipeline Pipeline
	micro    micro.Service
	noInbox  ratelog.Limiter

	mu        sync.Mutex
	isStopped bool
	running   sync.WaitGroup
}

// Pipeline is the pipeline of a service.
type Pipeline struct {
	*scope.Scope
	Relay    *relay.Relay
	Replica  *replica.Replica
	Status   func() spec.Status
	Progress func() string // why no model is live yet
}

// Start adds the service and its endpoints to the connection. Stop ends it.
func Start(ctx context.Context, p Pipeline) (*Service, error) {
	s := &Service{pipeline: p}
	var err error
	s.micro, err = micro.AddService(p.Conn, micro.Config{Name: needs.ServiceName(p.Name), Version: version,
		Description: "embedd pipeline " + p.Name, Metadata: map[string]string{MetadataPipeline: p.Name}})
	if err != nil {
		return nil, err
	}
	for _, e := range []struct {
		name, about string
		answer      func(context.Context, *nats.Msg) (any, error)
		isForAll    bool // every replica receives the request, else one of them
	}{
		{"status", "status of the pipeline", s.status, true},
		{"retrain", "fit a candidate now", s.retrain, true},
		{"resume", "resume after too many bad messages", s.resume, true},
		{"transform", "transform an Arrow message", s.transform, false},
		{"model ls", "list the versions and the rejected candidates", s.list, false},
		{"model show", `show a model: {"version":"..."}; default: the live version`, s.show, false},
		{"model conversion", `the map from the outputs of the epoch before: {"version":"..."}; default: the live version`,
			s.conversion, false},
		{"model pin", `make a version live and keep it: {"version":"..."}; default: the live version`,
			s.pin, false},
		{"model unpin", "unpin the live version", s.unpin, false},
		{"model rollback", `make an earlier version live: {"version":"..."}; default: the previous version`, s.rollback,
			false},
	} {
		bytes := maxPendingBytes
		if e.name == "transform" {
			bytes = int(min(p.InFlight, maxTransformBytes))
		}
		options := []micro.EndpointOpt{micro.WithEndpointSubject(needs.ServiceSubject(p.Name, e.name)),
			micro.WithEndpointPendingLimits(maxPending, bytes),
			micro.WithEndpointMetadata(map[string]string{"about": e.about})}
		if e.isForAll {
			options = append(options, micro.WithEndpointQueueGroupDisabled())
		}
		if err := s.micro.AddEndpoint(strings.ReplaceAll(e.name, " ", "-"), s.handler(ctx, e.answer),
			options...); err != nil {
			s.Stop()
			return nil, err
		}
	}
	return s, nil
}

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

// reply is an answer that is an Arrow message, with its headers. Other answers are sent as JSON.
type reply struct {
	data  []byte
	pairs []wire.Pair
}

func (s *Service) handler(ctx context.Context, answer func(context.Context, *nats.Msg) (any, error)) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !needs.IsInbox(s.pipeline.Conn, r.Reply()) {
			s.noInbox.Warn(s.pipeline.Log, "a request is not answered: its reply subject is no inbox", "subject", r.Subject(),
				"reply", r.Reply(), "fix", "use a reply subject that begins with _INBOX or with nats.inbox_prefix of the daemon")
			return
		}
		if !s.begin() {
			s.refuse(r, coded(CodeStopping, errors.New("the engine is stopping; send the request again")))
			return
		}
		defer s.running.Done()
		ctx, cancel := context.WithTimeout(ctx, needs.RequestTimeout)
		defer cancel()
		got, err := answer(ctx, &nats.Msg{Subject: r.Subject(), Header: nats.Header(r.Headers()), Data: r.Data()})
		if errors.Is(err, errNotTrainer) {
			return
		}
		if err != nil {
			s.refuse(r, err)
			return
		}
		out, isArrow := got.(reply)
		headers := micro.Headers{}
		if isArrow {
			headers[wire.HeaderContentType] = []string{wire.ContentType}
			for _, pair := range out.pairs {
				headers[pair.Key] = []string{pair.Value}
			}
		} else if out.data, err = json.Marshal(got); err != nil {
			s.refuse(r, err)
			return
		}
		if limit := s.pipeline.Conn.MaxPayload() - needs.OwnHeaderBytes; int64(len(out.data)) > limit {
			s.refuse(r, coded(string(wire.TooLarge),
				fmt.Errorf("the answer has %d bytes and the server takes %d; ask for less, or raise the server's max_payload",
					len(out.data), limit)))
			return
		}
		if err := r.Respond(out.data, micro.WithHeaders(headers)); err != nil {
			s.pipeline.Log.Debug("a request cannot be answered", "subject", r.Subject(), "error", err)
		}
	})
}

// ErrorHeaders are the headers of an answer that is an error.
func ErrorHeaders(code string, err error) nats.Header {
	text := relay.HeaderText(err)
	return nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}, wire.HeaderCode: {code},
		wire.HeaderError: {text}}
}

// refuse answers with an error: its code and its text, in the headers of NATS services and of embedd.
func (s *Service) refuse(r micro.Request, err error) {
	headers := ErrorHeaders(codeOf(err), err)
	code, text := headers.Get(wire.HeaderCode), headers.Get(wire.HeaderError)
	if err = r.Error(code, text, nil, micro.WithHeaders(micro.Headers(headers))); err != nil {
		s.pipeline.Log.Debug("a request cannot be answered", "subject", r.Subject(), "error", err)
	}
}
