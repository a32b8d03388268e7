package lease

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// life is the TTL of the leases in tests of the state: only ratios to it count.
const life = time.Minute

// readings has a replica that waits read a claim at some times, in lives, and returns the last action.
func readings(s *state, c *Claim, revision uint64, at ...float64) (last action) {
	for _, t := range at {
		last = s.step(reading{entry: entry{claim: c, revision: revision}, at: time.Duration(t * float64(life))})
	}
	return last
}

// TestExpiry: a claim that is unchanged for 1.1 lives of answered readings without a gap is taken, also one of an
// unknown writer.
func TestExpiry(t *testing.T) {
	t.Parallel()
	theirs, unreadable := &Claim{Holder: "other"}, parseClaim([]byte("junk"))
	every := func(from, to float64) (at []float64) {
		for ; from < to; from += 1.0 / 6 {
			at = append(at, from)
		}
		return append(at, to)
	}
	for name, c := range map[string]struct {
		claim *Claim
		at    []float64
		want  action
	}{
		"read for the first time":   {theirs, []float64{5}, wait},
		"unchanged for a life":      {theirs, every(5, 6.09), wait},
		"unchanged for 1.1 lives":   {theirs, every(5, 6.1), take},
		"unreadable":                {unreadable, every(5, 6.1), take},
		"a gap":                     {theirs, append(every(5, 5.5), every(6.01, 6.2)...), wait},
		"1.1 lives after a gap":     {theirs, append(every(5, 5.5), every(6.01, 7.11)...), take},
		"half a life is no gap":     {theirs, []float64{5, 5.5, 6, 6.1}, take},
		"read twice in an outage":   {theirs, []float64{5, 6.1}, wait},
		"a longer life":             {&Claim{Holder: "other", TTL: 2 * life.Milliseconds()}, every(5, 7.19), wait},
		"the end of a longer life":  {&Claim{Holder: "other", TTL: 2 * life.Milliseconds()}, every(5, 7.2), take},
		"no replica has such a TTL": {&Claim{Holder: "other", TTL: 1 << 60}, every(5, 6.1), take},
	} {
		if got := readings(&state{ttl: life}, c.claim, 7, c.at...); got != c.want {
			t.Errorf("%s: action %v, want %v", name, got, c.want)
		}
	}
	s := &state{ttl: life}
	readings(s, theirs, 7, every(5, 6)...)
	if got := readings(s, theirs, 8, every(6.05, 7.14)...); got != wait {
		t.Errorf("1.09 lives after a renewal: action %v", got)
	}
	if got := readings(s, theirs, 8, 7.15); got != take {
		t.Errorf("1.1 lives after a renewal: action %v", got)
	}
}

// TestStep: what a replica does with a lease that is free or its own, whose holder has died, or that another replica is
// to take.
func TestStep(t *testing.T) {
	t.Parallel()
	theirs := &Claim{Holder: "other"}
	for name, c := range map[string]struct {
		r    reading
		want action
	}{
		"free":                    {reading{}, take},
		"free, for the standby":   {reading{yields: true}, wait},
		"held":                    {reading{entry: entry{claim: theirs, revision: 1}}, wait},
		"held by a dead process":  {reading{entry: entry{claim: theirs, revision: 1}, hasDied: true}, take},
		"dead, for the standby":   {reading{entry: entry{claim: theirs, revision: 1}, hasDied: true, yields: true}, free},
		"an unconfirmed own":      {reading{entry: entry{claim: theirs, revision: 1}, isOwn: true}, take},
		"an own, for the standby": {reading{entry: entry{claim: theirs, revision: 1}, isOwn: true, yields: true}, take},
	} {
		if got := (&state{ttl: life}).step(c.r); got != c.want {
			t.Errorf("%s: action %v, want %v", name, got, c.want)
		}
	}
}

// TestHeld: a lease is held for its TTL from sending the last confirmed renewal, under one term, and a late renewal is
// a lapse; when another replica has it, it is lost.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := &state{ttl: life}
	s.confirm(3, 10*life, 10*life+life/2)
	if s.isHeld(11*life+1) || !s.isHeld(11*life) || s.term != 3 {
		t.Errorf("after a claim: %+v", s)
	}
	s.confirm(5, 11*life, 11*life+life/2)
	if s.term != 3 || s.lapses != 1 || !s.isHeld(12*life) {
		t.Errorf("after a renewal that came late: %+v", s)
	}
	s.confirm(6, 11*life+life/3, 12*life)
	if s.term != 3 || s.lapses != 1 || s.next(12*life) != 12*life+life/3 {
		t.Errorf("after a renewal in time: %+v", s)
	}
	if got := readings(s, &Claim{Holder: "other"}, 7, 12.1); got != wait || s.isHeld(12*life) {
		t.Errorf("after another replica took it: action %v, %+v", got, s)
	}
	if next := s.next(12 * life); next != 12*life+life/6 {
		t.Errorf("it is read again after %v", next-12*life)
	}
	s.observed.since = 11*life + 1 // so it expires sooner
	if next := s.next(12 * life); next != 12*life+life/10+1 {
		t.Errorf("it is read again after %v, want the moment at which it expires", next-12*life)
	}
}

// world has replicas that compete for one lease, in simulated time: requests take time and are lost, processes are
// suspended, and clocks run fast or slow.
type world struct {
	now    time.Duration
	events events
	random *rand.Rand
	claim  *Claim
	last   uint64 // revision
	out    time.Duration
	all    []*simulated
	faults []string
}

func randomTime(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) { heap.Push(&w.events, event{w.now + d, do}) }

