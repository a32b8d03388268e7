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

// readings has a replica that waits read a claim at some times, in lives, and returns the last action. The session that
// it names has a later revision.
func readings(s *state, c *Claim, revision uint64, at ...float64) (last action) {
	for _, t := range at {
		r := reading{entry: entry{claim: c, revision: revision}, at: time.Duration(t * float64(life))}
		if c.Session != nil {
			r.revision = 1
			r.withSession(entry{claim: &Claim{Holder: c.Session.Holder}, revision: revision})
		}
		last = s.step(r)
	}
	return last
}

// TestExpiry: a claim that is unchanged for 1.1 lives is taken, also one of an unknown writer. Of a gap between two
// answered readings half a life counts.
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
		"read for the first time":  {theirs, []float64{5}, wait},
		"unchanged for a life":     {theirs, every(5, 6.09), wait},
		"unchanged for 1.1 lives":  {theirs, every(5, 6.1), take},
		"unreadable":               {unreadable, every(5, 6.1), take},
		"a gap":                    {theirs, append(every(5, 5.5), every(7.5, 7.59)...), wait},
		"half a life of it counts": {theirs, append(every(5, 5.5), every(7.5, 7.6)...), take},
		"half a life is no gap":    {theirs, []float64{5, 5.5, 6, 6.1}, take},
		"two gaps":                 {theirs, []float64{5, 6, 7, 7.09}, wait},
		"0.1 lives after two gaps": {theirs, []float64{5, 6, 7, 7.1}, take},
		"read twice in an outage":  {theirs, []float64{5, 9}, wait},
		"a longer life":            {&Claim{Holder: "other", TTL: 2 * life.Milliseconds()}, every(5, 7.19), wait},
		"the end of a longer life": {&Claim{Holder: "other", TTL: 2 * life.Milliseconds()}, every(5, 7.2), take},
		"under a session":          {&Claim{Holder: "other", Session: &Session{Holder: "it"}}, every(5, 6.09), wait},
		"an expired session":       {&Claim{Holder: "other", Session: &Session{Holder: "it"}}, every(5, 6.1), endSession},
		"a forged session": {&Claim{Holder: "other", Session: &Session{Holder: unknownWriter}}, every(5, 6.1),
			endSession},
		"before a long life ends":   {&Claim{Holder: "other", TTL: 60 * life.Milliseconds()}, every(5, 11.59), wait},
		"a long life":               {&Claim{Holder: "other", TTL: 60 * life.Milliseconds()}, every(5, 11.6), take},
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
	theirs, under := &Claim{Holder: "other"}, &Claim{Holder: "other", Session: &Session{Holder: "it"}}
	for name, c := range map[string]struct {
		r    reading
		want action
	}{
		"free":                    {reading{}, take},
		"free, for the standby":   {reading{yields: true}, wait},
		"held":                    {reading{entry: entry{claim: theirs, revision: 1}}, wait},
		"held by a dead process":  {reading{entry: entry{claim: theirs, revision: 1}, hasDied: true}, take},
		"dead, for the standby":   {reading{entry: entry{claim: theirs, revision: 1}, hasDied: true, yields: true}, wait},
		"an unconfirmed own":      {reading{entry: entry{claim: theirs, revision: 1}, isOwn: true}, take},
		"an own, for the standby": {reading{entry: entry{claim: theirs, revision: 1}, isOwn: true, yields: true}, take},
		"under a dead process": {reading{entry: entry{claim: under, revision: 1}, hasDied: true, yields: true,
			session: entry{claim: &Claim{Holder: "it"}, revision: 2}}, endSession},
		"under a session that was not read": {reading{entry: entry{claim: under, revision: 1}, hasDied: true}, take},
	} {
		if got := (&state{ttl: life}).step(c.r); got != c.want {
			t.Errorf("%s: action %v, want %v", name, got, c.want)
		}
	}
}

// TestHeld: a lease is held for its TTL from sending the last confirmed renewal, under one term, and a late renewal
// begins another; when another replica has it, it is lost.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := &state{ttl: life}
	s.confirm(3, 10*life, 10*life+life/2, 0)
	if s.isHeld(11*life+1) || !s.isHeld(11*life) || s.term != 3 {
		t.Errorf("after a claim: %+v", s)
	}
	s.confirm(5, 11*life, 11*life+life/2, 0)
	if s.term != 5 || !s.isHeld(12*life) {
		t.Errorf("after a renewal that came late: %+v", s)
	}
	s.confirm(6, 11*life+life/3, 12*life, 0)
	if s.term != 5 || s.next(12*life) != 12*life+life/3 {
		t.Errorf("after a renewal in time: %+v", s)
	}
	if got := readings(s, &Claim{Holder: "other"}, 7, 12.1); got != wait || s.isHeld(12*life) {
		t.Errorf("after another replica took it: action %v, %+v", got, s)
	}
	if next := s.next(12 * life); next != 12*life+life/10+life/4 {
		t.Errorf("it is read again after %v", next-12*life)
	}
	s.observed.since = 11*life + 1 // so it expires sooner
	if next := s.next(12 * life); next != 12*life+life/10+1 {
		t.Errorf("it is read again after %v, want the moment at which it expires", next-12*life)
	}
}

