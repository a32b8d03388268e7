package lease

import (
	"maps"
	"slices"
	"time"
)

// roster is what the coordinator of a group knows of the leases of its members, without requests and clocks.
type roster struct {
	ttl  time.Duration
	keys map[string]*membership
	// suspect is the former coordinator, whose lease has expired. Its lease as a member ends with it: it has expired if
	// it is not renewed within one interval either.
	suspect string
}

// membership is what was read of the key of a member.
type membership struct {
	isHeld   bool // else it is the marker of a member that has left, or not of a member
	observed observation
	ttl      time.Duration
	next     time.Duration // when to read it again
}

func newRoster(ttl time.Duration, suspect string) *roster {
	return &roster{ttl, map[string]*membership{}, suspect}
}

// add has keys of the bucket read now that are not known yet.
func (r *roster) add(at time.Duration, names ...string) {
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

// unscheduled is the time of what is read only after an announcement.
const unscheduled = time.Duration(1<<63 - 1)

// read records what was read of a key, and reports whether its member has stopped without deleting it.
func (r *roster) read(name string, e entry, at time.Duration, hasDied bool) (isStopped bool) {
	m := r.keys[name]
	if e.claim == nil || e.claim.Holder != name {
		m.isHeld, m.observed, m.next = false, observation{}, unscheduled
		return false
	}
	isFirst := !m.isHeld
	m.isHeld, m.ttl = true, e.claim.ttl(r.ttl)
	before := m.observed.revision
	var isExpired bool
	m.observed, isExpired = m.observed.read(e.revision, at, m.ttl)
	if isFirst && name == r.suspect {
		m.observed.since = at + renewalInterval(m.ttl) + m.ttl/8 - expiry(m.ttl)
	}
	m.next = at + readInterval(m.ttl)
	if before != e.revision {
		m.next = at + renewalInterval(m.ttl)
	}
	if end := m.observed.since + expiry(m.ttl); end > at {
		m.next = min(m.next, end)
	}
	return isExpired || hasDied
}

// remove records that the lease of a member was deleted.
func (r *roster) remove(name string) { r.read(name, entry{}, 0, false) }

// members are the members now; nil while a key was not read yet.
func (r *roster) members() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.keys)) {
		switch m := r.keys[name]; {
		case m.isHeld:
			names = append(names, name)
		case m.next != unscheduled:
			return nil
		}
	}
	return names
}
