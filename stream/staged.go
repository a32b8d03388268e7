package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/needs"
)

// Swaps go in two acts. Who learns stores a version and tells the others of it; they fetch it, and say so. Then the
// pointer moves, which is a small message, and all have what it names. Nobody is waited for that does not say at once
// that it has heard, nor longer than stagedWait: that the pointer moves depends on no other replica.
const (
	heardWait  = 300 * time.Millisecond
	stagedWait = 5 * time.Second
)

// What a replica says of it: that it has heard, and that it has the version, or cannot get it.
const (
	sayHeard = "heard "
	sayHave  = "have "
)

// stageNote is what is told.
type stageNote struct {
	Version string `json:"version"`
	From    string `json:"from"` // who learns; it has the version
}

// hearStaged hears of versions before they are live and fetches them, until ctx is done.
func (p *pipeline) hearStaged(ctx context.Context) {
	notes := make(chan *nats.Msg, 4)
	sub, err := p.Conn.ChanSubscribe(needs.StagedSubject(p.Name), notes)
	if err != nil {
		p.Log.Debug("versions are fetched when they are live", "error", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		select {
		case msg := <-notes:
			p.fetchStaged(ctx, msg)
		case <-ctx.Done():
			return
		}
	}
}

func (p *pipeline) fetchStaged(ctx context.Context, msg *nats.Msg) {
	var note stageNote
	if json.Unmarshal(msg.Data, &note) != nil || note.From == p.Instance {
		return
	}
	_ = msg.Respond([]byte(sayHeard + p.Instance))
	ctx, cancel := context.WithTimeout(ctx, stagedWait)
	defer cancel()
	if err := p.models.Fetch(ctx, note.Version); err != nil {
		p.Log.Warn("a version that is about to go live cannot be fetched; it is tried again when it is", "version",
			note.Version, "error", err)
		return
	}
	_ = msg.Respond([]byte(sayHave + p.Instance))
}

// stageVersion tells the others of a version that is about to go live, and waits until those that hear it have it.
func (p *pipeline) stageVersion(ctx context.Context, version string) {
	data, err := json.Marshal(stageNote{version, p.Instance})
	if err != nil {
		return
	}
	inbox := p.Conn.NewInbox()
	words := make(chan *nats.Msg, 1024)
	sub, err := p.Conn.ChanSubscribe(inbox, words)
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := p.Conn.PublishRequest(needs.StagedSubject(p.Name), inbox, data); err != nil {
		return
	}
	have := map[string]bool{} // by instance: it has it
	heard, over := time.After(heardWait), time.After(stagedWait)
	begin, all := time.Now(), false
	for late := false; !late || !all; {
		select {
		case msg := <-words:
			text := string(msg.Data)
			if who, ok := strings.CutPrefix(text, sayHeard); ok {
				have[who] = have[who] || false
			} else if who, ok := strings.CutPrefix(text, sayHave); ok {
				have[who] = true
			} else if msg.Header.Get("Status") == "503" {
				return // there are no others
			}
		case <-heard:
			late = true
		case <-over:
			p.Log.Warn("a version goes live before all replicas have it", "version", version, "replicas", staged(have))
			return
		case <-ctx.Done():
			return
		}
		all = true
		for _, has := range have {
			all = all && has
		}
	}
	p.Log.Debug("a version is staged", "version", version, "replicas", staged(have), "took", time.Since(begin))
}

// staged says how many of the replicas have a version.
func staged(have map[string]bool) string {
	n := 0
	for _, has := range have {
		if has {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(have))
}
