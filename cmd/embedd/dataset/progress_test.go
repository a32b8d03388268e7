package dataset

import (
	"testing"
	"time"
)

// TestProgressOf: the progress has the rate after a second, and the time left if the file says how many rows it has.
func TestProgressOf(t *testing.T) {
	for _, c := range []struct {
		read, total int64
		took        time.Duration
		text        string
		done        float64
	}{
		{0, 1000, time.Minute, "reading f: 0 rows", -1},
		{500, 1000, time.Second / 2, "reading f: 500 rows", -1},
		{500, 2000, 2 * time.Second, "reading f: 500 rows, 250 rows/s, 6s left", 0.25},
		{2000, 2000, 4 * time.Second, "reading f: 2000 rows, 500 rows/s, 0s left", 1},
		{3000, 0, 2 * time.Second, "reading f: 3000 rows, 1500 rows/s", -1},
		{3000, 2000, 2 * time.Second, "reading f: 3000 rows, 1500 rows/s", -1},
	} {
		if text, done := progressOf("f", c.read, c.total, c.took); text != c.text || done != c.done {
			t.Errorf("%+v: %q, %g", c, text, done)
		}
	}
}
