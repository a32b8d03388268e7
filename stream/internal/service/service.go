// Package service is the NATS service of a pipeline: one endpoint for each of its operations.
package service

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/operations"
)

// version is the version of the endpoints and their requests and answers.
const version = "1.0.0"

// MetadataPipeline is the key of the service's metadata whose value is the name of the pipeline.
const MetadataPipeline = "pipeline"

// Requests to one endpoint beyond maxPending are dropped, and those beyond maxPendingBytes in total; for transform,
// which has rows, beyond maxTransformBytes or limits.in_flight.
const (
	maxPending        = 256
	maxPendingBytes   = 1 << 20
	maxTransformBytes = 64 << 20
)

// Service answers requests about one pipeline by the protocol of NATS services. Package micro does so too, but has a
// goroutine for each subscription, and nine subscriptions in addition to those of the endpoints.
type Service struct {
	ctx       context.Context
	pipeline  *operations.Pipeline
	identity  micro.ServiceIdentity
	started   time.Time
	subs      []*nats.Subscription
	noInbox   ratelog.Limiter
	tooMany   ratelog.Limiter
	isStopped atomic.Bool
	running   sync.WaitGroup

	mu        sync.Mutex
	endpoints []*endpoint
}

// Start subscribes to the subjects of the service until Stop.
func Start(ctx context.Context, p *operations.Pipeline) (*Service, error) {
	name, id := needs.ServiceName(p.Name), strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix)
	s := &Service{ctx: ctx, pipeline: p, started: time.Now().UTC(), identity: micro.ServiceIdentity{Name: name, ID: id,
		Version: version, Metadata: map[string]string{MetadataPipeline: p.Name}}}
	for i := range operations.All {
		o := &operations.All[i]
		e := &endpoint{about: o, maxBytes: maxPendingBytes, stats: micro.EndpointStats{
			Name: strings.ReplaceAll(o.Name, " ", "-"), Subject: needs.ServiceSubject(p.Name, o.Name)}}
		if o.IsMessage {
			e.maxBytes = int(min(p.InFlight, maxTransformBytes))
		}
		if !o.IsForAll {
			e.stats.QueueGroup = micro.DefaultQueueGroup
		}
		s.endpoints = append(s.endpoints, e)
		if err := s.subscribe(e.stats.Subject, e); err != nil {
			return nil, err
		}
	}
	verbs := &endpoint{maxBytes: maxPendingBytes}
	for _, subject := range []string{"*", "*." + name, "*." + name + "." + id} {
		if err := s.subscribe(micro.APIPrefix+"."+subject, verbs); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// subscribe has an endpoint receive the requests to a subject. If that fails, the service is stopped.
func (s *Service) subscribe(subject string, e *endpoint) error {
	sub, err := s.pipeline.Receiver.Subscribe(subject, e.stats.QueueGroup, func(msg *nats.Msg) { s.receive(e, msg) })
	if err != nil {
		s.Stop()
		return err
	}
	s.subs = append(s.subs, sub)
	return nil
}

// ID is the identity of the service in its connection's server.
func (s *Service) ID() string { return s.identity.ID }

// Stop refuses the requests that are not being answered yet, and waits for the others.
func (s *Service) Stop() {
	s.isStopped.Store(true)
	s.pipeline.Receiver.Drain(s.subs)
	s.running.Wait()
}

// describe answers PING, INFO and STATS.
func (s *Service) describe(msg *nats.Msg) error {
	verb, _, _ := strings.Cut(strings.TrimPrefix(msg.Subject, micro.APIPrefix+"."), ".")
	var answer any
	switch verb {
	case micro.PingVerb.String():
		answer = micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType}
	case micro.InfoVerb.String():
		info := micro.Info{ServiceIdentity: s.identity, Type: micro.InfoResponseType,
			Description: "embedd pipeline " + s.pipeline.Name}
		for _, e := range s.endpoints {
			info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: e.stats.Name, Subject: e.stats.Subject,
				QueueGroup: e.stats.QueueGroup,
				Metadata:   map[string]string{"about": e.about.About, "request": e.about.Request}})
		}
		answer = info
	case micro.StatsVerb.String():
		stats := micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType, Started: s.started}
		s.mu.Lock()
		for _, e := range s.endpoints {
			one := e.stats
			stats.Endpoints = append(stats.Endpoints, &one)
		}
		s.mu.Unlock()
		answer = stats
	default:
		return nil
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return msg.Respond(data)
}
