package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/service"
	"github.com/embedd/embedd/stream/spec"
)

// Reload is a configuration that is about to replace the running one. Options.Reload returns it.
type Reload struct {
	// Pipelines are those that change, by their names: each drains and is opened again with its new configuration. Their
	// streams and subjects must not change. A pipeline on core NATS loses messages that arrive while it is opened.
	Pipelines []Pipeline
	Applied   []string // keys that change, for the answer
	Restart   []string // keys that differ and need a restart, for the answer
	Commit    func()   // if not nil: called when all pipelines run with the new configuration
	Abandon   func()   // if not nil: called when one of them cannot, and all run with the old one
}

// Reloaded is the answer to a request to reload the configuration.
type Reloaded struct {
	Pipeline   string   `json:"pipeline"`
	Host       string   `json:"host"`              // of the process
	Generation int      `json:"generation"`        // of the configuration that runs then
	Applied    []string `json:"applied,omitempty"` // keys that changed
	Restart    []string `json:"restart,omitempty"` // keys that differ and need a restart
	Error      string   `json:"error,omitempty"`   // why the old configuration stays
}

// replacement is the configuration with which a pipeline is about to be opened again.
type replacement struct {
	Pipeline
	opened chan error // receives one value: nil, or the error after which the pipeline runs with its former configuration
}

// errNoReload is returned by Engine.Reload without Options.Reload.
var errNoReload = errors.New("this host does not reload its configuration; restart it")

// Reload reads the configuration again with Options.Reload and replaces the running one: pipelines that change drain,
// and are opened again. Nothing is lost, as at a restart. If one cannot be opened, all run with the old configuration
// again, and the error says why. Run must have opened the pipelines. ctx must end with that of Run, and not before:
// Reload returns when the pipelines run again.
func (e *Engine) Reload(ctx context.Context) (Reloaded, error) {
	e.reloading.Lock()
	defer e.reloading.Unlock()
	r, err := e.reload(ctx)
	for _, conditions := range e.conditions {
		conditions.SetError(health.Reload, err)
	}
	if err != nil {
		e.log.Error("the configuration was not reloaded; the old one stays", "generation", e.generation.Load(), "error", err)
		return Reloaded{Generation: int(e.generation.Load())}, err
	}
	if len(r.Applied) > 0 {
		e.generation.Add(1)
	}
	out := Reloaded{Generation: int(e.generation.Load()), Applied: r.Applied, Restart: r.Restart}
	if len(r.Applied) > 0 {
		e.log.Info("the configuration was reloaded", "generation", out.Generation, "keys", r.Applied)
	} else {
		e.log.Info("the configuration was read again; no key changed that can change while running", "generation",
			out.Generation)
	}
	if len(out.Restart) > 0 {
		e.log.Warn("changed keys need a restart", "keys", out.Restart)
	}
	return out, nil
}

// reload replaces the configuration of the pipelines that change.
func (e *Engine) reload(ctx context.Context) (*Reload, error) {
	if e.options.Reload == nil {
		return nil, errNoReload
	}
	if e.Status() == nil {
		return nil, errors.New("the pipelines are being opened")
	}
	r, err := e.options.Reload(ctx)
	if err != nil {
		return nil, err
	}
	after := r.Commit
	if err = e.replaceAll(ctx, r.Pipelines); err != nil {
		after = r.Abandon
	}
	if after != nil {
		after()
	}
	return r, err
}

// replaceAll opens these pipelines again with other configurations or, if one cannot be, all with their former ones.
func (e *Engine) replaceAll(ctx context.Context, pipelines []Pipeline) error {
	changed, err := spec.CheckAll(pipelines)
	if err != nil {
		return err
	}
	former, next, running := map[int]Pipeline{}, map[int]Pipeline{}, e.pipelines()
	for _, p := range changed {
		i := slices.IndexFunc(running, func(o *pipeline) bool { return o.Name == p.Name })
		if i < 0 {
			return fmt.Errorf("no pipeline %s runs; restart to add it", p.Name)
		}
		former[i], next[i] = running[i].configured, p
	}
	failed, err := e.replace(ctx, next)
	if err != nil && ctx.Err() == nil {
		maps.DeleteFunc(former, func(i int, _ Pipeline) bool { return failed[i] != nil }) // reopen has returned to it
		_, _ = e.replace(ctx, former)
	}
	return err
}