// TestReadings: a lease that is renewed is read about twice a renewal, and by a patient replica once a
// TTL; one that is not renewed any more expires within 1.2 TTLs, for a patient replica within 2.7.
func TestReadings(t *testing.T) {
	t.Parallel()
	for isUrgent, most := range map[bool]int{true: 215, false: 35} {
		for seed := range uint64(100) {
			random := rand.New(rand.NewPCG(seed, 7))
			var o observation
			interval := renewalInterval(life) * time.Duration(97+random.IntN(7)) / 100
			phase, reads, isExpired := randomTime(random, life), 0, false
			const last = 200 // renewal
			at := time.Duration(0)
			for ; !isExpired; at = o.next(life, isUrgent) + randomTime(random, life/50) {
				n := min(int((at+life+phase)/interval)+1, last)
				if o, isExpired = o.read(uint64(n), at, life); n > last/2 && n < last {
					reads++
				}
			}
			end := float64(o.last-(last*interval-interval-life-phase)) / float64(life)
			if reads > most || end > 2.7 || isUrgent && end > 1.25 {
				t.Errorf("seed %d, urgent %v: %d readings for 100 renewals, expired after %.2f TTLs", seed, isUrgent, reads, end)
			}
		}
	}
}

// TestUnderASession: a claim is held while the session has the term under which it was stored, and a claim that is
// stored again after that has another term. The session is over once its key was deleted or is another process's, not
// when the server does not know it yet.
func TestUnderASession(t *testing.T) {
	t.Parallel()
	s, session := &state{ttl: life}, uint64(2)
	s.confirm(3, 0, 0, session)
	if got := s.termAt(1000*life, session); got != 3 {
		t.Errorf("under the session: %d", got)
	}
	for _, other := range []uint64{0, 1, 4} {
		if got := s.termAt(0, other); got != 0 {
			t.Errorf("held under %d", other)
		}
	}
	session = 4
	s.confirm(7, 0, 0, session)
	s.confirm(8, 0, 0, session)
	if got := s.termAt(0, session); got != 7 {
		t.Errorf("stored again: %d", got)
	}
	for name, c := range map[string]struct {
		session entry
		isOver  bool
	}{
		"of the process":    {entry{claim: &Claim{Holder: "it"}, revision: 5}, false},
		"deleted":           {entry{revision: 5}, true},
		"not known":         {entry{}, false},
		"of another":        {entry{claim: &Claim{Holder: "not it"}, revision: 5}, true},
		"of no one we know": {entry{claim: parseClaim([]byte("junk")), revision: 5}, false},
	} {
		r := reading{entry: entry{claim: &Claim{Holder: "a", Session: &Session{Holder: "it"}}, revision: 4}}
		if r.withSession(c.session); (r.claim == nil) != c.isOver {
			t.Errorf("%s: over is %v", name, r.claim == nil)
		}
	}
	for key, isValid := range map[string]bool{"process.17": true, "process.": false, "process.x": false, "p": false,
		"p.session.1": false, "process.1.2": false} {
		if c := parseClaim([]byte(`{"holder": "a", "session": {"key": "` + key + `"}}`)); (c.Session != nil) != isValid {
			t.Errorf("a session %q: %+v", key, c.Session)
		}
	}
}

