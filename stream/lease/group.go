package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// Group are replicas that share work. Each member holds a lease NAME.member.HOLDER of its own. One of them, the
// coordinator, holds NAME.coordinator, reads the leases of all and lists the members in its claim, which the others
// read. So the requests at rest grow with the number of members, not with its square.
type Group struct {
	Bucket *Bucket
	Name   string
	Own    Claim // of this process; its holder is a token of a key
	TTL    time.Duration
	// Changed is called with the names of the members, at first and whenever they change.
	Changed func(members []string)
	// Stopped is called in the coordinator with the name of a member that has stopped without releasing its lease.
	Stopped func(ctx context.Context, member string)
	Logger  *slog.Logger

	began time.Time
}

// ReleaseTimeout is how long the end of a process waits for the server to take a lease back; after that it expires.
const ReleaseTimeout = 2 * time.Second

func (g *Group) memberKeys() string { return g.Name + ".member." }

// Run makes this process a member, and reports the members, until ctx is done.
func (g *Group) Run(ctx context.Context) {
	g.began = time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	member := g.lease(g.memberKeys()+g.Own.Holder, nil)
	wg.Go(func() { g.hold(ctx, member, func(context.Context, uint64) {}) })
	var last []string
	coordinator := g.lease(g.Name+".coordinator", func(holder *Claim) {
		switch {
		case len(holder.Members) == 0:
		case !slices.Equal(holder.Members, last):
			last = holder.Members
			g.Changed(slices.Clone(last))
		case !slices.Contains(last, g.Own.Holder): // an announcement may be lost
			g.Bucket.keys.Announce(g.memberKeys()+g.Own.Holder, member.claimed())
		}
	})
	g.hold(ctx, coordinator, func(ctx context.Context, term uint64) {
		if tenure := coordinator.Tenure(); tenure.Term == term && term != 0 {
			g.coordinate(ctx, coordinator, tenure)
		}
	})
}

func (g *Group) lease(key string, observe func(*Claim)) *Lease {
	return g.Bucket.Lease(Options{Key: key, Claim: g.Own, TTL: g.TTL, Observe: observe, Logger: g.Logger})
}

// hold holds a lease or waits for it until ctx is done, and releases it.
func (g *Group) hold(ctx context.Context, l *Lease, changed func(context.Context, uint64)) {
	if err := l.Acquire(ctx); err != nil && ctx.Err() == nil {
		g.Logger.Debug("a lease of a group cannot be acquired; trying again", "key", l.options.Key, "error", err)
	}
	l.Run(ctx, changed)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseTimeout)
	defer cancel()
	l.Release(ctx)
}

// coordinate keeps the list of members while this process is the coordinator.
func (g *Group) coordinate(ctx context.Context, l *Lease, tenure Tenure) {
	watch := g.Bucket.keys.Watch(g.memberKeys())
	defer watch.Stop()
	r := newRoster(g.TTL, l.formerHolder())
	listed := -g.TTL
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && l.Tenure() == tenure {
		select {
		case <-timer.C:
		case change := <-watch.Changed():
			if !r.announced(time.Since(g.began), strings.TrimPrefix(change.Key, g.memberKeys())) {
				listed = -g.TTL // it may be a new key, or none
			}
		case <-ctx.Done():
			return
		}
		if now := time.Since(g.began); now-listed >= renewalInterval(g.TTL) {
			names, err := g.Bucket.keys.Names(ctx, g.memberKeys())
			if err == nil {
				listed = now
				r.add(now, names...)
			}
		}
		if err := g.check(ctx, r); err != nil {
			g.Logger.Debug("the leases of a group cannot be read; trying again", "group", g.Name, "error", err)
			timer.Reset(readInterval(g.TTL))
			continue
		}
		l.SetMembers(r.members())
		timer.Reset(r.next(time.Since(g.began)) - time.Since(g.began))
	}
}

// check reads the leases that are due, and deletes those that have expired.
func (g *Group) check(ctx context.Context, r *roster) error {
	for _, name := range r.due(time.Since(g.began)) {
		key := g.memberKeys() + name
		e, err := g.Bucket.read(ctx, key, g.TTL)
		if err != nil {
			return err // none can be read now
		}
		isStopped := r.read(name, e, time.Since(g.began), e.claim != nil && hasDied(e.claim, &g.Own))
		if !isStopped {
			continue
		}
		err = g.Bucket.delete(ctx, key, e.revision, g.TTL)
		if errors.Is(err, natsx.ErrConflict) {
			r.announced(time.Since(g.began), name) // it was renewed, or deleted by another replica
			continue
		}
		if err != nil {
			return err
		}
		r.remove(name)
		g.Stopped(ctx, name)
	}
	return nil
}
