package lease

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// club is a group in virtual time, on a server that answers at once or, during an outage, not at all. Announcements
// and confirmations of writes may be lost, reads may be answered by a former leader, processes stop, leave or are
// suspended, their requests hang, and their clocks run fast or slow.
type club struct {
	random  *rand.Rand
	now     time.Duration
	out     time.Duration // when the outage is over
	unsure  time.Duration // until then many writes are not confirmed
	outdate time.Duration // until then a former leader answers many reads, from what it had stored

	revision uint64
	stored
	former    stored
	processes []*process
	parts     []string
	wrong     string // the first fault
}

// stored are the keys of a bucket.
type stored struct {
	assignment entry // the coordinator's
	sessions   map[string]entry
}

// process is a process of the club.
type process struct {
	name        string
	rate        float64       // of its clock
	stops       time.Duration // killed then, or suspended until the next
	resumes     time.Duration
	hangs       time.Duration // until then no request of it is answered
	session     state
	terms       map[string]uint64 // of the session, of each part that runs
	term        uint64
	renews      time.Duration // its session
	coordinator state
	isStale     bool          // the coordinator's key was not as expected
	attempts    time.Duration // at it
	checks      time.Duration // of the sessions, as the coordinator
	roster      *roster
	current     Assignment // of the coordinator
	member      member
	claim       *Claim
	drained     map[string]time.Duration // when each part that it drains is drained
	handsUntil  time.Duration            // its session is released, and its parts are to be assigned until then
	hasLeft     bool
}

func newClub(seed uint64, n int) *club {
	c := &club{random: rand.New(rand.NewPCG(seed, 11)), stored: stored{sessions: map[string]entry{}}}
	for i := range 7 {
		c.parts = append(c.parts, fmt.Sprint("part", i))
	}
	for i := range n {
		c.join(fmt.Sprint("m", i))
	}
	return c
}

func (c *club) join(name string) *process {
	p := &process{name: name, rate: 0.97 + 0.06*c.random.Float64(), stops: 1000 * life, resumes: 1000 * life,
		session: state{ttl: life}, coordinator: state{ttl: life},
		drained: map[string]time.Duration{}, terms: map[string]uint64{},
		member: member{name: name, running: map[string]bool{}}, claim: &Claim{Holder: name}}
	p.renews = p.clock(c.now) + randomTime(c.random, life/4)
	p.attempts = p.renews
	c.processes = append(c.processes, p)
	return p
}

func (p *process) clock(now time.Duration) time.Duration { return time.Duration(float64(now) * p.rate) }

// runs reports whether the process is not stopped.
func (p *process) runs(now time.Duration) bool {
	return !p.hasLeft && (now < p.stops || now >= p.resumes)
}

// owns reports whether the process may work on a part, by its own clock.
func (p *process) owns(part string, now time.Duration) bool {
	return !p.hasLeft && p.member.running[part] && p.session.isHeld(p.clock(now)) && p.session.term == p.terms[part]
}

func (c *club) write(claim Claim) entry {
	c.revision++
	return entry{&claim, c.revision, claim.Assignment}
}

// run advances the time in steps until a condition holds, and returns how long that took.
func (c *club) run(limit time.Duration, isOver func() bool) time.Duration {
	for began := c.now; ; c.now += life / 200 {
		if isOver() || c.now-began >= limit {
			return c.now - began
		}
		for _, p := range c.processes {
			if p.runs(c.now) {
				c.act(p)
			}
		}
		c.check()
	}
}

// check notes a part that two processes own.
func (c *club) check() {
	for _, part := range c.parts {
		var owners []string
		for _, p := range c.processes {
			if p.owns(part, c.now) {
				owners = append(owners, p.name)
			}
		}
		if len(owners) > 1 && c.wrong == "" {
			c.wrong = fmt.Sprintf("at %v %v own %s", c.now, owners, part)
		}
	}
}

// isServed reports whether a process that runs owns each part, and is to keep it.
func (c *club) isServed() bool {
	for _, part := range c.parts {
		if !slices.ContainsFunc(c.processes, func(p *process) bool {
			return p.runs(c.now) && p.owns(part, c.now) && p.member.isAssigned(part)
		}) {
			return false
		}
	}
	return true
}

// isShared reports whether each process that runs owns its share as well.
func (c *club) isShared() bool {
	n, least, most := 0, len(c.parts), 0
	for _, p := range c.processes {
		if p.runs(c.now) {
			owned := len(p.member.running)
			n, least, most = n+1, min(least, owned), max(most, owned)
		}
	}
	return c.isServed() && most-least <= 1
}

