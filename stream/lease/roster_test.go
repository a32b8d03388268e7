package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// club is a group in virtual time: the lease of its coordinator, those of its members and the published list, on a
// server that answers at once or, during an outage, not at all.
type club struct {
	random *rand.Rand
	now    time.Duration
	out    time.Duration // when the outage is over

	revision    uint64
	coordinator entry
	members     map[string]entry
	list        []string
	processes   []*process
	wrong       string // a member that was removed while it had renewed its lease in time
}

// process is a process of the club. It stops at a time, and does something next at another.
type process struct {
	name        string
	stops       time.Duration
	renews      time.Duration // its lease as a member
	renewed     time.Duration
	attempts    time.Duration // at the lease of the coordinator
	checks      time.Duration // the members, as the coordinator
	state       state
	roster      *roster
	formerOwner string
}

func (c *club) write(name string) entry {
	c.revision++
	return entry{&Claim{Holder: name}, c.revision}
}

func newClub(seed uint64, n int) *club {
	c := &club{random: rand.New(rand.NewPCG(seed, 11)), members: map[string]entry{}}
	for i := range n {
		p := &process{name: fmt.Sprint("m", i), stops: 1000 * life, state: state{ttl: life}}
		p.renews, p.attempts = randomTime(c.random, life), randomTime(c.random, life)
		c.processes = append(c.processes, p)
	}
	return c
}

// run advances the time in steps until a condition holds, and returns how long that took.
func (c *club) run(limit time.Duration, isOver func() bool) time.Duration {
	for began := c.now; ; c.now += life / 200 {
		if isOver() || c.now-began >= limit {
			return c.now - began
		}
		for _, p := range c.processes {
			if c.now < p.stops && c.now >= c.out {
				c.act(p)
			}
		}
	}
}

// act is what Group.Run does.
func (c *club) act(p *process) {
	if c.now >= p.renews {
		c.members[p.name], p.renewed, p.renews = c.write(p.name), c.now, c.now+renewalInterval(life)
	}
	if c.now >= p.attempts {
		e := c.coordinator
		isOwn := e.claim != nil && e.claim.Holder == p.name
		if p.state.step(reading{entry: e, at: c.now, isOwn: isOwn}) == take {
			if p.state.term == 0 && !isOwn {
				p.formerOwner, p.roster = "", nil
				if e.claim != nil {
					p.formerOwner = e.claim.Holder
				}
			}
			c.coordinator = c.write(p.name)
			p.state.confirm(c.revision, c.now, c.now)
		}
		p.attempts = p.state.next(c.now)
	}
	if !p.state.isHeld(c.now) || c.now < p.checks {
		return
	}
	if p.roster == nil {
		p.roster = newRoster(life, p.formerOwner)
	}
	for name := range c.members {
		p.roster.add(c.now, name)
	}
	for _, name := range p.roster.due(c.now) {
		if !p.roster.read(name, c.members[name], c.now, false) {
			continue
		}
		for _, o := range c.processes {
			if o.name == name && c.now-o.renewed < life {
				c.wrong = fmt.Sprintf("at %v %s removed %s", c.now, p.name, name)
			}
		}
		c.members[name] = entry{}
		p.roster.remove(name)
	}
	if now := p.roster.members(); now != nil && c.coordinator.claim.Holder == p.name {
		c.list = now
	}
	p.checks = min(p.roster.next(c.now), c.now+life/20)
}

// TestRoster: the list has all members soon. After any member has stopped, the coordinator too, it is not listed any
// more within two lives, and within three if both stop together. None is removed that renews its lease, also after
// outages.
func TestRoster(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		c := newClub(seed, 2+int(seed%5))
		alive := func() (names []string) {
			for _, p := range c.processes {
				if c.now < p.stops {
					names = append(names, p.name)
				}
			}
			return names
		}
		isRight := func() bool { return slices.Equal(c.list, alive()) }
		if took := c.run(4*life, isRight); took >= 2*life {
			t.Fatalf("seed %d: the list is %v after %v", seed, c.list, took)
		}
		c.run(randomTime(c.random, 2*life), func() bool { return false })
		if seed%3 == 0 { // an outage, after which each renews its lease again
			c.out = c.now + randomTime(c.random, 2*life)
			c.run(4*life, func() bool { return false })
		}
		stop := func(isCoordinator bool) {
			for _, p := range c.processes {
				if (c.coordinator.claim.Holder == p.name) == isCoordinator && c.now < p.stops {
					p.stops = c.now
					return
				}
			}
		}
		limit := 2 * life
		switch seed % 4 {
		case 0, 1:
			stop(seed%4 == 0)
		default:
			if len(c.processes) > 2 {
				limit = 3 * life
				stop(false)
			}
			stop(true)
		}
		if took := c.run(5*life, isRight); took >= limit {
			t.Errorf("seed %d: after %v the list is %v, want %v", seed, took, c.list, alive())
		}
		if c.wrong != "" {
			t.Errorf("seed %d: %s", seed, c.wrong)
		}
	}
}
