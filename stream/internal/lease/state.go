package lease

import "time"

// state is one replica's part in a lease, without requests and clocks: it holds the lease or waits for it. A lease
// expires by the monotonic clock of each replica. The time of the server, and steps of a wall clock, change nothing.
//
//   - The holder renews it every third of its TTL. It holds it for the TTL, counted from sending the last renewal that
//     the server confirmed.
//   - A replica that waits reads it at the leader a quarter of the TTL after it has read a new revision, and then every
//     twelfth. A revision that is unchanged for 1.1 TTLs since its first reading has expired: its holder, which began
//     to count earlier, has stopped. The replica takes the lease by compare-and-set, which fails if it was renewed.
//   - Of the time between two readings at most half a TTL counts, so that a holder can renew its lease after an outage
//     of the servers. Safety does not depend on it.
//   - A claim that names the session of a process is valid while the session is, which the process renews for all its
//     leases. If the session has lapsed, the holder stores the claim again. A replica that waits counts from the last
//     renewal of the session. It deletes an expired one by compare-and-set, which frees all its leases.
type state struct {
	ttl       time.Duration
	isPatient bool // see Options.IsPatient
	yields    bool // see Options.ShouldYield

	// Of a holder.
	term     uint64        // the revision at which it was acquired, or renewed too late; 0: not held
	revision uint64        // of the last confirmed claim; 0: none
	expires  time.Duration // when it is no longer held, unless it is renewed
	// sessionTerm is that of the session when the claim was stored, if it names one.
	sessionTerm uint64

	// Of a replica that waits.
	observed    observation
	observedTTL time.Duration // of the observed claim
}

// isHeld reports whether the lease is held at a time.
func (s *state) isHeld(at time.Duration) bool { return s.term != 0 && at <= s.expires }

// confirm notes that a claim of this replica, sent at a time, is stored at a revision. If it names a session, that had
// this term when it was sent.
func (s *state) confirm(revision uint64, sent, at time.Duration, session uint64) {
	if s.term == 0 || s.sessionTerm != session || session == 0 && at > s.expires {
		s.term = revision
	}
	s.revision, s.expires, s.sessionTerm, s.observed = revision, sent+s.ttl, session, observation{}
}

// termAt is the term at a time, while the session that the claim names, if it names one, has a term; 0: it is not held.
func (s *state) termAt(at time.Duration, session uint64) uint64 {
	if s.sessionTerm != session || session == 0 && !s.isHeld(at) {
		return 0
	}
	return s.term
}

// isLost reports whether another replica was seen to have the lease.
func (s state) isLost() bool { return s.revision == 0 && s.observed.revision != 0 }

// lose notes that this replica does not hold the lease.
func (s *state) lose() { s.term, s.revision = 0, 0 }

// action is what a replica does with a lease that it has read.
type action int

const (
	wait       action = iota // read it again later
	take                     // write the own claim, if the revision is still the same
	endSession               // delete the session of its holder, if the revision of that is still the same
)

// reading is what a replica has read of a lease at the leader, and what else it knows then.
type reading struct {
	entry
	session entry         // that the claim names; without it the lease is free
	at      time.Duration // when the reading was answered, of the session if the claim names one

	isOwn     bool // the claim is this replica's: a write that was not confirmed is stored
	isCurrent bool // if it is, and at the revision of the last confirmed one: it needs no write
	hasDied   bool // the process of the holder is known to have ended
	yields    bool // another replica that waits is to get the lease
}

// newest is the revision of the last that the holder has stored.
func (r *reading) newest() uint64 { return max(r.revision, r.session.revision) }

// isOver reports whether the session that the claim names is over, according to a reading of its key. An unreadable one
// may be a forgery.
func (r *reading) isOver(session entry) bool {
	c := session.claim
	return c == nil && session.revision != 0 ||
		c != nil && c.Holder != r.claim.Session.Holder && c.Holder != unknownWriter
}

// withSession adds the reading of the session that the claim names. If it is over, the lease is free.
func (r *reading) withSession(e entry) {
	isOver := r.isOver(e)
	if r.session = e; isOver {
		r.claim, r.session = nil, entry{}
	}
}

// step decides what to do after a reading.
func (s *state) step(r reading) action {
	switch {
	case r.isOwn && r.isCurrent && r.revision == s.revision:
		return wait
	case r.isOwn:
		return take // the lease counts as held after a confirmed renewal
	}
	s.lose()
	s.yields = r.yields
	if r.claim == nil {
		s.observed = observation{}
	} else {
		s.observedTTL = r.claim.ttl(s.ttl)
		var isExpired bool
		s.observed, isExpired = s.observed.read(r.newest(), r.at, s.observedTTL)
		if !isExpired && !r.hasDied {
			return wait
		}
		if r.session.claim != nil {
			return endSession
		}
	}
	if r.yields {
		return wait
	}
	return take
}

// next returns when to renew or read the lease again, after an attempt that began at a time.
func (s *state) next(began time.Duration) time.Duration {
	switch {
	case s.revision != 0:
		return began + renewalInterval(s.ttl)
	case s.observed.revision == 0 && s.yields:
		return began + s.ttl
	case s.observed.revision == 0:
		return began + readInterval(s.ttl)
	}
	if next := s.observed.next(min(s.ttl, s.observedTTL), !s.isPatient); next > began {
		return next
	}
	return began + readInterval(s.ttl) // the attempt failed
}

func renewalInterval(ttl time.Duration) time.Duration { return ttl / 3 }
func readInterval(ttl time.Duration) time.Duration    { return ttl / 6 }
func maxCounted(ttl time.Duration) time.Duration      { return ttl / 2 }
func expiry(ttl time.Duration) time.Duration          { return ttl + ttl/10 }

// observation is what a replica has read of a lease that another one holds. Times are those of a monotonic clock since
// any moment. The zero value has read nothing.
type observation struct {
	revision    uint64
	first, last time.Duration // of the first and the newest reading of the revision
	since       time.Duration // of the first reading, plus the time that does not count
}

// read is the observation after a reading that was answered at a time. isExpired reports whether the lease has expired.
func (o observation) read(revision uint64, at, ttl time.Duration) (next observation, isExpired bool) {
	if revision != o.revision {
		return observation{revision, at, at, at}, false
	}
	o.since += max(at-o.last-maxCounted(ttl), 0)
	o.last = at
	return o, at-o.since >= expiry(ttl)
}

// next returns when to read the lease again: often if a renewal is due. A replica that is not urgent reads a lease that
// was renewed once a TTL.
func (o observation) next(ttl time.Duration, isUrgent bool) time.Duration {
	next := o.last + ttl/12
	if o.last == o.first {
		if !isUrgent {
			return o.last + ttl
		}
		next = o.last + ttl/4
	}
	if end := o.since + expiry(ttl); end > o.last {
		next = min(next, end)
	}
	return next
}
