package lease

import (
	"maps"
	"slices"
	"time"
)

// roster is what the coordinator of a group knows of the sessions of its members, without requests and clocks. Their
// keys are named by their numbers.
type roster struct {
	ttl  time.Duration
	keys map[string]*membership
	// isListed is whether the keys of the bucket were listed: before that there may be others.
	isListed bool
	// suspect is the former coordinator, whose lease has expired. Its session ends with it: it has expired if it is not
	// renewed within one interval either, unless the servers did not answer meanwhile.
	suspect string
}

// membership is what was read of the key of a member.
type membership struct {
	isRead   bool
	claim    *Claim // nil: a member has left it
	observed observation
	ttl      time.Duration
	next     time.Duration // when to read it again
}

func newRoster(ttl time.Duration, suspect string) *roster {
	return &roster{ttl: ttl, keys: map[string]*membership{}, suspect: suspect}
}

// list has the keys of the bucket read now that are not known yet.
func (r *roster) list(at time.Duration, names []string) {
	r.isListed = true
	for _, name := range names {
		if r.keys[name] == nil {
			r.keys[name] = &membership{ttl: r.ttl, next: at}
		}
	}
}

// announced has a key read now, and reports whether it is known. An unknown one is not added: any client can announce
// keys that the bucket does not have.
func (r *roster) announced(at time.Duration, name string) (isKnown bool) {
	m := r.keys[name]
	if m != nil {
		m.next = at
	}
	return m != nil
}

// due are the keys to read now.
func (r *roster) due(at time.Duration) (names []string) {
	for name, m := range r.keys {
		if m.next <= at {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// next is when the next key is due.
func (r *roster) next(at time.Duration) time.Duration {
	next := at + readInterval(r.ttl)
	for _, m := range r.keys {
		next = min(next, m.next)
	}
	return next
}

// read records what was read of a key, and reports whether its member has stopped: its session has expired, or its
// process has died. A free session is read once a TTL, since an announcement may be lost.
func (r *roster) read(name string, e entry, at time.Duration, hasDied bool) (isStopped bool) {
	m := r.keys[name]
	m.isRead = true
	if e.claim == nil {
		m.claim, m.observed, m.next = nil, observation{}, at+r.ttl
		return false
	}
	isFirst, before := m.claim == nil, m.observed
	m.claim, m.ttl = e.claim, e.claim.ttl(r.ttl)
	var isExpired bool
	m.observed, isExpired = before.read(e.revision, at, m.ttl)
	switch isSuspect := e.claim.Holder == r.suspect; {
	case isSuspect && isFirst:
		m.observed.since = at + renewalInterval(m.ttl) + m.ttl/8 - expiry(m.ttl)
	case isSuspect && before.revision == e.revision && at-before.last > maxCounted(m.ttl):
		m.observed.since, isExpired = at-maxCounted(m.ttl), false // in an outage it could not be renewed
	}
	if m.next = m.observed.next(m.ttl, true); m.observed.last == m.observed.first { // so many are read once a renewal
		m.next = min(at+renewalInterval(m.ttl), max(at, m.observed.since+expiry(m.ttl)))
	}
	return isExpired || hasDied
}

// remove records that a key was deleted.
func (r *roster) remove(name string, at time.Duration) { r.read(name, entry{}, at, false) }

// members are the claims of the members now. isKnown is false while the keys were not listed, or one was not read yet.
func (r *roster) members() (members []*Claim, isKnown bool) {
	if !r.isListed {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(r.keys)) {
		switch m := r.keys[name]; {
		case !m.isRead:
			return nil, false
		case m.claim != nil && m.claim.Holder != unknownWriter:
			members = append(members, m.claim)
		}
	}
	return members, true
}
