package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/registry"
)

// The codes of errors of a pipeline's service, beside those of messages in package wire.
const (
	CodeBadRequest = "bad_request" // the request is not the JSON that is asked for, or asks for what cannot be
	CodeNoModel    = "no_model"    // no model is live yet, or the store has none of that name
	CodeStale      = "stale"       // the live model is too old and the pipeline holds
	CodePinned     = "pinned"      // a version is pinned
	CodeNotPinned  = "not_pinned"  // no version is pinned
	CodeFewRows    = "few_rows"    // there is nothing to fit from yet
	CodeFixed      = "fixed"       // the pipeline has a fixed model
	CodeConflict   = "conflict"    // another model went live meanwhile
	CodeStopping   = "stopping"    // the engine is ending
)

// serviceVersion is that of the endpoints and their forms.
const serviceVersion = "1.0.0"

// ServicePipeline is the key of a service's metadata that names its pipeline.
const ServicePipeline = "pipeline"

// pendingRequests bounds the requests of one endpoint that wait, smallBytes their size, and pendingBytes the size of
// those that bring rows, where the pipeline's own bound is not lower. A request beyond them gets no answer.
const (
	pendingRequests = 256
	smallBytes      = 1 << 20
	pendingBytes    = 64 << 20
)

// requestWait bounds one request.
const requestWait = needs.RequestTimeout

// service answers requests about one pipeline. Each endpoint answers one request at a time.
type service struct {
	pipeline *pipeline
	micro    micro.Service

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// startService adds the endpoints. Where the account may not subscribe to them the pipeline serves without.
func (p *pipeline) startService(ctx context.Context) (*service, error) {
	s := &service{pipeline: p}
	var err error
	s.micro, err = micro.AddService(p.Conn, micro.Config{Name: ServiceName(p.Name), Version: serviceVersion,
		Description: "embedd pipeline " + p.Name, Metadata: map[string]string{ServicePipeline: p.Name}})
	if err != nil {
		return nil, err
	}
	for _, e := range []struct {
		name, about string
		answer      func(context.Context, *nats.Msg) (any, error)
		everyOne    bool // each process that runs the pipeline answers, not one of them
	}{
		{"status", "status of the pipeline", s.status, true},
		{"retrain", "fit a candidate now", s.retrain, true},
		{"resume", "resume after too many bad messages", s.resume, true},
		{"transform", "transform an Arrow message", s.transform, false},
		{"model ls", "list the versions and the rejected candidates", s.list, false},
		{"model show", `show a model: {"version":"..."}; default: the live version`, s.show, false},
		{"model pin", `make a version live and keep it: {"version":"..."}; default: the live version`,
			s.pin, false},
		{"model unpin", "unpin the live version", s.unpin, false},
		{"model rollback", `make an earlier version live: {"version":"..."}; default: the previous version`, s.rollback,
			false},
	} {
		bytes := smallBytes
		if e.name == "transform" {
			bytes = int(min(p.InFlight, pendingBytes))
		}
		options := []micro.EndpointOpt{micro.WithEndpointSubject(ServiceSubject(p.Name, e.name)),
			micro.WithEndpointPendingLimits(pendingRequests, bytes),
			micro.WithEndpointMetadata(map[string]string{"about": e.about})}
		if e.everyOne {
			options = append(options, micro.WithEndpointQueueGroupDisabled())
		}
		if err := s.micro.AddEndpoint(strings.ReplaceAll(e.name, " ", "-"), s.handler(ctx, e.answer),
			options...); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// stop takes no more requests and waits for those that are being answered.
func (s *service) stop() {
	if err := s.micro.Stop(); err != nil {
		s.pipeline.Log.Debug("the service ends with its connection", "error", err)
	}
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.running.Wait()
}

// begin tells whether a request may still be answered; running.Done ends it.
func (s *service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.running.Add(1)
	}
	return !s.stopped
}

// reply is an Arrow message with its headers; any other answer is sent as JSON.
type reply struct {
	data  []byte
	pairs []wire.Pair
}

func (s *service) handler(ctx context.Context, answer func(context.Context, *nats.Msg) (any, error)) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !s.begin() {
			s.refuse(r, coded(CodeStopping, errors.New("the engine is stopping; ask again")))
			return
		}
		defer s.running.Done()
		ctx, cancel := context.WithTimeout(ctx, requestWait)
		defer cancel()
		got, err := answer(ctx, &nats.Msg{Subject: r.Subject(), Header: nats.Header(r.Headers()), Data: r.Data()})
		if errors.Is(err, errOthers) {
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
		if most := s.pipeline.Conn.MaxPayload() - needs.OwnHeaderBytes; int64(len(out.data)) > most {
			s.refuse(r, coded(string(wire.TooLarge),
				fmt.Errorf("the answer has %d bytes and the server takes %d; ask for less, or raise the server's max_payload",
					len(out.data), most)))
			return
		}
		if err := r.Respond(out.data, micro.WithHeaders(headers)); err != nil {
			s.pipeline.Log.Debug("a request cannot be answered", "subject", r.Subject(), "error", err)
		}
	})
}