// world has replicas that compete for one lease, in simulated time: requests take time and are lost, processes are
// suspended, and clocks run fast or slow.
type world struct {
	now    time.Duration
	events events
	random *rand.Rand
	keys   map[string]entry
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
	session state
	due     time.Duration // of the next renewal of the session
	stored  entry         // the lease as it was read last, and when
	since   time.Duration
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

// put has the server store a claim under a key that is at a revision, nil to delete it; stored is 0 after a conflict.
func (r *simulated) put(key string, c *Claim, revision uint64, then func(stored uint64), lost func()) {
	stored := uint64(0)
	r.request(renewalInterval(r.ttl), func() {
		if r.keys[key].revision == revision {
			r.world.last++
			stored = r.world.last
			r.keys[key] = entry{claim: c, revision: stored}
		}
	}, func() { then(stored) }, lost)
}

// get reads a key.
func (r *simulated) get(key string, then func(entry), lost func()) {
	var e entry
	r.request(r.ttl/4, func() { e = r.keys[key] }, func() { then(e) }, lost)
}

// currentTerm is the term of the lease.
func (r *simulated) currentTerm() uint64 {
	return r.state.termAt(r.clock(), r.session.termAt(r.clock(), 0))
}

// attempt is what Lease.Acquire and Run do.
func (r *simulated) attempt() {
	began := r.clock()
	again := func() {
		next := r.state.next(began)
		if r.revision != 0 {
			next = r.due
		}
		r.after(max(time.Duration(float64(next-r.clock())/r.rate), 1), func() { r.awake(r.attempt) })
	}
	if r.revision == 0 {
		r.read(again)
		return
	}
	r.keep(func() {
		if r.sessionTerm == r.session.termAt(r.clock(), 0) {
			again()
			return
		}
		r.write(r.revision, again, func() { r.read(again) })
	}, again)
}

// keep is sharedSession.keep.
func (r *simulated) keep(then, failed func()) {
	if r.session.revision != 0 && r.clock() < r.due {
		then()
		return
	}
	key, mine, sent := r.claim.Session.Key, &Claim{Holder: r.claim.Holder}, r.clock()
	r.due = sent + renewalInterval(r.ttl)
	again := failed
	failed = func() {
		r.due = sent + readInterval(r.ttl)
		again()
	}
	write := func(revision uint64, conflict func()) {
		sent := r.clock()
		r.put(key, mine, revision, func(stored uint64) {
			if stored == 0 {
				conflict()
				return
			}
			r.session.confirm(stored, sent, r.clock(), 0)
			then()
		}, failed)
	}
	acquire := func() { r.get(key, func(e entry) { r.session.lose(); write(e.revision, failed) }, failed) }
	if r.session.revision != 0 {
		write(r.session.revision, acquire)
		return
	}
	acquire()
}

// write is Lease.write.
func (r *simulated) write(revision uint64, again, conflict func()) {
	r.keep(func() {
		under := r.session.termAt(r.clock(), 0)
		if under == 0 {
			again()
			return
		}
		r.put("lease", &r.claim, revision, func(stored uint64) {
			if stored == 0 {
				conflict()
				return
			}
			r.confirm(stored, 0, 0, under)
			again()
		}, again)
	}, again)
}

// read is Lease.Acquire of a replica that waits.
func (r *simulated) read(again func()) {
	act := func(one reading) {
		one.at, one.isOwn = r.clock(), one.claim == &r.claim
		next := r.step(one)
		finish := func() {
			if r.stored = (entry{}); next == take {
				r.write(one.revision, again, again)
				return
			}
			again()
		}
		if next != endSession {
			if next == wait {
				again()
				return
			}
			finish()
			return
		}
		r.put(one.claim.Session.Key, nil, one.session.revision, func(stored uint64) {
			if one.claim, one.session = nil, (entry{}); stored != 0 {
				next = r.step(one)
			}
			finish()
		}, again)
	}
	known := func(e entry) {
		if e.claim == nil {
			act(reading{entry: e})
			return
		}
		r.get(e.claim.Session.Key, func(session entry) {
			one := reading{entry: e}
			one.withSession(session)
			act(one)
		}, again)
	}
	if r.stored.claim != nil && r.clock()-r.since < r.ttl/2 {
		known(r.stored)
		return
	}
	r.get("lease", func(e entry) {
		r.stored, r.since = e, r.clock()
		known(e)
	}, again)
}

// holder is the replica that holds the lease, nil if none does; two are a fault.
func (w *world) holder() (h *simulated) {
	for _, r := range w.all {
		if r.currentTerm() == 0 {
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
	w := &world{random: rand.New(rand.NewPCG(seed, 7)), keys: map[string]entry{}}
	for i := range 4 {
		name := fmt.Sprint("r", i)
		r := &simulated{world: w, state: state{ttl: life}, session: state{ttl: life},
			claim: Claim{Holder: name, Session: &Session{Key: name, Holder: name}},
			rate:  0.97 + 0.06*w.random.Float64()}
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
// that are lost twice in a row, and within 1.6 in the mean if the servers do not answer for 0.6 lives meanwhile. After
// an outage of the servers in which it could not be renewed the holder keeps it.
func TestTakeoverTime(t *testing.T) {
	t.Parallel()
	takeover := func(seed uint64, outage time.Duration) time.Duration {
		w := newWorld(seed)
		former := w.settle()
		stopped := w.now
		if former == nil {
			t.Fatalf("seed %d: none holds the lease", seed)
		}
		former.resumes = 1000 * life
		w.after(randomTime(w.random, life*6/5), func() { w.out = w.now + outage })
		w.run(8*life, func(h *simulated) bool { return h != former })
		return w.now - stopped
	}
	late, kept := 0, 0
	var sum, sumOutage time.Duration
	for seed := range uint64(400) {
		took := takeover(seed, 0)
		if sum += took; took > life*3/2 {
			late++
		}
		if seed%4 == 0 {
			sumOutage += takeover(seed, life*3/5)
		}
		w := newWorld(seed)
		former := w.settle()
		w.out = w.now + life*3/2
		w.run(life*5/2, never)
		if w.holder() == former {
			kept++
		}
	}
	mean, meanOutage := float64(sum)/float64(400*life), float64(sumOutage)/float64(100*life)
	t.Logf("400 takeovers took %.2f lives in the mean, %d longer than 1.5; 100 with an outage took %.2f; after 400 "+
		"outages %d leases are with their holder", mean, late, meanOutage, kept)
	if late > 8 || kept < 392 || !(meanOutage < 1.6) {
		t.Error("too many, or too long")
	}
}
