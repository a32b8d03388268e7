package trainer

import (
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/window"
)

// TestEventTimeNote: a correction is reported while timestamps are ahead or behind, and no longer.
func TestEventTimeNote(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for _, c := range []struct {
		name   string
		stamps []time.Duration // of messages, from now
		want   string
	}{
		{"right", []time.Duration{0, time.Second}, ""},
		{"ahead", []time.Duration{0, time.Hour}, "messages from message 2 on have timestamps 1h0m0s ahead"},
		{"ahead, and right again", []time.Duration{0, time.Hour, time.Second}, ""},
		{"behind", []time.Duration{0, -time.Hour}, "messages from message 2 on have timestamps before 2026-01-01T00:00:00Z"},
	} {
		var s EventTime
		for i, stamp := range c.stamps {
			s.At(window.Position{Seq: uint64(i + 1)}, now+int64(stamp), now)
		}
		if got := s.Note("messages"); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
