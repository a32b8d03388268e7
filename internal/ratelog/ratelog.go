// Package ratelog limits the rate of a repeated log message.
package ratelog

import (
	"log/slog"
	"sync"
	"time"
)

// Limiter logs the first occurrence of a message, then at most one a minute with the number of those suppressed. The
// zero value is ready to use.
type Limiter struct {
	mu         sync.Mutex
	last       time.Time
	suppressed int
}

// Warn logs the message, or counts it as suppressed.
func (l *Limiter) Warn(log *slog.Logger, message string, attrs ...any) {
	l.mu.Lock()
	if time.Since(l.last) < time.Minute {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	suppressed := l.suppressed
	l.suppressed, l.last = 0, time.Now()
	l.mu.Unlock()
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	log.Warn(message, attrs...)
}

// Flush logs a message with the number of those suppressed since the last one that was logged, if there are any.
func (l *Limiter) Flush(log *slog.Logger, message string, attrs ...any) {
	l.mu.Lock()
	suppressed := l.suppressed
	l.suppressed = 0
	l.mu.Unlock()
	if suppressed > 0 {
		log.Warn(message, append(attrs, "suppressed", suppressed)...)
	}
}
