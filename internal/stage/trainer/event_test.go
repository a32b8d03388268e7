package trainer

import (
	"math/rand/v2"
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
		{"a minute ahead", []time.Duration{0, time.Minute}, ""},
		{"more", []time.Duration{0, time.Minute + time.Second}, "messages from message 2 on have timestamps 1m1s ahead"},
		{"ahead of the newest", []time.Duration{0, 59 * time.Second, 110 * time.Second}, ""},
		{"a minute behind", []time.Duration{0, -time.Minute}, ""},
		{"more behind", []time.Duration{0, -time.Minute - 1}, "messages from message 2 on have timestamps before 2026-01-01"},
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

// TestEventTimeOfClocksSetBack: after the clocks of the server and this machine were set back, event time continues at
// their pace, and the timestamps of event times are known. After they were set right it does not pass them. The event
// time of another stream, which begins meanwhile, is the same.
func TestEventTimeOfClocksSetBack(t *testing.T) {
	const year = 8760 * time.Hour
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s EventTime
	want := now
	for i := range 20 {
		p := window.Position{Seq: uint64(i + 1)}
		var labels EventTime
		labels.StartAs(&s, p, now.UnixNano(), now.UnixNano())
		if at, _ := labels.At(p, now.UnixNano(), now.UnixNano()); i > 11 && !time.Unix(0, at).Equal(want) {
			t.Errorf("labels that begin with message %d have event time %v, want %v", i, time.Unix(0, at).UTC(), want)
		}
		at, _ := s.At(p, now.UnixNano(), now.UnixNano())
		if got := time.Unix(0, at); !got.Equal(want) {
			t.Errorf("message %d has event time %v, want %v", i, got.UTC(), want)
		} else if stamp := s.Timestamp(got); !stamp.Equal(now) {
			t.Errorf("the timestamp of message %d is %v, want %v", i, stamp.UTC(), now)
		}
		now, want = now.Add(5*time.Minute), want.Add(5*time.Minute)
		switch i {
		case 10:
			now, want = now.Add(-year), want.Add(-5*time.Minute) // how long ago the last message was is not known
		case 15:
			now = now.Add(year)
			want = now
		}
	}
	if note := s.Note("messages"); note != "" {
		t.Error(note)
	}
}

// TestEventTimeOfOldMessages: a message that is read again has the event time that it had, whatever came since.
func TestEventTimeOfOldMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	var s EventTime
	var stamps, times []int64
	for i := range 60 {
		now += int64(10 * time.Second)
		stamp := now
		if i > 5 {
			stamp += int64([]time.Duration{0, 0, time.Hour, -time.Hour, 2 * time.Hour}[r.IntN(5)])
		}
		at, _ := s.At(window.Position{Seq: uint64(i + 1)}, stamp, now)
		stamps, times = append(stamps, stamp), append(times, at)
	}
	if len(s.Corrections) < 10 || times[0] != stamps[0] {
		t.Fatalf("%d corrections", len(s.Corrections))
	}
	for i, want := range times {
		if at, changed := s.At(window.Position{Seq: uint64(i + 1)}, stamps[i], now+int64(time.Hour)); at != want || changed {
			t.Errorf("message %d has event time %d, and had %d; changed %v", i, at, want, changed)
		}
	}
	// The oldest corrections are dropped beyond 64.
	for i := range 200 {
		now += int64(10 * time.Second)
		s.At(window.Position{Seq: uint64(100 + i)}, now+int64(i%2)*int64(time.Hour), now)
	}
	if n := len(s.Corrections); n != 64 || s.Corrections[63].From.Seq != 299 {
		t.Errorf("%d corrections, the newest from message %d", n, s.Corrections[n-1].From.Seq)
	}
}

// TestEventTimeOfARestoredStream: the messages of an older stream, which was restored, are corrected as any, although
// those of the newer one have their event time.
func TestEventTimeOfARestoredStream(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	var s EventTime
	for seq := range uint64(5) {
		s.At(window.Position{Created: 2, Seq: 1 + seq}, now+int64(seq%2)*int64(time.Hour), now)
	}
	day := int64(24 * time.Hour)
	for i, c := range []struct{ stamp, want int64 }{{now - day, now - day}, {now + 365*day, now - day},
		{now - day + 1, now - day + 1}} {
		p := window.Position{Created: 1, Seq: uint64(1 + i)}
		for again := range 2 {
			if at, _ := s.At(p, c.stamp, now); at != c.want {
				t.Errorf("message %d, read %d times before, has event time %v, want %v", p.Seq, again, time.Unix(0, at),
					time.Unix(0, c.want))
			}
		}
	}
}
