package deliveries

import (
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/stream/spec"
)

// world is a consumer and its replicas.
type world struct {
	delivered uint64
	created   time.Time
	leader    string
	replicas  map[string]*spec.Deliveries
}

func newWorld(names ...string) *world {
	w := &world{leader: "s", replicas: map[string]*spec.Deliveries{}}
	for _, name := range names {
		w.replicas[name] = &spec.Deliveries{Server: "s"}
	}
	return w
}

// sample returns what is seen now.
func (w *world) sample() *sample {
	s := &sample{replicas: map[string]*spec.Deliveries{}, delivered: w.delivered, created: w.created, leader: w.leader}
	for name, r := range w.replicas {
		now := *r
		s.replicas[name] = &now
	}
	return s
}

// deliver delivers messages to each replica, in a pull that ends.
func (w *world) deliver(n uint64) {
	for _, r := range w.replicas {
		w.delivered += n
		r.Received, r.Pulls = r.Received+n, r.Pulls+1
		if n > 0 {
			r.Newest = w.delivered
		}
	}
}

// TestStolenDeliveriesAreCounted: what reaches no replica is counted, once it cannot be on its way to one any more.
func TestStolenDeliveriesAreCounted(t *testing.T) {
	w := newWorld("a", "b")
	var j judge
	var stolen uint64
	for range 24 {
		w.deliver(100)
		w.delivered += 50 // to the thief
		if n, known := j.next(w.sample(), false); known {
			stolen = n
		}
	}
	// Those of the last sample are behind the newest that replica a has, and what b has of it hides some of those before.
	if stolen != 22*50-50-100 {
		t.Errorf("%d deliveries are stolen, want 950", stolen)
	}
	for range 4 { // nothing arrives any more
		w.deliver(0)
		if n, known := j.next(w.sample(), false); known {
			stolen = n
		}
	}
	if stolen != 22*50 { // those since the second sample
		t.Errorf("%d deliveries are stolen, want 1100", stolen)
	}
}

// TestFewOfManyAreStolen: a few stolen deliveries of a busy consumer are known at the next sample.
func TestFewOfManyAreStolen(t *testing.T) {
	w := newWorld("a")
	var j judge
	for range 2 {
		w.deliver(100_000)
		j.next(w.sample(), false)
	}
	w.delivered += 3
	w.deliver(100_000)
	if n, known := j.next(w.sample(), false); !known || n != 3 {
		t.Errorf("%d deliveries are stolen, want 3", n)
	}
}

// TestNothingIsStolen: no event of a sound pipeline looks as if deliveries were stolen.
func TestNothingIsStolen(t *testing.T) {
	for name, happen := range map[string]func(w *world, tick int) (isDisturbed bool){
		"nothing":    func(*world, int) bool { return false },
		"redelivery": func(w *world, _ int) bool { w.deliver(1); return false },
		"a slow link": func(w *world, tick int) bool { // what is delivered in one sample is received in a later one
			a := w.replicas["a"]
			switch tick % 5 {
			case 0:
				w.delivered += 1000
				a.Pulling = true
			case 4:
				a.Received, a.Pulls, a.Pulling, a.Newest = a.Received+1000, a.Pulls+1, false, w.delivered
			}
			return false
		},
		"a slow link to one of two": func(w *world, tick int) bool { // its newest message is of an earlier consumer
			a, b := w.replicas["a"], w.replicas["b"]
			if b.Newest = 1 << 20; tick >= 8 {
				w.delivered += 700
				b.Pulling = true
			}
			w.delivered += 100
			a.Received, a.Pulls, a.Newest = a.Received+100, a.Pulls+1, w.delivered
			return false
		},
		"a replica dies with messages": func(w *world, tick int) bool {
			if tick == 8 {
				delete(w.replicas, "b")
				w.delivered += 700
			}
			return false
		},
		"what it requested is delivered afterwards": func(w *world, tick int) bool {
			if tick == 8 {
				delete(w.replicas, "b")
			}
			if tick == 9 {
				w.delivered += 700
			}
			return false
		},
		"a replica starts and dies between two samples": func(w *world, tick int) bool {
			if tick%5 == 0 {
				w.delivered += 700
				return true // it announced itself
			}
			return false
		},
		"a replica restarts under the same load": func(w *world, tick int) bool {
			if tick%5 == 0 {
				w.delivered += 700
				w.replicas["c"+string(rune('a'+tick))] = &spec.Deliveries{Server: "s"}
				delete(w.replicas, "c"+string(rune('a'+tick-5)))
			}
			return false
		},
		"a connection breaks": func(w *world, tick int) bool {
			if tick%5 == 0 {
				w.delivered += 700
				w.replicas["a"].Interruptions++
			}
			return false
		},
		"the consumer is recreated": func(w *world, tick int) bool {
			if tick%5 == 0 {
				w.created = w.created.Add(time.Second)
				w.delivered = 700
			}
			return false
		},
		"another server leads the consumer": func(w *world, tick int) bool {
			w.delivered += 10
			w.leader = "other"
			return false
		},
		"a replica of an older version": func(w *world, tick int) bool {
			w.delivered += 10
			w.replicas["a"] = nil
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld("a", "b")
			var j judge
			for tick := range 20 {
				isDisturbed := happen(w, tick)
				if w.replicas["a"] != nil && !strings.HasPrefix(name, "a slow link") {
					w.deliver(100)
				}
				s := &sample{}
				if w.replicas["a"] == nil {
					s = &sample{replicas: map[string]*spec.Deliveries{"a": nil}, delivered: w.delivered, leader: w.leader}
				} else {
					s = w.sample()
				}
				if n, known := j.next(s, isDisturbed); known && n > 0 {
					t.Fatalf("sample %d: %d deliveries are stolen", tick, n)
				}
			}
		})
	}
}
