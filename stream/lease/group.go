package lease

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// Group are replicas that share work: each holds a lease GROUP.NAME of its own, by which the others know it.
type Group struct {
	Bucket *Bucket
	Name   string
	Own    Claim // of this process; its holder is the NAME in its key
	TTL    time.Duration
	// Changed is called with the names of the members, at first and whenever they change.
	Changed func(members []string)
	// Stopped is called with the name of a member that has stopped without releasing its lease, by one of the others.
	Stopped func(ctx context.Context, member string)
	Logger  *slog.Logger
}

// member is a lease of a group that is held.
type member struct {
	claim    *Claim
	observed observation
}

// Watch reports the members until ctx is done.
func (g *Group) Watch(ctx context.Context) {
	began := time.Now()
	members, last := map[string]*member{}, []string(nil)
	tick := time.NewTicker(g.TTL / 10)
	defer tick.Stop()
	for ctx.Err() == nil {
		w, err := g.Bucket.keys.Entries(ctx, g.Name+".*")
		if err != nil {
			g.Logger.Debug("a group of leases cannot be watched; trying again", "group", g.Name, "error", err)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			continue
		}
		for whole, open := false, true; open && ctx.Err() == nil; {
			var entry jetstream.KeyValueEntry
			select {
			case entry, open = <-w.Updates():
				if !open { // the watch has ended, so the members are not known
					break
				}
				if whole = whole || entry == nil; entry != nil {
					update(members, strings.TrimPrefix(entry.Key(), g.Name+"."), entry, time.Since(began))
				}
			case <-tick.C:
				g.check(ctx, members, began)
			case <-ctx.Done():
			}
			if now := slices.Sorted(maps.Keys(members)); whole && !slices.Equal(now, last) {
				last = now
				g.Changed(slices.Clone(now))
			}
		}
		_ = w.Stop()
		select { // no watch ends sooner than the next begins
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// update notes an entry of the watch, which may be older than what was read at the leader.
func update(members map[string]*member, name string, entry jetstream.KeyValueEntry, at time.Duration) {
	if m := members[name]; m != nil && entry.Revision() <= m.observed.revision {
		return
	}
	claim := parseClaim(entry.Value())
	if entry.Operation() != jetstream.KeyValuePut || claim.Holder != name {
		delete(members, name)
		return
	}
	members[name] = &member{claim, observation{entry.Revision(), at, at}}
}

// check reads the leases of members whose renewal is late, and deletes those that have expired, so that all replicas
// see the same.
func (g *Group) check(ctx context.Context, members map[string]*member, began time.Time) {
	for name, m := range members {
		ttl, key := m.claim.ttl(g.TTL), g.Name+"."+name
		hasStopped := hasDied(m.claim, &g.Own)
		if !hasStopped && time.Since(began)-m.observed.last < renewalInterval(ttl)+ttl/24 {
			continue
		}
		if !hasStopped {
			e, err := g.Bucket.read(ctx, key, ttl)
			if err != nil {
				return // none can be read now
			}
			if e.claim == nil {
				delete(members, name)
				continue
			}
			if m.observed, hasStopped = m.observed.read(e.revision, time.Since(began), ttl); !hasStopped {
				continue
			}
		}
		err := g.Bucket.delete(ctx, key, m.observed.revision, ttl)
		if errors.Is(err, natsx.ErrConflict) {
			continue // it was renewed, or another replica was first: the watch reports it
		}
		if err != nil {
			return
		}
		delete(members, name)
		g.Stopped(ctx, name)
	}
}
