package stream

import (
	"log/slog"
	"sync"
	"time"
)

// sparing keeps what happens again and again from filling the log: it lets the first through, then one a minute.
type sparing struct {
	mu   sync.Mutex
	last time.Time
	left int
}

// warn logs this one, or leaves it out and counts it.
func (s *sparing) warn(log *slog.Logger, what string, attrs ...any) {
	s.mu.Lock()
	if time.Since(s.last) < time.Minute {
		s.left++
		s.mu.Unlock()
		return
	}
	left := s.left
	s.left, s.last = 0, time.Now()
	s.mu.Unlock()
	if left > 0 {
		attrs = append(attrs, "left out since the last", left)
	}
	log.Warn(what, attrs...)
}
