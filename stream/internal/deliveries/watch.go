package deliveries

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

const (
	// defaultInterval is the time between two samples. It is longer than a pull request stays open, so that what a
	// replica requested before it ended is delivered before the next sample.
	defaultInterval = 10 * time.Second
	// replyWait is how long replicas have to answer. One that answers later disturbs the next sample.
	replyWait = 2 * time.Second
	// quietSamples is after how many verdicts without a further stolen delivery the condition is cleared.
	quietSamples = 6
)

// Watch compares deliveries with what the replicas report, and sets the condition StolenDeliveries.
type Watch struct {
	*scope.Scope
	Interval time.Duration // between two samples; 0: the default

	judge  judge
	stolen uint64 // deliveries at the last verdict
	quiet  int    // verdicts without a further one

	mu          sync.Mutex
	tick        uint64
	replies     map[string]*spec.Deliveries // to the request of the tick; nil: no longer taken
	isDisturbed bool                        // a replica has started, or answers too late
}

// isPossible reports whether deliveries of this pipeline can be compared: replicas share one consumer, and the user may
// ask them.
func (w *Watch) isPossible() bool {
	if w.Input == nil || w.Partitions > 0 || w.LearnsFromEdges() || w.Role == spec.RoleTrain {
		return false
	}
	for _, endpoint := range []string{"status", needs.EndpointStarted} {
		if w.Permissions.PublishDenied(needs.ServiceSubject(w.Name, endpoint)) != nil {
			return false
		}
	}
	return true
}

// Start subscribes to what replicas report, and announces this one to the others, which must know of it before it
// pulls: they could take its messages for stolen ones if it ended soon. It compares deliveries until stop, where that
// is possible.
func (w *Watch) Start(ctx context.Context) (stop func()) {
	if !w.isPossible() {
		return func() {}
	}
	started := needs.ServiceSubject(w.Name, needs.EndpointStarted)
	inbox := w.Conn.NewInbox()
	replies, err := w.Receiver.Subscribe(inbox+".*", "", w.receive)
	if err != nil {
		return func() {}
	}
	starts, err := w.Receiver.Subscribe(started, "", func(msg *nats.Msg) {
		if len(msg.Data) == 0 && len(msg.Header) == 0 && msg.Reply == "" { // else it is an answer that a client sent here
			w.disturb()
		}
	})
	if err == nil {
		err = w.Conn.Publish(started, nil)
	}
	var compares *task.Task
	if err == nil {
		interval := cmp.Or(w.Interval, defaultInterval+5*w.PollInterval)
		compares = task.Every(ctx, interval, func(ctx context.Context) {
			w.compare(ctx, inbox, min(replyWait, 10*interval))
		})
	}
	return func() {
		if compares != nil {
			compares.Stop()
			w.Conditions.Clear(health.StolenDeliveries)
		}
		w.Receiver.Unsubscribe(replies)
		if starts != nil {
			w.Receiver.Unsubscribe(starts)
		}
	}
}

func (w *Watch) disturb() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isDisturbed = true
}

// receive receives the status of a replica.
func (w *Watch) receive(msg *nats.Msg) {
	var r spec.Report
	tick, err := strconv.ParseUint(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], 10, 64)
	if err != nil || json.Unmarshal(msg.Data, &r) != nil || r.Instance == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if tick != w.tick || w.replies == nil {
		w.isDisturbed = true
		return
	}
	w.replies[r.Instance] = r.Deliveries
}

// compare takes the next sample, and judges it.
func (w *Watch) compare(ctx context.Context, inbox string, wait time.Duration) {
	s, isDisturbed := w.sample(ctx, inbox, wait, w.judge.last)
	n, isKnown := w.judge.next(s, isDisturbed)
	switch {
	case !isKnown && w.judge.base == nil:
		w.stolen = 0 // counted from another base
	case isKnown && n > w.stolen:
		w.stolen, w.quiet = n, 0
		w.report(n)
	case isKnown:
		if w.quiet++; w.quiet == quietSamples && w.Conditions.Clear(health.StolenDeliveries) {
			w.Log.Info("no further delivery of the consumer was stolen", "consumer", w.ConsumerName())
		}
	}
}

func (w *Watch) report(n uint64) {
	text := fmt.Sprintf("%d deliveries of consumer %s of stream %s reached no replica: another client pulls from it, and "+
		"inputs are answered late or, if it acknowledges them, not at all; find the users with permission to publish on %q",
		n, w.ConsumerName(), w.Stream, natsx.PullSubject(w.JS, w.Stream, w.ConsumerName()))
	if w.Conditions.Set(health.StolenDeliveries, text) {
		w.Log.Warn("deliveries of the consumer reach no replica: another client pulls from it", "stream", w.Stream,
			"consumer", w.ConsumerName(), "deliveries", n, "permission", natsx.PullSubject(w.JS, w.Stream, w.ConsumerName()))
	}
}

// hasReplies reports whether all replicas of a sample have answered.
func (w *Watch) hasReplies(last *sample) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last == nil {
		return false
	}
	for name := range last.replicas {
		if _, ok := w.replies[name]; !ok {
			return false
		}
	}
	return true
}

// leader is the name of the server that delivers; "" if that is not known.
func (w *Watch) leader(info *jetstream.ConsumerInfo) string {
	if info.Cluster != nil {
		return info.Cluster.Leader
	}
	// The server is not clustered. A request without a domain is answered by the connected one if it has JetStream.
	has, _ := w.Conn.ConnectedServerJetStream()
	if !has || natsx.APIPrefix(w.JS) != jetstream.DefaultAPIPrefix {
		return ""
	}
	return w.Conn.ConnectedServerName()
}

// sample asks all replicas, and then the server. It waits for replies until all replicas of the last sample have
// answered; without one, as long as they may take.
func (w *Watch) sample(ctx context.Context, inbox string, wait time.Duration, last *sample) (s *sample,
	isDisturbed bool) {
	w.mu.Lock()
	w.tick++
	w.replies = map[string]*spec.Deliveries{}
	reply := inbox + "." + strconv.FormatUint(w.tick, 10)
	w.mu.Unlock()
	err := w.Conn.PublishRequest(needs.ServiceSubject(w.Name, "status"), reply, nil)
	for end := time.Now().Add(wait); err == nil && time.Now().Before(end) && !w.hasReplies(last); {
		if !natsx.Sleep(ctx, wait/100) {
			err = ctx.Err()
		}
	}
	w.mu.Lock()
	s = &sample{replicas: w.replies}
	w.replies = nil
	w.mu.Unlock()
	ask, cancel := context.WithTimeout(ctx, replyWait)
	defer cancel()
	var consumer jetstream.Consumer
	if err == nil {
		consumer, err = w.JS.Consumer(ask, w.Stream, w.ConsumerName())
	}
	if err == nil {
		info := consumer.CachedInfo()
		s.delivered, s.created, s.leader = info.Delivered.Consumer, info.Created, w.leader(info)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	isDisturbed, w.isDisturbed = w.isDisturbed || err != nil, false
	return s, isDisturbed
}