// replace opens pipelines again with other configurations, by index. failed has the errors of those that keep theirs.
func (e *Engine) replace(ctx context.Context, next map[int]Pipeline) (failed map[int]error, err error) {
	replacements := map[int]*replacement{}
	e.mu.Lock()
	for i, p := range next {
		replacements[i] = &replacement{p, make(chan error, 1)}
		e.running[i].next.Store(replacements[i])
		e.running[i].reopen()
	}
	e.mu.Unlock()
	failed = map[int]error{}
	for i, r := range replacements {
		select {
		case failure := <-r.opened:
			if failure != nil {
				failed[i] = failure
				err = errors.Join(err, fmt.Errorf("pipeline %s: %w", r.Name, failure))
			}
		case <-ctx.Done():
			return failed, fmt.Errorf("the engine ends: %w", context.Cause(ctx))
		}
	}
	return failed, err
}

// reopen opens a pipeline again after it was closed: with its next configuration if there is one; else, or if that
// fails, with its former one, which it tries until ctx is done after transient errors.
func (s *engineRun) reopen(ctx context.Context, i int, closed *pipeline) (p *pipeline, err error) {
	next := closed.next.Load()
	var failure error
	if next != nil {
		p, failure = s.open(ctx, next.Pipeline, time.Now().Add(s.options.Wait))
	}
	if p == nil {
		if p, err = s.open(ctx, closed.configured, time.Time{}); err != nil {
			return nil, err
		}
	}
	p.startService(ctx)
	s.mu.Lock()
	s.running[i] = p
	if later := closed.next.Load(); later != next { // a reload began meanwhile
		p.next.Store(later)
		p.reopen()
	}
	s.mu.Unlock()
	if next != nil {
		next.opened <- failure
	}
	return p, nil
}

// subscribeReloads subscribes to requests to reload the configuration, at one subject for each pipeline, which it
// returns by subscription. The pipelines' services cannot answer them: they end while a pipeline is opened again.
func (e *Engine) subscribeReloads() (requests chan *nats.Msg, pipelines map[*nats.Subscription]string) {
	requests, pipelines = make(chan *nats.Msg, 16), map[*nats.Subscription]string{}
	for _, p := range e.options.Pipelines {
		sub, err := e.options.Conn.ChanSubscribe(needs.ServiceSubject(p.Name, "reload"), requests)
		if err != nil {
			e.log.Warn("requests to reload the configuration are not answered", "pipeline", p.Name, "error", err)
			continue
		}
		pipelines[sub] = p.Name
	}
	return requests, pipelines
}

// answerReloads answers requests to reload the configuration until ctx is done, and ends their subscriptions.
func (e *Engine) answerReloads(ctx context.Context, requests chan *nats.Msg, pipelines map[*nats.Subscription]string) {
	for {
		select {
		case <-ctx.Done():
			for sub := range pipelines {
				_ = sub.Unsubscribe()
			}
			return
		case msg := <-requests:
			if !needs.IsInbox(e.options.Conn, msg.Reply) {
				e.log.Debug("a request to reload is ignored: its reply subject is no inbox", "reply", msg.Reply)
				continue
			}
			r, err := e.Reload(ctx)
			r.Host, _ = os.Hostname()
			r.Pipeline = pipelines[msg.Sub]
			answer := nats.NewMsg(msg.Reply)
			if err != nil {
				answer.Header, r.Error = service.ErrorHeaders(operations.CodeBadRequest, err), err.Error()
			}
			answer.Data, _ = json.Marshal(r) // plain data
			if err := e.options.Conn.PublishMsg(answer); err != nil {
				e.log.Debug("the answer to a request to reload is lost", "error", err)
			}
		}
	}
}