// refuse answers with an error: its code and its sentence, in the headers of NATS services and in ours.
func (s *service) refuse(r micro.Request, err error) {
	code, text := serviceCode(err), relay.HeaderText(err)
	err = r.Error(code, text, nil, micro.WithHeaders(micro.Headers{wire.HeaderCode: {code}, wire.HeaderError: {text}}))
	if err != nil {
		s.pipeline.Log.Debug("a request cannot be answered", "subject", r.Subject(), "error", err)
	}
}

// codedError is an error that knows its code.
type codedError struct {
	code string
	err  error
}

func coded(code string, err error) error { return &codedError{code, err} }

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func serviceCode(err error) string {
	var own *codedError
	var message *arrowio.Error
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &message):
		return string(message.Code)
	case errors.Is(err, registry.ErrMissing), errors.Is(err, plugin.ErrNoModel):
		return CodeNoModel
	case errors.Is(err, registry.ErrPinned):
		return CodePinned
	case errors.Is(err, registry.ErrNotPinned):
		return CodeNotPinned
	case errors.Is(err, registry.ErrDim):
		return CodeBadRequest
	case errors.Is(err, registry.ErrOvertaken):
		return CodeConflict
	case errors.Is(err, plugin.ErrFixed):
		return CodeFixed
	case errors.Is(err, plugin.ErrFewRows):
		return CodeFewRows
	case errors.Is(err, plugin.ErrClosed), errors.Is(err, context.Canceled):
		return CodeStopping
	}
	return string(wire.Internal)
}

// versionRequest is what the endpoints about one model ask for.
type versionRequest struct {
	Version string `json:"version"`
}

func versionOf(msg *nats.Msg) (string, error) {
	var r versionRequest
	if len(msg.Data) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		return "", coded(CodeBadRequest, fmt.Errorf(`the request is not JSON as {"version":"..."}: %w`, err))
	}
	return r.Version, nil
}

func (s *service) status(context.Context, *nats.Msg) (any, error) { return s.report(), nil }

func (s *service) report() Report {
	r := s.pipeline.status().Report()
	r.Instance = s.micro.Info().ID
	return r
}

// errOthers is no answer: another replica gives it.
var errOthers = errors.New("another replica answers")

// retrain reaches every replica, and who learns answers.
func (s *service) retrain(context.Context, *nats.Msg) (any, error) {
	p := s.pipeline
	if p.Running.Learns() && !p.replica.IsTrainer() {
		if p.replica.HasTrainer() {
			return nil, errOthers
		}
		return nil, coded(CodeConflict, errors.New("no replica holds the trainer's lease yet; ask again in some seconds"))
	}
	if p.replica.IsPinned() {
		return nil, coded(CodePinned, fmt.Errorf(
			"%s is pinned, so no candidate goes live; `embedd model unpin %s` first",
			p.Running.Live().Version, p.Name))
	}
	if err := p.Running.Refit(); err != nil {
		return nil, err
	}
	return s.report(), nil
}