// act is what Group.Run does.
func (c *club) act(p *process) {
	at := p.clock(c.now)
	answers := c.now >= c.out && c.now >= p.hangs
	c.work(p, at)
	if answers && at >= p.renews && p.handsUntil == 0 {
		c.renew(p, at)
	}
	if answers && at >= p.attempts && (!p.member.isLeaving || p.coordinator.isHeld(at)) {
		c.attempt(p, at)
	}
	if answers && p.coordinator.isHeld(at) && at >= p.checks {
		c.coordinate(p, at)
	}
}

// work is what session.run and session.step do.
func (c *club) work(p *process, at time.Duration) {
	m := &p.member
	isValid := p.session.isHeld(at) && p.session.term == p.term
	for _, part := range c.parts {
		if !m.running[part] || isValid && m.isAssigned(part) && p.drained[part] == 0 && p.terms[part] == p.term {
			continue
		}
		if p.drained[part] == 0 {
			p.drained[part] = at + randomTime(c.random, life/10) + 1
		}
		if at >= p.drained[part] {
			delete(m.running, part)
			delete(p.drained, part)
		}
	}
	if p.session.term != p.term && p.session.term != 0 {
		m.newest, m.stored, p.term = Assignment{}, nil, p.session.term
	}
	if isValid {
		for _, part := range m.partsToStart() {
			m.running[part], p.terms[part] = true, p.term
		}
	}
	holds := m.holds()
	if !slices.Equal(holds, p.claim.Holds) || p.claim.Seen != m.newest.Number || p.claim.IsLeaving != m.isLeaving {
		p.claim = &Claim{Holder: p.name, Holds: holds, Seen: m.newest.Number, IsLeaving: m.isLeaving}
		p.renews = at
	}
	if !m.isLeaving || len(m.running) > 0 {
		return
	}
	if p.handsUntil == 0 {
		c.sessions[p.name] = entry{}
		p.handsUntil = at + randomTime(c.random, life/5)
		c.announce(p.name)
	}
	if p.coordinator.isHeld(at) && slices.Contains(m.newest.owners(), p.name) && at < p.handsUntil {
		return
	}
	p.hasLeft = true
	if e := c.assignment; e.claim != nil && e.claim.Holder == p.name {
		c.revision++
		c.assignment = entry{nil, c.revision, e.assignment}
		c.announceAssignment(p)
	}
}

// announceAssignment has the other processes read the coordinator's key soon, in most cases.
func (c *club) announceAssignment(by *process) {
	for _, o := range c.processes {
		if o != by && c.random.IntN(5) > 0 {
			o.attempts = min(o.attempts, o.clock(c.now)+randomTime(c.random, life/25))
		}
	}
}

// answer is what a process reads.
func (c *club) answer() *stored {
	if c.now < c.outdate && c.random.IntN(2) == 0 {
		return &c.former
	}
	return &c.stored
}

// fate is what becomes of a write that expects the right revision.
func (c *club) fate() (isApplied, isConfirmed bool) {
	if c.now >= c.unsure {
		return true, true
	}
	n := c.random.IntN(3)
	return n < 2, n == 0
}

func (c *club) renew(p *process, at time.Duration) {
	key := p.name
	isNew := c.sessions[key].claim == nil
	if isNew {
		p.session.lose()
		p.member.stored = nil
	}
	isApplied, isConfirmed := c.fate()
	if isApplied {
		c.sessions[key] = c.write(*p.claim)
	}
	if p.renews = at + readInterval(life); !isConfirmed {
		return
	}
	p.session.confirm(c.revision, at, at, 0)
	if p.renews = at + renewalInterval(life); isNew || !slices.Equal(p.member.stored, p.claim.Holds) {
		p.member.stored = p.claim.Holds
		c.announce(key)
	}
}

// announce has the coordinator read a session soon, in most cases.
func (c *club) announce(key string) {
	for _, p := range c.processes {
		if p.roster != nil && c.random.IntN(5) > 0 {
			p.roster.announced(p.clock(c.now), key)
			p.checks = 0
		}
	}
}

