package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/summaries"
)

// serverPatience is how long the server at the other end of the connection may answer nothing before it is left for
// another, where one is known. After a little more than half of it nothing counts as answered.
const serverPatience = 8 * time.Second

// apartAfter is for how long the leader of a stream may not have heard of the other servers of it, which it hears of
// every second: where they are most of them it stores nothing.
const apartAfter = 4 * time.Second

// trickle is how many bytes come in a sixteenth of the patience over a link on which data flows: 8 KB a second. What comes
// of pulls that wait, without a message, is less.
const trickle = 4 << 10

// maxLooked is how many streams are asked for: what they tell of is the server, which is the same for all.
const maxLooked = 8

// contact watches whether the server works that the engine is connected to. One that hangs, is gone without a word, or is
// parted from its cluster keeps its connections, and the client stays with it.
type contact struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *slog.Logger
	access   *natsx.PermissionMonitor
	subject  string   // one that a stream of the pipelines takes
	streams  []string // that the pipelines use, a few of them
	leave    func() error
	received func() uint64 // bytes that have come from the server
	patience time.Duration

	heard   atomic.Int64           // when questions were last asked that all were answered, in nanoseconds
	refused atomic.Bool            // it answers that it cannot
	others  atomic.Bool            // another server is known
	apart   atomic.Pointer[string] // what a leader says that is alone; nil: none does
	trouble string                 // why nothing can be answered, "" when it can; the goroutine of watch alone uses it

	pipelines []*health.Conditions
}

// newContact is for the pipelines of an engine; nil where none of them reads a stream.
func newContact(e *Engine, js jetstream.JetStream, access *natsx.PermissionMonitor, open []*pipeline) *contact {
	c := &contact{nc: e.options.Conn, js: js, log: e.log, access: access, leave: e.options.Leave, received: e.options.Received,
		patience: e.patience}
	if c.leave == nil {
		c.leave = c.nc.ForceReconnect
	}
	if c.received == nil {
		c.received = func() uint64 { return atomic.LoadUint64(&c.nc.InBytes) } // Stats would take the client's lock
	}
	seen := map[string]bool{}
	for _, p := range open {
		if p.Input == nil {
			continue
		}
		c.subject = p.Output
		reads := []string{summaries.HubStream}
		if p.arrived == nil {
			reads = []string{p.Stream, p.tail.of(p.Output).stream(), p.tail.of(p.Dead).stream()}
		}
		for _, name := range reads {
			if !seen[name] && len(c.streams) < maxLooked {
				seen[name] = true
				c.streams = append(c.streams, name)
			}
		}
		c.pipelines = append(c.pipelines, p.Conditions)
	}
	if c.streams == nil {
		return nil
	}
	c.heard.Store(time.Now().UnixNano())
	return c
}

// watch watches until ctx is done. It takes no lock of the client itself: while a server takes nothing that is written to
// it, the client can hold them for a minute.
func (c *contact) watch(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.ask(ctx) })
	tick := time.NewTicker(c.patience / 16)
	defer tick.Stop()
	hold, left := c.patience, time.Time{}
	flowed, before := time.Time{}, c.received()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if n := c.received(); n-before >= trickle {
			flowed, before = time.Now(), n
		} else {
			before = n
		}
		heard := time.Unix(0, c.heard.Load())
		if flowed.After(heard) && !c.refused.Load() {
			heard = flowed // an answer waits behind what flows, on a slow link for longer than a server may be silent
		}
		silence := time.Since(heard)
		switch apart := c.apart.Load(); {
		case apart != nil:
			silence = c.patience
			c.report(*apart)
		case silence > c.patience*5/8:
			c.report(fmt.Sprintf("the server does not answer since %s: it hangs, or is parted from its cluster", stamp(heard)))
		default:
			c.clear()
		}
		if silence < c.patience || !c.others.Load() || time.Since(left) < hold {
			continue
		}
		since := time.Since(left)
		if heard.Before(left) || c.apart.Load() != nil && since < 2*hold {
			hold = min(2*since, time.Minute) // no other was better
		} else {
			hold = c.patience
		}
		left = time.Now()
		c.log.Warn("the server is left for another", "reason", c.trouble)
		wg.Go(func() {
			if err := c.leave(); err != nil {
				c.log.Debug("the server cannot be left", "error", err)
			}
		})
	}
}

// report sets why nothing can be answered, for all pipelines of the engine.
func (c *contact) report(reason string) {
	if c.trouble == "" {
		c.log.Warn("no input can be answered", "reason", reason)
	}
	c.trouble = reason
	for _, p := range c.pipelines {
		p.Set(health.Server, reason)
	}
}

func (c *contact) clear() {
	if c.trouble != "" {
		c.log.Info("the server answers")
	}
	c.trouble = ""
	for _, p := range c.pipelines {
		p.Clear(health.Server)
	}
}

// ask asks, again and again.
func (c *contact) ask(ctx context.Context) {
	tick := time.NewTicker(c.patience / 4)
	defer tick.Stop()
	for {
		begin := time.Now()
		apart, err := c.round(ctx)
		var word *jetstream.APIError
		c.refused.Store(errors.As(err, &word))
		if err == nil {
			c.heard.Store(begin.UnixNano())
			c.others.Store(len(c.nc.Servers()) > 1)
			c.apart.Store(apart)
		} else {
			c.apart.Store(nil)
			c.log.Debug("the server does not answer", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// round asks who leads JetStream, and the leaders of the streams. An error says that the former does not answer.
func (c *contact) round(ctx context.Context) (apart *string, err error) {
	question, cancel := context.WithTimeout(ctx, c.patience/2)
	defer cancel()
	if _, err := c.js.StreamNameBySubject(question, c.subject); !answered(err) {
		return nil, err
	}
	for _, name := range c.streams {
		question, cancel := context.WithTimeout(ctx, c.patience/8)
		defer cancel()
		var s jetstream.Stream
		err := c.access.Guard(question, c.access.IsServerRequest, func(ctx context.Context) (err error) {
			s, err = c.js.Stream(ctx, name)
			return err
		})
		// One that says nothing may elect its leader, which takes seconds on a server that works: the looks at the streams
		// of each pipeline say so, and no connection is ended for it.
		if err == nil && alone(s.CachedInfo().Cluster) {
			text := fmt.Sprintf("the server that leads stream %s hears of no other that has it: it is parted from its cluster, and stores nothing",
				name)
			return &text, nil
		}
	}
	return nil, nil
}

// answered tells whether an error is an answer of JetStream; that of one which has no leader is none.
func answered(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode != errNoCluster && api.ErrorCode != errNoLeader
	}
	return err == nil || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, ErrDenied)
}

// alone tells whether the leader of a stream has not heard of so many of the others that they are most of them all.
func alone(c *jetstream.ClusterInfo) bool {
	if c == nil || len(c.Replicas) == 0 {
		return false
	}
	near := 1
	for _, r := range c.Replicas {
		if !r.Offline && r.Active <= apartAfter {
			near++
		}
	}
	return 2*near <= len(c.Replicas)+1
}
