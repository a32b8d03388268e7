package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/embedd/embedd/stream/internal/scope"
)

// TestSplitOfPostponed: a postponed answer keeps its split if a part of it is stored or may be. Otherwise it is split
// for the limit of then.
func TestSplitOfPostponed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first part
		want  int64
	}{
		"refused":       {part{err: errors.New("over the limit")}, 0},
		"stored":        {part{isStored: true}, 100},
		"may be stored": {part{isDoubtful: true}, 100},
		"not confirmed": {part{attempt: 1}, 100},
	} {
		u, in := &undeliverable{}, &input{}
		u.add(&answer{in: in, maxBody: 100, parts: []*part{&c.first, {id: "second"}}}, errRefused, time.Now())
		if got := u.maxBody(in); got != c.want {
			t.Errorf("%s: the split is for %d bytes, want %d", name, got, c.want)
		}
	}
}

// TestPostponedBeforeARestore: after an older copy of the stream was restored, the stored parts of a postponed input
// are not those of another input with its sequence number.
func TestPostponedBeforeARestore(t *testing.T) {
	t.Parallel()
	u, now := &undeliverable{}, time.Now()
	stored := &part{id: "first", isStored: true}
	u.add(&answer{in: &input{Message: scope.Message{Time: now}}, parts: []*part{stored}}, errRefused, now)
	for _, c := range []struct {
		at   time.Time
		want bool
	}{{now, true}, {now.Add(time.Hour), false}} {
		o := &part{id: "first"}
		isPostponed, _ := u.restore(&answer{in: &input{Message: scope.Message{Time: c.at}}, parts: []*part{o}})
		if isPostponed != c.want || o.isStored != c.want {
			t.Errorf("an input of %v: it is postponed, %t, and its part is stored, %t", c.at, isPostponed, o.isStored)
		}
	}
}