// attempt is Lease.Acquire of the coordinator's key.
func (c *club) attempt(p *process, at time.Duration) {
	p.attempts = at + readInterval(life)
	for range 2 {
		e := entry{&Claim{Holder: p.name}, p.coordinator.revision, &p.current}
		if p.isStale || p.coordinator.revision == 0 {
			e = c.answer().assignment
			p.isStale = false
		}
		isOwn := e.claim != nil && e.claim.Holder == p.name
		if !isOwn && e.assignment != nil {
			p.member.read(*e.assignment)
		}
		if p.coordinator.step(reading{entry: e, at: at, isOwn: isOwn}) != take {
			p.attempts = p.coordinator.next(at)
			return
		}
		if p.coordinator.revision == 0 {
			p.roster, p.current = newRoster(life, ""), Assignment{}
			if e.claim != nil && !isOwn {
				p.roster.suspect = e.claim.Holder
			}
			if e.assignment != nil {
				p.current = *e.assignment
			}
		}
		if c.lead(p, at, e.revision); !p.isStale {
			return
		}
	}
}

// lead stores the claim of the coordinator if its key is at a revision.
func (c *club) lead(p *process, at time.Duration, revision uint64) {
	if p.isStale = c.assignment.revision != revision; p.isStale {
		p.attempts = at
		return
	}
	isApplied, isConfirmed := c.fate()
	if isApplied {
		current := p.current
		c.assignment = c.write(Claim{Holder: p.name, Assignment: &current})
	}
	if p.attempts = at + readInterval(life); isConfirmed {
		p.coordinator.confirm(c.revision, at, at, 0)
		p.member.read(p.current)
		p.attempts = p.coordinator.next(at)
	}
}

func (c *club) coordinate(p *process, at time.Duration) {
	answer := c.answer()
	p.roster.list(at, slices.Collect(maps.Keys(answer.sessions)))
	p.checks = at + readInterval(life)
	for _, name := range p.roster.due(at) {
		e := answer.sessions[name]
		if !p.roster.read(name, e, at, false) {
			continue
		}
		if e.revision != c.sessions[name].revision {
			p.roster.announced(at, name)
			continue
		}
		isApplied, isConfirmed := c.fate()
		if isApplied {
			c.sessions[name] = entry{}
		}
		if !isConfirmed {
			return
		}
		p.roster.remove(name, at)
	}
	p.checks = min(p.roster.next(at), at+life/20)
	members, isKnown := p.roster.members()
	if !isKnown {
		return
	}
	next := p.current.next([][]string{c.parts}, nil, members)
	if next.Number == p.current.Number {
		return
	}
	p.current = next
	c.lead(p, at, p.coordinator.revision)
	c.announceAssignment(p)
}

// running are the processes that run, the coordinator first or last.
func (c *club) running() (coordinator *process, others []*process) {
	for _, p := range c.processes {
		switch {
		case !p.runs(c.now) || p.member.isLeaving:
		case c.assignment.claim != nil && c.assignment.claim.Holder == p.name:
			coordinator = p
		default:
			others = append(others, p)
		}
	}
	return coordinator, others
}

// TestAssignment: whatever is killed, suspended, hangs, leaves, is not confirmed or is read at a former leader, each
// part has an owner again within two lives, or three if the coordinator stops together with another member or with the
// loss of the newest keys, and never two, by their own clocks.
func TestAssignment(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testsize.Of(50, 400)) {
		attack(t, seed)
	}
}

// attack runs a club through four faults.
func attack(t *testing.T, seed uint64) {
	t.Helper()
	c := newClub(seed, 2+int(seed%5))
	never := func() bool { return false }
	if took := c.run(4*life, c.isShared); took >= 2*life {
		t.Fatalf("seed %d: the parts are not shared after %v", seed, took)
	}
	for range 4 {
		revision, before := c.revision, stored{c.assignment, maps.Clone(c.sessions)}
		c.run(randomTime(c.random, 2*life), never)
		coordinator, others := c.running()
		if coordinator == nil || len(others) == 0 {
			c.join(fmt.Sprint("n", c.now))
			c.run(5*life, c.isShared)
			continue
		}
		one, limit, what := others[c.random.IntN(len(others))], 2*life, ""
		switch c.random.IntN(13) {
		case 0:
			what, one.stops = "a kill", c.now
		case 1:
			what, coordinator.stops = "a kill of the coordinator", c.now
		case 2:
			limit = 3 * life
			what, one.stops, coordinator.stops = "two kills", c.now, c.now
		case 3:
			what, one.stops, one.resumes = "a suspension", c.now, c.now+randomTime(c.random, 3*life)
		case 4:
			what, coordinator.stops, coordinator.resumes = "a suspension of the coordinator", c.now,
				c.now+randomTime(c.random, 3*life)
		case 5:
			what, one.hangs = "requests that hang", c.now+randomTime(c.random, 3*life)
		case 6:
			what = "a clean stop"
			[]*process{one, coordinator}[c.random.IntN(2)].member.isLeaving = true
		case 7:
			what = "a member that joins"
			c.join(fmt.Sprint("j", c.now))
		case 8:
			what, c.out = "an outage", c.now+randomTime(c.random, 3*life)
			c.run(c.out-c.now, never)
		case 9:
			limit, what = 3*life, "a kill of the coordinator and the return of an earlier state of the bucket"
			coordinator.stops = c.now
			c.revision, c.stored = revision, before
		case 10:
			what, c.unsure = "writes that are not confirmed", c.now+randomTime(c.random, 3*life)
			c.run(c.unsure-c.now, never)
		case 11:
			what, c.outdate, c.former = "a former leader that answers", c.now+randomTime(c.random, life), before
			c.run(c.outdate-c.now, never)
		case 12:
			what, c.unsure = "a kill while writes are not confirmed", c.now+randomTime(c.random, 3*life)
			one.stops = c.now + randomTime(c.random, life)
			c.run(c.unsure-c.now, never)
		}
		c.run(life/20, never)
		if what == "two kills" && len(others) == 1 {
			continue // no process is left
		}
		if took := c.run(6*life, c.isServed); took >= limit {
			t.Errorf("seed %d: %v after %s not all parts are served", seed, took, what)
		}
		c.run(4*life, never)
		if took := c.run(life, c.isShared); took >= life {
			t.Errorf("seed %d: long after %s the parts are not shared equally", seed, what)
		}
	}
	if c.wrong != "" {
		t.Errorf("seed %d: %s", seed, c.wrong)
	}
}

