package registry

import (
	"cmp"
	"slices"
	"time"
)

// Turn is a change of the live version, or of its pin, or what an operator requested otherwise.
type Turn struct {
	Time time.Time `json:"time"`
	// What is promote, pin, unpin, rollback, reset, retire, or repair: a stored pointer or model was damaged. Of requests
	// that do not change the live version it is retrain, resume or replay.
	What string `json:"what"`
	Live string `json:"live,omitempty"` // afterwards
	Was  string `json:"was,omitempty"`  // before; "" if the live version did not change
	By   string `json:"by,omitempty"`   // who requested it, and from where; "" for the trainer and for a reset
}

// maxTurns is how many turns a pointer keeps: at least half as many of the trainer and as many of requests, so that
// neither hides the other.
const maxTurns = 50

// DroppedTurns are the turns that a pointer does not keep any more.
type DroppedTurns struct {
	Until time.Time      `json:"until"` // of the newest of them
	Count map[string]int `json:"count"` // by What
}

// turn records a change that was made to the pointer.
func (p *Pointer) turn(at time.Time, what, was, by string) {
	if was == p.Live {
		was = ""
	}
	p.Turns = append(p.Turns, Turn{at.UTC(), what, p.Live, was, truncate(by)})
	if len(p.Turns) <= maxTurns {
		return
	}
	requests := 0
	for _, t := range p.Turns {
		if t.By != "" {
			requests++
		}
	}
	i := slices.IndexFunc(p.Turns, func(t Turn) bool { return (t.By != "") == (requests > maxTurns/2) })
	p.Dropped = cmp.Or(p.Dropped, &DroppedTurns{})
	if p.Dropped.Count == nil { // as any client may have stored it
		p.Dropped.Count = map[string]int{}
	}
	if at := p.Turns[i].Time; at.After(p.Dropped.Until) {
		p.Dropped.Until = at
	}
	p.Dropped.Count[p.Turns[i].What]++
	p.Turns = slices.Delete(p.Turns, i, i+1)
}
