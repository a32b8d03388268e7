package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
)

// The trainer stores a version, announces it, and moves the live pointer when all replicas have fetched it. Replicas
// acknowledge the announcement at once and report when they have the version. Only replicas that acknowledge within
// ackTimeout are waited for, and none longer than prefetchTimeout: a promotion depends on no other replica.
const (
	ackTimeout      = 300 * time.Millisecond
	prefetchTimeout = 5 * time.Second
)

// The answers of a replica, before its name.
const (
	answerAck = "heard "
	answerHas = "have "
)

// announcer announces versions and prefetches those that another replica announces.
type announcer struct{ *scope.Scope }

// announcement is the message about a version that is about to go live.
type announcement struct {
	Version string `json:"version"`
	From    string `json:"from"` // the trainer's instance
}

// maxPrefetches bounds the announced versions that are being fetched or queued. A version beyond it is fetched when it
// goes live.
const maxPrefetches = 4

// prefetch calls fetch for the versions that the trainer announces until ctx is done, in goroutines of wg. Any client
// can announce versions, so it fetches one at a time to bound memory (Invariant 5).
func (a announcer) prefetch(ctx context.Context, wg *sync.WaitGroup, fetch func(context.Context, string) error) {
	queued := make(chan struct{}, maxPrefetches)
	var fetching sync.Mutex
	sub, err := a.Receiver.Subscribe(needs.StagedSubject(a.Name), "", func(msg *nats.Msg) {
		select {
		case queued <- struct{}{}:
			wg.Go(func() {
				defer func() { <-queued }()
				fetching.Lock()
				defer fetching.Unlock()
				a.prefetchOne(ctx, msg, fetch)
			})
		default:
		}
	})
	if err != nil {
		a.Log.Debug("announcements of models cannot be subscribed to; versions are fetched when they go live", "error", err)
		return
	}
	wg.Add(1)
	context.AfterFunc(ctx, func() {
		defer wg.Done()
		a.Receiver.Drain([]*nats.Subscription{sub})
	})
}

func (a announcer) prefetchOne(ctx context.Context, msg *nats.Msg, fetch func(context.Context, string) error) {
	var note announcement
	if json.Unmarshal(msg.Data, &note) != nil || note.From == a.Instance || !needs.IsInbox(a.Conn, msg.Reply) {
		return
	}
	_ = msg.Respond([]byte(answerAck + a.Instance))
	ctx, cancel := context.WithTimeout(ctx, prefetchTimeout)
	defer cancel()
	if err := fetch(ctx, note.Version); err != nil {
		a.Log.Warn("an announced version cannot be fetched; trying again when it goes live", "version", note.Version,
			"error", err)
		return
	}
	_ = msg.Respond([]byte(answerHas + a.Instance))
}

// announce announces a version that is about to go live, and waits until the replicas that acknowledge have it.
func (a announcer) announce(ctx context.Context, version string) {
	data, err := json.Marshal(announcement{version, a.Instance})
	if err != nil {
		return
	}
	inbox := a.Conn.NewInbox()
	answers := make(chan *nats.Msg, 1024)
	sub, err := a.Conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := a.Conn.PublishRequest(needs.StagedSubject(a.Name), inbox, data); err != nil {
		return
	}
	heard, have := 0, 0 // replicas that acknowledged, and those that have the version
	count := func() string { return fmt.Sprintf("%d of %d", have, max(heard, have)) }
	ackEnd, end := time.After(ackTimeout), time.After(prefetchTimeout)
	begin := time.Now()
	for isAckOver := false; !isAckOver || have < heard; {
		select {
		case msg := <-answers:
			switch text := string(msg.Data); {
			case strings.HasPrefix(text, answerAck):
				heard++
			case strings.HasPrefix(text, answerHas):
				have++
			case msg.Header.Get("Status") == "503":
				return // no other replica subscribes
			}
		case <-ackEnd:
			isAckOver = true
		case <-end:
			a.Log.Warn("a version goes live before all replicas have fetched it", "version", version, "replicas", count())
			return
		case <-ctx.Done():
			return
		}
	}
	a.Log.Debug("all replicas have fetched a version", "version", version, "replicas", count(), "took", time.Since(begin))
}
