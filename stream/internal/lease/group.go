package lease

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/embedd/embedd/internal/natsx"
)

// Group are replicas that share the parts of some work. Each member renews a session, the lease NAME.session.N with the
// lowest N that is free, so there are as many keys as there ever were members at once. Its claim lists the parts that
// the member owns. One of them, the coordinator, holds NAME.assignment, reads the sessions and assigns the parts in its
// claim, which the others read. So the requests at rest grow with the number of members, not with its square.
type Group struct {
	Bucket *Bucket
	Name   string
	Own    Claim // of this process. Members with other settings share no parts with it.
	TTL    time.Duration
	Parts  [][]string // each of these groups is shared equally
	// Work owns a part until ctx is done, and then drains it. The session that was passed is valid while its term is the
	// one that was passed.
	Work func(ctx context.Context, part string, session *Lease, term uint64)
	// Report is called with the reason why this process has no session, and with nil while it has one.
	Report func(error)
	Logger *slog.Logger

	began time.Time
}

// sessionKeys begin the keys of sessions, without the name of the group.
const sessionKeys = "session."

// Run makes this process a member until ctx is done, and returns when it has drained its parts.
func (g *Group) Run(ctx context.Context) {
	g.began = time.Now()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		s := &session{Group: g, hints: newHints(),
			member: member{name: g.Own.Holder, running: map[string]bool{}}, wakeups: make(chan struct{}, 1),
			cancels: map[string]context.CancelFunc{}, drained: make(chan string)}
		var err error
		if s.lease, err = g.Bucket.firstFree(ctx, g.Name+"."+sessionKeys, Options{Claim: g.Own, TTL: g.TTL, Logger: g.Logger,
			Observe: s.wake}); err != nil {
			g.Report(err)
			g.Logger.Debug("a group cannot be joined; trying again", "group", g.Name, "error", err)
			natsx.Backoff(ctx, attempt)
			continue
		}
		attempt = -1
		s.run(ctx)
	}
}

// session is the membership of this process while it has one key.
type session struct {
	*Group
	lease       *Lease
	coordinator *Lease // the lease of the coordinator
	member      member
	cancels     map[string]context.CancelFunc // of the parts that run
	drained     chan string                   // receives each part that was drained
	wakeups     chan struct{}                 // signalled when one of its leases was read or written
	hints       *rate.Limiter                 // of announced assignments that are read at once
}

// successors is how many members wait for the lease of the coordinator in a hurry: those that own parts and are the
// first by name. So the requests of the others do not grow with it.
const successors = 8

// isPatient reports whether enough other members wait for the lease of the coordinator.
func (s *session) isPatient() bool {
	a := s.coordinator.Status().Holder.Assignment
	if a == nil {
		return false
	}
	before, _ := slices.BinarySearch(a.owners(), s.Own.Holder)
	return before >= successors
}

func (s *session) wake() { natsx.Signal(s.wakeups) }

// run follows the assignment until another process has the key of the session, or ctx is done and all is drained.
func (s *session) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	membership, end := context.WithCancel(context.WithoutCancel(ctx)) // until all is drained
	defer end()
	stop := s.lease.Start(membership, func(context.Context, uint64) { s.wake() })
	s.coordinator = s.Bucket.renewed(Options{Key: s.Name + ".assignment", Claim: s.Own, TTL: s.TTL, Logger: s.Logger,
		Observe: s.wake, HintDelay: s.hintDelay, IsPatient: s.isPatient})
	stopCoordinator := s.coordinator.Start(membership, func(ctx context.Context, term uint64) {
		if term != 0 {
			s.coordinate(ctx, s.coordinator, term)
		}
	})
	release := func() {
		stopCoordinator()
		s.coordinator.Release(ctx)
	}
	defer func() {
		stop()
		if s.lease.Release(ctx) && s.member.isLeaving { // while no server answers it would only wait
			s.handOver()
		}
		release()
	}()
	stopped := ctx.Done()
	for term := s.lease.Term(); ; {
		term = s.refresh(term)
		if len(s.member.running) == 0 && (s.member.isLeaving || s.lease.snapshot().isLost()) {
			return
		}
		s.applyAssignment(&wg, membership, term)
		if err := s.lease.Status().Failure; term != 0 {
			s.Report(nil)
		} else if err != nil {
			s.Report(err)
		}
		var expired <-chan time.Time // a session that cannot be renewed ends without a notification
		if term != 0 {
			expired = time.After(s.lease.snapshot().expires - s.lease.now())
		}
		select {
		case <-s.wakeups:
		case part := <-s.drained:
			delete(s.member.running, part)
			delete(s.cancels, part)
		case <-stopped:
			if stopped, s.member.isLeaving = nil, true; s.coordinator.Term() == 0 {
				release()
			}
		case <-expired:
		}
	}
}

// refresh has the member read its stored claim and the assignment, and returns the term of the session. If that is
// another than before, all parts are stopped.
func (s *session) refresh(before uint64) uint64 {
	now := s.lease.Term()
	if now != before {
		for _, stop := range s.cancels {
			stop()
		}
	}
	if now != before && now != 0 { // others may own its parts since
		s.member.newest, s.member.stored = Assignment{}, nil
		s.coordinator.forget()
		s.coordinator.Recheck()
	}
	if own := s.lease.Status().Holder; own.Holder == s.member.name {
		s.member.stored = own.Holds
	}
	if a := s.coordinator.Status().Holder.Assignment; a != nil {
		s.member.read(*a)
	}
	return now
}

