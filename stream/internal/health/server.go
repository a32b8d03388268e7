package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// DefaultServerTimeout is how long a server may be silent before the monitor switches to another known server. After a
// little more than half of it the pipelines are blocked.
const DefaultServerTimeout = 8 * time.Second

// leaderTimeout is how long the leader of a stream may not have heard of a replica of it, which it hears of each
// second. A leader that has lost most of them stores nothing.
const leaderTimeout = 4 * time.Second

// minFlow is the number of bytes in a sixteenth of the timeout from which data counts as flowing: 8 KB a second.
// Waiting pulls receive less.
const minFlow = 4 << 10

// maxStreams is the number of streams that are requested. A few are enough, since they show the state of the server.
const maxStreams = 8

// ServerMonitor watches whether the server works that the engine is connected to. A server that hangs, disappears
// without closing, or is partitioned from its cluster keeps its connections, and the client stays with it.
type ServerMonitor struct {
	Conn        *nats.Conn
	JS          jetstream.JetStream
	Log         *slog.Logger
	Permissions *natsx.PermissionMonitor
	Timeout     time.Duration // default DefaultServerTimeout
	// Leave ends the connection, so that the client makes another; default Conn.ForceReconnect. Received returns the bytes
	// that have arrived; default those of whole messages, as the client counts them.
	Leave    func() error
	Received func() uint64
	// Subject belongs to a stream of the pipelines. Streams are the streams that they use, Conditions their conditions.
	Subject    string
	Streams    []string
	Conditions []*Conditions
	// Confirmed returns when the newest request was sent that JetStream has answered to others. A single server is
	// requested only if there was none for a time. nil: it is requested at intervals.
	Confirmed func() time.Time

	answered    atomic.Pointer[time.Time] // when the newest requests were sent that were all answered
	isRefused   atomic.Bool               // the server answers with errors
	hasOthers   atomic.Bool               // another server is known
	partitioned atomic.Pointer[string]    // why a leader is partitioned; nil: none is
	isolated    chan struct{}             // signalled when a leader is partitioned
	reason      string                    // why nothing can be answered, ""; one goroutine uses it
}

// Add adds a stream to those that are requested.
func (c *ServerMonitor) Add(stream string) {
	if len(c.Streams) < maxStreams && !slices.Contains(c.Streams, stream) {
		c.Streams = append(c.Streams, stream)
	}
}

// Run watches the server until ctx is done. It takes no lock of the client itself: while a server reads nothing, the
// client can hold them for a minute.
func (c *ServerMonitor) Run(ctx context.Context) {
	if c.Timeout == 0 {
		c.Timeout = DefaultServerTimeout
	}
	if c.Leave == nil {
		c.Leave = c.Conn.ForceReconnect
	}
	if c.Received == nil {
		c.Received = func() uint64 { return atomic.LoadUint64(&c.Conn.InBytes) } // Stats would take the client's lock
	}
	c.answered.Store(new(time.Now()))
	c.isolated = make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.poll(ctx) })
	received, flowed := c.Received(), time.Time{} // when data last flowed
	switches := backoff{min: c.Timeout}
	for {
		pause := c.pause()
		select {
		case <-time.After(pause):
		case <-c.isolated:
		case <-ctx.Done():
			return
		}
		bytes := c.Received()
		if pause <= c.Timeout/16 && bytes-received >= minFlow { // what arrived in a longer time does not count as flow
			flowed = time.Now()
		}
		received = bytes
		heard := *c.answered.Load()
		if flowed.After(heard) && !c.isRefused.Load() {
			heard = flowed // over a slow link an answer waits behind messages, for longer than the timeout
		}
		if !c.isSilent(heard) || !c.hasOthers.Load() || !switches.allows(heard, c.partitioned.Load() != nil) {
			continue
		}
		c.Log.Warn("switching to another server", "reason", c.reason)
		wg.Go(func() {
			if err := c.Leave(); err != nil {
				c.Log.Debug("the connection to the server could not be closed", "error", err)
			}
		})
	}
}

// pause is how long to wait before the next look at the server. There is none for half of the timeout after an answer,
// unless a reason is reported, which may be gone with that answer.
func (c *ServerMonitor) pause() time.Duration {
	if c.partitioned.Load() != nil || c.reason != "" {
		return c.Timeout / 16
	}
	return max(c.Timeout/2-time.Since(*c.answered.Load()), c.Timeout/16)
}