// TestBalance: each group is shared equally, parts stay where they are as far as that allows, and a part that was
// revoked gets another owner when it is drained or its owner is gone, not before. A member that leaves need not read
// that its parts are revoked. Of members with other settings none
// owns a part.
func TestBalance(t *testing.T) {
	t.Parallel()
	groups := [][]string{{"rest"}, {"0of4", "1of4", "2of4", "3of4"}}
	claims := func(names ...string) (all []*Claim) {
		for _, name := range names {
			all = append(all, &Claim{Holder: name, Settings: map[string]string{"n": "4"}})
		}
		return all
	}
	settings := map[string]string{"n": "4"}
	owners := func(a Assignment) map[string]string {
		out := map[string]string{}
		for part, p := range a.Parts {
			out[part] = p.Owner
			if p.Revoked > 0 {
				out[part] += "-"
			}
		}
		return out
	}
	var a Assignment
	step := func(members []*Claim, want map[string]string) {
		t.Helper()
		if a = a.next(groups, settings, members); !maps.Equal(owners(a), want) {
			t.Errorf("assignment %d is %v, want %v", a.Number, owners(a), want)
		}
	}
	one := claims("a")
	one[0].Seen = 7 // of an assignment that was lost
	all := map[string]string{"rest": "a", "0of4": "a", "1of4": "a", "2of4": "a", "3of4": "a"}
	step(one, all)
	if a.Number != 8 {
		t.Errorf("the number is %d, want more than any that was seen", a.Number)
	}
	two := claims("a", "b")
	two[0].Holds = []string{"0of4", "1of4", "2of4", "3of4", "rest"}
	revoked := map[string]string{"rest": "a", "0of4": "a-", "1of4": "a-", "2of4": "a", "3of4": "a"}
	step(two, revoked)
	two[0].Seen, two[0].Holds = 8, []string{"1of4", "2of4", "3of4", "rest"} // not the newest, and it may begin 0of4 again
	step(two, revoked)
	two[0].Seen = 9
	step(two, map[string]string{"rest": "a", "0of4": "b", "1of4": "a-", "2of4": "a", "3of4": "a"})
	other := append(claims("b", "c"), &Claim{Holder: "d", Settings: map[string]string{"n": "8"}})
	step(other, map[string]string{"rest": "b", "0of4": "b", "1of4": "c", "2of4": "c", "3of4": "b"})
	leaver := append(claims("b", "c"), &Claim{Holder: "e", Settings: settings})
	leaver[0].IsLeaving, leaver[0].Holds = true, []string{"0of4", "rest"} // it has drained 3of4, and has not read anything
	step(leaver, map[string]string{"rest": "b", "0of4": "b", "1of4": "c", "2of4": "c", "3of4": "e"})
	leaver[0].Holds = nil
	step(leaver, map[string]string{"rest": "c", "0of4": "e", "1of4": "c", "2of4": "c", "3of4": "e"})
	step(nil, map[string]string{})
	held := claims("e", "f")
	held[1].Holds = []string{"0of4", "2of4"}
	shared := map[string]string{"rest": "e", "0of4": "f", "1of4": "e", "2of4": "f", "3of4": "e"}
	step(held, shared)
	held[0].Seen = a.Number + 5 // of an assignment that was lost: it ignores those before
	step(held, shared)
	if a.Number != held[0].Seen+1 {
		t.Errorf("the number is %d where a member has seen %d, want one more", a.Number, held[0].Seen)
	}
	step(held, shared)
	if a.Number != held[0].Seen+1 {
		t.Errorf("the number of an assignment that did not change is %d, want %d", a.Number, held[0].Seen+1)
	}
}

