package health

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
)

// LetterLog counts dead letters and logs them: the first of each code with its sentence, then counts once a minute. A
// stream of bad messages must neither be silent nor fill the disk. Safe for concurrent use.
type LetterLog struct {
	log     *slog.Logger
	series  *Series
	updated time.Time // see Update

	mu     sync.Mutex
	counts map[wire.Code]int // since the last summary; a code that was logged once has an entry
	last   string            // source of the newest dead letter that was counted only
}

// NewLetterLog returns a log that counts in the pipeline's series.
func NewLetterLog(log *slog.Logger, series *Series) *LetterLog {
	return &LetterLog{log: log, series: series, counts: map[wire.Code]int{}}
}

// Add counts a dead letter that was stored.
func (l *LetterLog) Add(letter *wire.Letter) {
	l.series.Add(DeadLetters, 1, string(letter.Code))
	if l.isFirst(letter) {
		l.log.Warn("dead letter; further ones with this code are counted once a minute", "code", string(letter.Code),
			"source", letter.Origin.Source(), "subject", letter.Subject, "error", letter.Error)
	}
}

func (l *LetterLog) isFirst(letter *wire.Letter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, known := l.counts[letter.Code]
	if !known {
		l.counts[letter.Code] = 0
		return true
	}
	l.counts[letter.Code] = n + 1
	l.last = letter.Origin.Source()
	return false
}

// summary returns the counts since the last summary, "" when there are none.
func (l *LetterLog) summary() (counts, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(l.counts)) {
		if n := l.counts[code]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", code, n))
			l.counts[code] = 0
		}
	}
	return strings.Join(parts, ", "), l.last
}

// Update logs the counts if an interval has passed since the last call that did. One goroutine calls it.
func (l *LetterLog) Update(now time.Time, interval time.Duration) {
	if l.updated.IsZero() {
		l.updated = now
	}
	if now.Sub(l.updated) >= interval {
		l.updated = now
		l.Log()
	}
}

// Log logs the counts.
func (l *LetterLog) Log() {
	if counts, last := l.summary(); counts != "" {
		l.log.Warn("dead letters", "counts", counts, "last", last)
	}
}
