package deliveries

import (
	"time"

	"github.com/embedd/embedd/stream/spec"
)

// sample is what all replicas reported, and then what the server said about the consumer.
type sample struct {
	replicas  map[string]*spec.Deliveries // by instance
	delivered uint64                      // consumer sequence of the last delivery
	created   time.Time                   // of the consumer
	leader    string                      // server of the consumer
}

// received is the sum over all replicas.
func (s *sample) received() (sum uint64) {
	for _, r := range s.replicas {
		sum += r.Received
	}
	return sum
}

// isComplete reports whether all replicas count, and get each delivery from the server that counts it: what is sent
// between two servers can be lost without an interruption that a replica notices.
func (s *sample) isComplete() bool {
	for _, r := range s.replicas {
		if r == nil || (r.Pulling || r.Pulls > 0) && r.Server != s.leader {
			return false
		}
	}
	return len(s.replicas) > 0 && s.leader != ""
}

// continues reports whether nothing has happened since an earlier sample after which deliveries may reach no replica:
// a start or an end of one, a new connection, a failed pull, another consumer or leader.
func (s *sample) continues(earlier *sample) bool {
	if earlier == nil || len(s.replicas) != len(earlier.replicas) || s.delivered < earlier.delivered ||
		!s.created.Equal(earlier.created) || s.leader != earlier.leader {
		return false
	}
	for name, now := range s.replicas {
		before := earlier.replicas[name]
		if before == nil || now.Interruptions != before.Interruptions || now.Server != before.Server ||
			now.Received < before.Received {
			return false
		}
	}
	return true
}

// judge compares samples. It knows a lower bound of the stolen deliveries: messages on their way to a replica, and
// those that arrive between its report and that of the server, never count as stolen.
type judge struct {
	before, last *sample // the two newest that can be compared
	base         *sample // from which deliveries are counted; nil: the next one, if nothing happens before it
}

// next takes a sample. isKnown is false while there is no verdict; stolen is how many deliveries since the base have
// reached no replica.
func (j *judge) next(s *sample, isDisturbed bool) (stolen uint64, isKnown bool) {
	before, last := j.before, j.last
	j.before, j.last = last, s
	switch {
	case isDisturbed || !s.isComplete() || !s.continues(last):
		// What was requested before by a connection that is gone may still be delivered until the next sample.
		j.base, j.before = nil, nil
		if isDisturbed || !s.isComplete() {
			j.last = nil
		}
		return 0, false
	case j.base == nil:
		j.base = s
		return 0, false
	}
	settled := s.settled(j.base, before, last)
	if settled < j.base.delivered {
		return 0, false
	}
	// What was on its way at the base counts as received, and hides as many stolen ones.
	delivered, received := settled-j.base.delivered, s.received()-j.base.received()
	return delivered - min(received, delivered), true
}

// settled is a consumer sequence up to which nothing is on its way: each replica has received what was delivered to it.
// A connection delivers in order, so a replica has everything up to the newest message it has. It also has everything
// that had been delivered two samples before, unless the pull that was open one sample before is still open.
func (s *sample) settled(base, before, last *sample) uint64 {
	settled := s.delivered
	for name, now := range s.replicas {
		var own uint64
		if now.Newest != base.replicas[name].Newest { // otherwise it may be a sequence of an earlier consumer
			own = now.Newest
		}
		if middle := last.replicas[name]; before != nil && (!middle.Pulling || now.Pulls != middle.Pulls) {
			own = max(own, before.delivered)
		}
		settled = min(settled, own)
	}
	return settled
}
