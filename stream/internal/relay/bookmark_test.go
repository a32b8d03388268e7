package relay

import (
	"testing"
	"time"
)

// TestNewestAnswered: the bookmark of an owner that ended cleanly has the newest input that may be answered. It is not
// used if it is old or in the future: the server may have lost a later bookmark, and repeated outputs are recognised
// within the duplicate window only.
func TestNewestAnswered(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for what, c := range map[string]struct {
		bookmark
		want uint64
	}{
		"ended":               {bookmark{Ended: now.Add(-time.Second), Newest: 7}, 7},
		"a clock behind":      {bookmark{Ended: now.Add(time.Second), Newest: 7}, 7},
		"old":                 {bookmark{Ended: now.Add(-maxHandOver - 1), Newest: 7}, 0},
		"the future":          {bookmark{Ended: now.Add(maxHandOver + 1), Newest: 7}, 0},
		"crashed":             {bookmark{Ended: now, Newest: 7, Holder: "a"}, 0},
		"of an older version": {bookmark{UpTo: 7, Floor: 7}, 0},
	} {
		if got := c.newestAnswered(now, time.Hour); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	short := bookmark{Ended: now.Add(-time.Second), Newest: 7}
	if got := short.newestAnswered(now, time.Second); got != 0 {
		t.Errorf("a duplicate window of a second: %d, want 0", got)
	}
}