// simulated is a replica.
type simulated struct {
	*world
	state
	claim   Claim
	rate    float64 // of its clock
	resumes time.Duration
}

func (r *simulated) clock() time.Duration { return time.Duration(float64(r.now) * r.rate) }

// request has the server do something, and the replica with the answer; a lost one ends with lost.
func (r *simulated) request(limit time.Duration, at func(), answered, lost func()) {
	delay := func() time.Duration { return randomTime(r.random, life/50) }
	over := false
	r.after(delay(), func() {
		if r.now < r.out || r.random.IntN(50) == 0 {
			return
		}
		at()
		if r.random.IntN(50) == 0 {
			return // the answer is lost
		}
		r.after(delay(), func() {
			r.awake(func() {
				if !over {
					over = true
					answered()
				}
			})
		})
	})
	r.after(limit, func() {
		r.awake(func() {
			if !over {
				over = true
				lost()
			}
		})
	})
}

// awake does something when the process is not suspended.
func (r *simulated) awake(do func()) {
	if r.now < r.resumes {
		r.after(r.resumes-r.now, func() { r.awake(do) })
		return
	}
	do()
}

// attempt is what Lease.Acquire and Run do.
func (r *simulated) attempt() {
	began := r.clock()
	again := func() {
		r.after(max(time.Duration(float64(r.state.next(began)-r.clock())/r.rate), 1), func() { r.awake(r.attempt) })
	}
	write := func(revision uint64, conflict func()) {
		sent, stored := r.clock(), uint64(0)
		r.request(renewalInterval(r.ttl), func() {
			if r.world.last == revision {
				r.world.last++
				r.world.claim, stored = &r.claim, r.world.last
			}
		}, func() {
			if stored == 0 {
				conflict()
				return
			}
			r.confirm(stored, sent, r.clock())
			again()
		}, again)
	}
	read := func() {
		var e entry
		r.request(r.ttl/4, func() { e = entry{claim: r.world.claim, revision: r.world.last} }, func() {
			isOwn := e.claim == &r.claim
			if r.step(reading{entry: e, at: r.clock(), isOwn: isOwn}) == take {
				write(e.revision, again)
				return
			}
			again()
		}, again)
	}
	if r.revision != 0 {
		write(r.revision, read)
		return
	}
	read()
}

// holder is the replica that holds the lease, nil if none does; two are a fault.
func (w *world) holder() (h *simulated) {
	for _, r := range w.all {
		if !r.isHeld(r.clock()) {
			continue
		}
		if h != nil {
			w.faults = append(w.faults, fmt.Sprintf("at %v %s and %s hold the lease", w.now, h.claim.Holder, r.claim.Holder))
		}
		h = r
	}
	return h
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7))}
	for i := range 4 {
		r := &simulated{world: w, state: state{ttl: life}, claim: Claim{Holder: fmt.Sprint("r", i)},
			rate: 0.97 + 0.06*w.random.Float64()}
		w.all = append(w.all, r)
		w.after(randomTime(w.random, life), r.attempt)
	}
	return w
}

// run simulates a time. It ends sooner when isOver says so of the replica that holds the lease.
func (w *world) run(d time.Duration, isOver func(holder *simulated) bool) {
	for end := w.now + d; w.now < end; {
		one := heap.Pop(&w.events).(event)
		w.now = one.at
		one.do()
		if h := w.holder(); h != nil && isOver(h) {
			return
		}
	}
}

func never(*simulated) bool { return false }

// settle runs until a replica holds the lease, for some lives, and returns it; nil if none does.
func (w *world) settle() *simulated {
	w.run(4*life, never)
	w.run(life, func(*simulated) bool { return true })
	return w.holder()
}

// TestNeverTwoHolders: whatever is suspended or lost, never do two replicas hold the lease by their own clocks, and
// without faults one always does soon.
func TestNeverTwoHolders(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(seed)
		for range 30 {
			switch w.random.IntN(3) {
			case 0: // the servers are away
				w.out = w.now + randomTime(w.random, 3*life)
			case 1: // the holder is suspended, or another replica
				r := w.all[w.random.IntN(len(w.all))]
				if h := w.holder(); h != nil && w.random.IntN(2) == 0 {
					r = h
				}
				r.resumes = w.now + randomTime(w.random, 3*life)
			}
			w.run(randomTime(w.random, 3*life), never)
		}
		if w.settle() == nil {
			w.faults = append(w.faults, "none holds the lease")
		}
		if w.faults != nil {
			t.Fatalf("seed %d: %q", seed, w.faults[0])
		}
	}
}

// TestTakeoverTime: after the holder has stopped another replica holds the lease within 1.5 lives, but for requests
// that are lost twice in a row; after an outage of the servers in which it could not be renewed the holder keeps it.
func TestTakeoverTime(t *testing.T) {
	t.Parallel()
	late, kept := 0, 0
	for seed := range uint64(200) {
		w := newWorld(seed)
		former := w.settle()
		stopped := w.now
		if former == nil {
			t.Fatalf("seed %d: none holds the lease", seed)
		}
		former.resumes = 1000 * life
		w.run(4*life, func(h *simulated) bool { return h != former })
		if took := w.now - stopped; took > life*3/2 {
			late++
		}
		w = newWorld(seed)
		former = w.settle()
		w.out = w.now + life*3/2
		w.run(life*5/2, never)
		if w.holder() == former {
			kept++
		}
	}
	t.Logf("of 200 takeovers %d took longer than 1.5 lives; after 200 outages %d leases are with the holder before", late,
		kept)
	if late > 2 || kept < 198 {
		t.Error("too many")
	}
}
