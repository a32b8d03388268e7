package stream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
)

// deaths says in the log what becomes a dead letter: the first of each code with its sentence, and then how many there
// were, once a minute. A stream of bad messages must neither be silent nor fill the disk.
type deaths struct {
	mu    sync.Mutex
	known map[wire.Code]bool
	since map[wire.Code]int // since they were last told
	last  string            // the source of the newest of those
}

// note counts the letters of an answer that has left.
func (d *deaths) note(p *pipeline, a *answer) {
	for _, l := range a.letters {
		p.metrics.letters.WithLabelValues(p.Name, string(l.Code)).Inc()
		if d.first(l) {
			p.log.Warn("dead letter; further ones with this code are counted once a minute", "code", string(l.Code),
				"source", l.Origin.Source(), "subject", l.Subject, "error", l.Error)
		}
	}
}

func (d *deaths) first(l *letter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known[l.Code] {
		if d.known == nil {
			d.known, d.since = map[wire.Code]bool{}, map[wire.Code]int{}
		}
		d.known[l.Code] = true
		return true
	}
	d.since[l.Code]++
	d.last = l.Origin.Source()
	return false
}

// rest is what was not told yet, as text, "" where there is nothing.
func (d *deaths) rest() (counts, last string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(d.since)) {
		parts = append(parts, fmt.Sprintf("%s %d", code, d.since[code]))
	}
	clear(d.since)
	return strings.Join(parts, ", "), d.last
}

// tellDeaths tells the rate until ctx is done.
func (p *pipeline) tellDeaths(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			done = true
		}
		if counts, last := p.deaths.rest(); counts != "" {
			p.log.Warn("dead letters", "counts", counts, "last", last)
		}
	}
}
