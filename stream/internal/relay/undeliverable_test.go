package relay

import (
	"errors"
	"testing"
	"time"
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