// TestForgedClaims: whatever number and parts a client writes into a claim or an assignment, members follow the next
// assignments, parts move, and the assignment has no parts that the group has not.
func TestForgedClaims(t *testing.T) {
	t.Parallel()
	groups := [][]string{{"x", "y"}}
	for _, number := range []uint64{0, 1, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1} {
		for _, a := range []Assignment{{}, {Number: 7}, {Number: number}} {
			forged := &Claim{Holder: "f", Settings: map[string]string{"n": "1"}, Seen: number, Holds: []string{"z", "0of9"}}
			one, two := &member{name: "a", newest: a}, &member{name: "b"}
			step := func(all ...*member) {
				for range 3 {
					claims := []*Claim{forged}
					for _, m := range all {
						claims = append(claims, &Claim{Holder: m.name, Holds: m.holds(), Seen: m.newest.Number})
						m.running = map[string]bool{}
						for _, part := range m.holds() {
							m.running[part] = m.isAssigned(part)
						}
						maps.DeleteFunc(m.running, func(_ string, isAssigned bool) bool { return !isAssigned })
					}
					a = a.next(groups, nil, claims)
					for _, m := range all {
						m.read(a)
					}
				}
			}
			step(one)
			step(one, two)
			if len(one.running) != 1 || len(two.holds()) != 1 || len(a.Parts) != 2 {
				t.Errorf("forged %d: a works on %v, b is to own %v, assignment %v", number, one.running, two.holds(), a)
			}
		}
	}
}

// TestUnlistedSessions: before the keys were listed, a coordinator does not take a group for empty.
func TestUnlistedSessions(t *testing.T) {
	t.Parallel()
	r := newRoster(life, "")
	if _, isKnown := r.members(); isKnown {
		t.Error("the members are known before the keys were listed")
	}
	r.list(0, nil)
	if _, isKnown := r.members(); !isKnown {
		t.Error("the members are not known after the keys were listed")
	}
}

// TestSuspect: the session of a former coordinator expires after half a life without a renewal, but not because of an
// outage, in which it cannot be renewed: then it is valid for a life after it was read first.
func TestSuspect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		readings []float64 // in lives; the session is unchanged
		expires  bool      // at the last one
	}{
		"not renewed":                  {[]float64{0, 0.33, 0.46}, true},
		"renewal is due":               {[]float64{0, 0.33, 0.45}, false},
		"an outage":                    {[]float64{0, 0.6}, false},
		"a life after the first":       {[]float64{0, 0.6, 0.9, 1}, false},
		"1.1 lives after the first":    {[]float64{0, 0.6, 0.9, 1.21}, true},
		"an outage after two readings": {[]float64{0, 0.33, 0.9}, false},
	} {
		r := newRoster(life, "a")
		r.list(0, []string{"0"})
		isExpired := false
		for _, at := range c.readings {
			at := time.Duration(at * float64(life))
			isExpired = r.read("0", entry{claim: &Claim{Holder: "a"}, revision: 1}, at, false)
		}
		if isExpired != c.expires {
			t.Errorf("%s: expired %t", name, isExpired)
		}
	}
}

// TestLeftAndJoinedAgain: a member that has joined again keeps its parts while the session that it could not release is
// still there, in whichever order the two are read.
func TestLeftAndJoinedAgain(t *testing.T) {
	t.Parallel()
	a := Assignment{Number: 5, Parts: map[string]Part{"p": {Owner: "b"}}}
	joined, left, other := &Claim{Holder: "b", Seen: 5}, &Claim{Holder: "b", Seen: 4, IsLeaving: true}, &Claim{Holder: "a"}
	for _, members := range [][]*Claim{{joined, left, other}, {left, joined, other}} {
		if next := a.next([][]string{{"p"}}, nil, members); next.Parts["p"] != a.Parts["p"] {
			t.Errorf("a part that its owner may have begun is owned by %v", next.Parts["p"])
		}
	}
}
