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
	last    *sample // nil: none that can be compared
	base    *sample // from which deliveries are counted; nil: the next one, if nothing happens before it
	pending *sample // whose deliveries are to be accounted for
	after   *sample // the first one behind pending
}

// next takes a sample. known is false while there is no verdict; stolen is how many deliveries since the base have
// reached no replica.
func (j *judge) next(s *sample, isDisturbed bool) (stolen uint64, known bool) {
	last := j.last
	j.last = s
	switch {
	case isDisturbed || !s.isComplete() || !s.continues(last):
		// What was requested before by a connection that is gone may still be delivered until the next sample.
		j.base, j.pending, j.after = nil, nil, nil
		if isDisturbed || !s.isComplete() {
			j.last = nil
		}
	case j.base == nil:
		j.base = s
	case j.pending == nil:
		j.pending = s
	case j.after == nil:
		j.after = s
	case s.hasReceived(j.pending.delivered, j.after):
		delivered, received := j.pending.delivered-j.base.delivered, s.received()-j.base.received()
		j.pending, j.after = s, nil
		return delivered - min(received, delivered), true
	}
	return 0, false
}

// hasReceived reports whether each replica has received what was delivered to it before an earlier sample: it has a
// later delivery, or the pull that was open then has ended.
func (s *sample) hasReceived(delivered uint64, earlier *sample) bool {
	for name, before := range earlier.replicas {
		now := s.replicas[name]
		if before.Pulling && now.Pulls == before.Pulls && now.Newest <= delivered {
			return false
		}
	}
	return true
}
