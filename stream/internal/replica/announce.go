package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/needs"
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

// announcement is the message about a version that is about to go live.
type announcement struct {
	Version string `json:"version"`
	From    string `json:"from"` // the trainer's instance
}

// prefetch fetches the versions that the trainer announces, until ctx is done.
func (r *Replica) prefetch(ctx context.Context) {
	announcements := make(chan *nats.Msg, 4)
	sub, err := r.Conn.ChanSubscribe(needs.StagedSubject(r.Name), announcements)
	if err != nil {
		r.Log.Debug("announcements cannot be subscribed to: versions are fetched when they are live", "error", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		select {
		case msg := <-announcements:
			r.prefetchOne(ctx, msg)
		case <-ctx.Done():
			return
		}
	}
}

func (r *Replica) prefetchOne(ctx context.Context, msg *nats.Msg) {
	var a announcement
	if json.Unmarshal(msg.Data, &a) != nil || a.From == r.Instance {
		return
	}
	_ = msg.Respond([]byte(answerAck + r.Instance))
	ctx, cancel := context.WithTimeout(ctx, prefetchTimeout)
	defer cancel()
	if err := r.Models.Prefetch(ctx, a.Version); err != nil {
		r.Log.Warn("an announced version cannot be fetched; it is tried again when it is live", "version", a.Version,
			"error", err)
		return
	}
	_ = msg.Respond([]byte(answerHas + r.Instance))
}

// announce announces a version that is about to go live, and waits until the replicas that acknowledge have it.
func (r *Replica) announce(ctx context.Context, version string) {
	data, err := json.Marshal(announcement{version, r.Instance})
	if err != nil {
		return
	}
	inbox := r.Conn.NewInbox()
	answers := make(chan *nats.Msg, 1024)
	sub, err := r.Conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := r.Conn.PublishRequest(needs.StagedSubject(r.Name), inbox, data); err != nil {
		return
	}
	fetched := map[string]bool{} // by instance that acknowledged
	ackEnd, end := time.After(ackTimeout), time.After(prefetchTimeout)
	begin := time.Now()
	for isAckOver, allFetched := false, false; !isAckOver || !allFetched; {
		select {
		case msg := <-answers:
			text := string(msg.Data)
			if instance, ok := strings.CutPrefix(text, answerAck); ok {
				fetched[instance] = fetched[instance] || false
			} else if instance, ok := strings.CutPrefix(text, answerHas); ok {
				fetched[instance] = true
			} else if msg.Header.Get("Status") == "503" {
				return // no other replica subscribes
			}
		case <-ackEnd:
			isAckOver = true
		case <-end:
			r.Log.Warn("a version goes live before all replicas have fetched it", "version", version, "replicas",
				countFetched(fetched))
			return
		case <-ctx.Done():
			return
		}
		allFetched = true
		for _, has := range fetched {
			allFetched = allFetched && has
		}
	}
	r.Log.Debug("all replicas have fetched a version", "version", version, "replicas", countFetched(fetched), "took",
		time.Since(begin))
}

func countFetched(fetched map[string]bool) string {
	n := 0
	for _, has := range fetched {
		if has {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(fetched))
}
