package stream

import (
	"fmt"
	"strconv"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
)

// mark is what an output says of a stale model; nothing for a fresh one.
func mark(age time.Duration, stale bool) []wire.Pair {
	if !stale {
		return nil
	}
	return []wire.Pair{{Key: wire.HeaderStale, Value: strconv.FormatInt(int64(age/time.Second), 10)}}
}

// marks are what an output says beside its model and its origin.
func (p *relay) marks(in *input, age time.Duration, stale bool) []wire.Pair {
	out := mark(age, stale)
	if in.again {
		out = append(out, wire.Pair{Key: wire.HeaderRedelivered, Value: "1"})
	}
	return out
}

// staleReason is the sentence that readiness shows.
func (p *relay) staleReason(age time.Duration) string {
	does := map[WhenStale]string{StaleServe: "outputs are marked", StaleHold: "nothing leaves",
		StalePass: "messages leave as they came"}[p.WhenStale]
	return fmt.Sprintf("model %s was last found good %v ago, over training.max_age %v, and %s; %s",
		p.Running.Live().Version, age.Round(time.Second), p.MaxAge, does, p.training.Learned())
}