// handOver has the parts of this member assigned to others if it is the coordinator: its successor would first have to
// read all sessions. The session is released.
func (s *session) handOver() {
	timeout := time.After(ReleaseTimeout)
	for s.coordinator.Term() != 0 {
		if a := s.coordinator.Status().Holder.Assignment; a == nil || !slices.Contains(a.owners(), s.Own.Holder) {
			return
		}
		select {
		case <-s.wakeups:
		case <-timeout:
			return
		}
	}
}

// newHints limits how often an announced assignment is read at once: any client can announce one. When replicas are
// replaced in turn there are a few in a second.
func newHints() *rate.Limiter { return rate.NewLimiter(2, 10) }

// hintDelay is how long this member waits before it reads an assignment that was announced: all members get the
// announcement, and a part has no owner until the next one has read it. So they read it in turn, a millisecond apart,
// unless there were many announcements.
func (s *session) hintDelay() time.Duration {
	if !s.hints.Allow() {
		return natsx.AnnounceDelay()
	}
	_, number, _ := strings.Cut(s.lease.options.Key, "."+sessionKeys)
	n, _ := strconv.Atoi(number)
	return min(time.Duration(n)*time.Millisecond, natsx.AnnounceDelay())
}

// applyAssignment begins and ends parts as they are assigned, and has the claim list them.
func (s *session) applyAssignment(wg *sync.WaitGroup, membership context.Context, term uint64) {
	m := &s.member
	for part, stop := range s.cancels {
		if !m.isAssigned(part) {
			stop()
		}
	}
	holds := m.holds()
	s.lease.Update(func(c *Claim) bool {
		if slices.Equal(c.Holds, holds) && c.Seen == m.newest.Number && c.IsLeaving == m.isLeaving {
			return false
		}
		c.Holds, c.Seen, c.IsLeaving = holds, m.newest.Number, m.isLeaving
		return true
	})
	if term == 0 {
		return
	}
	for _, part := range m.partsToStart() {
		ctx, stop := context.WithCancel(membership)
		m.running[part], s.cancels[part] = true, stop
		wg.Go(func() {
			defer stop()
			s.Work(ctx, part, s.lease, term)
			s.drained <- part
		})
	}
}

// maxChanges is how many announced changes of sessions wait for the coordinator.
const maxChanges = 16

// coordinate assigns the parts while this process is the coordinator of that term.
func (g *Group) coordinate(ctx context.Context, l *Lease, term uint64) {
	prefix := g.Name + "." + sessionKeys
	changes := make(chan natsx.Change, maxChanges)
	defer g.Bucket.keys.Watch(prefix, func(change natsx.Change) {
		select {
		case changes <- change:
		default: // the session is read when it is due
		}
	}).Stop()
	now := l.Status()
	assignment, r := *cmp.Or(now.Own.Assignment, &Assignment{}), newRoster(g.TTL, now.Former)
	listed := -g.TTL
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && l.Term() == term {
		var change natsx.Change
		select {
		case <-timer.C:
		case change = <-changes:
		case <-ctx.Done():
			return
		}
		if change.Key != "" && !r.announced(time.Since(g.began), strings.TrimPrefix(change.Key, prefix)) {
			listed = -g.TTL // it may be a new key, or none
		}
		if now := time.Since(g.began); now-listed >= renewalInterval(g.TTL) {
			if names, err := g.Bucket.keys.Names(ctx, prefix); err != nil {
				g.Logger.Debug("the sessions of a group cannot be listed; trying again", "group", g.Name, "error", err)
			} else {
				listed = now
				r.list(now, names)
			}
		}
		if err := g.check(ctx, r); err != nil {
			g.Logger.Debug("the sessions of a group cannot be read; trying again", "group", g.Name, "error", err)
			timer.Reset(readInterval(g.TTL))
			continue
		}
		if members, isKnown := r.members(); isKnown {
			assignment = assignment.next(g.Parts, g.Own.Settings, members)
			l.Update(func(c *Claim) bool {
				if l.state.term != term || c.Assignment != nil && c.Assignment.Number == assignment.Number {
					return false // under another term it continues from what is stored
				}
				current := assignment
				c.Assignment = &current
				return true
			})
		}
		timer.Reset(r.next(time.Since(g.began)) - time.Since(g.began))
	}
}

// check reads the sessions that are due, and deletes those that have expired.
func (g *Group) check(ctx context.Context, r *roster) error {
	for _, name := range r.due(time.Since(g.began)) {
		key := g.Name + "." + sessionKeys + name
		e, err := g.Bucket.read(ctx, key, g.TTL)
		if err != nil {
			return err // none can be read now
		}
		if !r.read(name, e, time.Since(g.began), e.claim != nil && hasDied(e.claim, &g.Own)) {
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
		r.remove(name, time.Since(g.began))
	}
	return nil
}