func (s *service) resume(context.Context, *nats.Msg) (any, error) {
	s.pipeline.relay.Resume() // another process that runs it may be the one that halted
	return s.report(), nil
}

func (s *service) transform(ctx context.Context, msg *nats.Msg) (any, error) {
	p := s.pipeline
	m, err := p.Running.Decode(msg.Data)
	if err != nil {
		return nil, err
	}
	age, stale := p.Freshness.Age()
	marks := relay.StaleMark(age, stale)
	if stale {
		switch p.WhenStale {
		case StaleHold:
			return nil, coded(CodeStale, errors.New(p.relay.StaleReason(age)))
		case StalePass:
			return reply{msg.Data, append(marks, wire.VersionPair())}, nil
		}
	}
	m, r, err := p.relay.Project(ctx, msg.Data, m)
	if errors.Is(err, plugin.ErrNoModel) {
		return nil, coded(CodeNoModel, fmt.Errorf("%w: %s", err, p.progress()))
	}
	if err != nil {
		return nil, err
	}
	if r.RejectedRows() > 0 {
		f := r.Faults[0]
		return nil, coded(string(wire.NonFinite),
			fmt.Errorf("%d of %d rows have features that cannot be projected: row %d, feature %q is %s; fix them, or set "+
				"schema.nulls to impute or skip",
				r.RejectedRows(), m.Rows(), f.Row, f.Feature, f.What))
	}
	data, err := p.Running.Encode(r, marks...)
	if err != nil {
		return nil, err
	}
	return reply{data, append(r.Live.Metadata(), marks...)}, nil
}

// store is the pipeline's registry, an error where it keeps no models.
func (s *service) store() (*registry.Registry, error) {
	switch p := s.pipeline; {
	case p.replica.Models != nil:
		return p.replica.Models, nil
	case p.Stage.Fixed != nil:
		return nil, plugin.ErrFixed
	}
	return nil, coded(CodeNoModel, errors.New("the pipeline keeps no models; set model.store"))
}

func (s *service) list(ctx context.Context, _ *nats.Msg) (any, error) {
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	p, err := r.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"models": p.List(s.pipeline.Name)}, nil
}

func (s *service) show(ctx context.Context, msg *nats.Msg) (any, error) {
	version, err := versionOf(msg)
	if err != nil {
		return nil, err
	}
	live := s.pipeline.Running.Live()
	if version == "" || live != nil && version == live.Version {
		if live == nil {
			return nil, plugin.ErrNoModel
		}
		return live.Model, nil
	}
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	return r.Model(ctx, version)
}

func (s *service) pin(ctx context.Context, msg *nats.Msg) (any, error) {
	return s.choose(msg, func(r *registry.Registry, version string) (*registry.Pointer, error) {
		return r.Pin(ctx, version)
	})
}

func (s *service) unpin(ctx context.Context, msg *nats.Msg) (any, error) {
	return s.choose(msg, func(r *registry.Registry, _ string) (*registry.Pointer, error) { return r.Unpin(ctx) })
}

func (s *service) rollback(ctx context.Context, msg *nats.Msg) (any, error) {
	return s.choose(msg, func(r *registry.Registry, version string) (*registry.Pointer, error) {
		return r.Rollback(ctx, version)
	})
}

// choose moves the pointer; that this process follows it is what Follow is for.
func (s *service) choose(msg *nats.Msg,
	change func(*registry.Registry, string) (*registry.Pointer, error)) (any, error) {
	version, err := versionOf(msg)
	if err != nil {
		return nil, err
	}
	r, err := s.store()
	if err != nil {
		return nil, err
	}
	p, err := change(r, version)
	if err != nil {
		return nil, err
	}
	return p.Chosen(s.pipeline.Name), nil
}