// isSilent reports whether the server, which was last heard at a time, is to be left. It reports why nothing can be
// answered, from a little more than half of the timeout on.
func (c *ServerMonitor) isSilent(heard time.Time) bool {
	silence := time.Since(heard)
	switch reason := c.partitioned.Load(); {
	case reason != nil:
		c.report(*reason)
		return true
	case silence > c.Timeout*5/8:
		c.report(fmt.Sprintf("the server does not answer since %s: it hangs, or is partitioned from its cluster",
			Timestamp(heard)))
	default:
		c.report("")
	}
	return silence >= c.Timeout
}

// backoff limits how often the server is left: less and less often while no other one is better.
type backoff struct {
	min, wait time.Duration
	last      time.Time
}

// allows reports whether the server, which was last heard at a time, may be left now. The caller then leaves it.
func (b *backoff) allows(heard time.Time, isPartitioned bool) bool {
	since := time.Since(b.last)
	if since < max(b.min, b.wait) {
		return false
	}
	if heard.Before(b.last) || isPartitioned && since < 2*max(b.min, b.wait) {
		b.wait = min(2*since, time.Minute) // the server after the last switch was no better
	} else {
		b.wait = b.min
	}
	b.last = time.Now()
	return true
}

// report sets why nothing can be answered, for all pipelines of the engine; "": the server answers.
func (c *ServerMonitor) report(reason string) {
	switch {
	case reason != "" && c.reason == "":
		c.Log.Warn("no input can be answered", "reason", reason)
	case reason == "" && c.reason != "":
		c.Log.Info("the server answers")
	}
	c.reason = reason
	for _, p := range c.Conditions {
		p.Set(Server, reason)
	}
}

// poll sends requests until ctx is done.
func (c *ServerMonitor) poll(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		partitioned, err := c.request(ctx)
		var refusal *jetstream.APIError
		c.isRefused.Store(errors.As(err, &refusal))
		if err == nil {
			c.answered.Store(&begin)
			c.hasOthers.Store(len(c.Conn.Servers()) > 1)
			c.partitioned.Store(partitioned)
			if partitioned != nil {
				natsx.Signal(c.isolated)
			}
		} else {
			c.partitioned.Store(nil)
			c.Log.Debug("the server does not answer", "error", err)
		}
		natsx.Sleep(ctx, c.Timeout/4-time.Since(begin))
		for c.Confirmed != nil && c.Conn.ConnectedClusterName() == "" && ctx.Err() == nil {
			at := c.Confirmed()
			age := time.Since(at)
			pause := c.Timeout*3/8 - age
			if pause <= 0 || age < 0 { // after the wall clock was set back, at is in the future until it has caught up
				break
			}
			if at.After(*c.answered.Load()) {
				c.answered.Store(&at)
			}
			natsx.Sleep(ctx, pause)
		}
	}
}

// request sends a request to the JetStream leader and to the leaders of the streams. It returns why one of these is
// partitioned, nil if none is. The error is that of the JetStream leader.
func (c *ServerMonitor) request(ctx context.Context) (partitioned *string, err error) {
	within, cancel := context.WithTimeout(ctx, c.Timeout/2)
	defer cancel()
	if _, err := c.JS.StreamNameBySubject(within, c.Subject); !isAnswer(err) {
		return nil, err
	}
	if c.Conn.ConnectedClusterName() == "" {
		return nil, nil // no stream has other replicas
	}
	for _, name := range c.Streams {
		within, cancel := context.WithTimeout(ctx, c.Timeout/8)
		defer cancel()
		s, err := natsx.Guarded(within, c.Permissions, func(ctx context.Context) (jetstream.Stream, error) {
			return c.JS.Stream(ctx, name)
		})
		// A stream that is electing its leader does not answer for seconds, on a server that works: each pipeline's observer
		// reports that, and no connection is ended for it.
		if err == nil && isPartitioned(s.CachedInfo().Cluster) {
			text := fmt.Sprintf("the leader of stream %s has no contact with another replica: it is partitioned from its "+
				"cluster, and stores nothing", name)
			return &text, nil
		}
	}
	return nil, nil
}

// isAnswer reports whether an error is an answer of JetStream. The error of a cluster without a leader does not count.
func isAnswer(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode != natsx.ErrCodeNoCluster && api.ErrorCode != natsx.ErrCodeNoLeader
	}
	return err == nil || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, spec.ErrDenied)
}

// isPartitioned reports whether the leader of a stream has lost most of its replicas.
func isPartitioned(c *jetstream.ClusterInfo) bool {
	if c == nil || len(c.Replicas) == 0 {
		return false
	}
	current := 1 // the leader
	for _, r := range c.Replicas {
		if !r.Offline && r.Active <= leaderTimeout {
			current++
		}
	}
	return 2*current <= len(c.Replicas)+1
}
