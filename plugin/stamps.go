package plugin

import (
	"fmt"
	"slices"
	"time"

	"github.com/embedd/embedd/plugin/window"
)

// stamps turns the server's times of messages into the time that learning counts by. A server stamps a message when it
// stores it, so no publisher can; but the clock of a server jumps, a mirror keeps the stamps of its origin, and a stream
// that was put back keeps its own. One stamp a year ahead would empty a window by age and end fits by time. So time goes
// ahead of the newest message as far as the receiving clock allows, and never back: where stamps are further ahead it
// goes on from where it stood, as they do; where they are behind it stands until they have caught up.
//
// What a message was taken for is kept with the checkpoint, so that it counts as the same after a restart.
type stamps struct {
	Turns  []turn          `json:"turns,omitempty"` // oldest first, at most maxTurns
	Until  window.Position `json:"until"`           // all messages up to here were taken
	Newest int64           `json:"newest"`          // the time that was reached
	ahead  bool            // the newest message is stamped ahead of the clock
}

// turn says how the stamps of messages are read, from one on.
type turn struct {
	From  window.Position `json:"from"`
	Ahead int64           `json:"ahead,omitempty"` // so much is taken off
	Stand int64           `json:"stand,omitempty"` // or this is the time, whatever they say
}

const (
	// clocksApart is how far the clocks of a server and of this machine may differ.
	clocksApart = time.Minute
	// maxTurns bounds what is kept of them.
	maxTurns = 64
)

func (s *stamps) last() turn {
	if n := len(s.Turns); n > 0 {
		return s.Turns[n-1]
	}
	return turn{}
}

func (t turn) read(stamp int64) int64 {
	if t.Stand != 0 {
		return t.Stand
	}
	return stamp - t.Ahead
}

// at is the time of a message, taken at a time of the receiving clock. It tells whether stamps are read another way from
// this one on.
func (s *stamps) at(p window.Position, stamp, now int64) (at int64, turned bool) {
	if p.Compare(s.Until) <= 0 {
		i, _ := slices.BinarySearchFunc(s.Turns, p, func(t turn, p window.Position) int {
			if t.From.Compare(p) <= 0 {
				return -1
			}
			return 1
		})
		if i == 0 {
			return stamp, false
		}
		return s.Turns[i-1].read(stamp), false
	}
	s.Until = p
	if s.Newest == 0 {
		s.Newest = min(stamp, now)
	}
	low, high := s.Newest-int64(clocksApart), max(s.Newest, now)+int64(clocksApart)
	t := s.last()
	at = t.read(stamp) // which takes the shorter step, where both readings are possible
	s.ahead = stamp > now+int64(clocksApart)
	switch {
	case t.Ahead != 0 && low <= at && at <= high:
	case low <= stamp && stamp <= high:
		t = turn{}
		at = stamp
	case stamp < low:
		t = turn{Stand: s.Newest}
		at = s.Newest
	default:
		t = turn{Ahead: stamp - s.Newest}
		at = s.Newest
	}
	if before := s.last(); t.Ahead != before.Ahead || (t.Stand != 0) != (before.Stand != 0) {
		t.From, turned = p, true
		if len(s.Turns) == maxTurns {
			s.Turns = slices.Delete(s.Turns, 0, 1)
		}
		s.Turns = append(s.Turns, t)
	}
	s.Newest = max(s.Newest, at)
	return at, turned
}

// copy is what a checkpoint keeps.
func (s *stamps) copy() stamps { return stamps{slices.Clone(s.Turns), s.Until, s.Newest, s.ahead} }

// note says how the stamps of messages are read now, "" where as they are.
func (s *stamps) note(what string) string {
	switch t := s.last(); {
	case t.Ahead > 0 && s.ahead:
		return fmt.Sprintf("%s from message %d on are stamped %v ahead of this machine's clock; learning goes on from the time before: set the clock of the server right, or of this machine",
			what, t.From.Seq, time.Duration(t.Ahead).Round(time.Second))
	case t.Stand != 0:
		return fmt.Sprintf("%s from message %d on are stamped before %s, the time of an earlier one; time stands still for learning until they have caught up: set the clock of the server right",
			what, t.From.Seq, time.Unix(0, t.Stand).UTC().Format(time.RFC3339))
	}
	return ""
}
