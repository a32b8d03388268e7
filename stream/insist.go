package stream

import (
	"context"
	"sync"
	"time"
)

// A question to a stream that elects its leader is lost: nobody has it, and nobody says so. So what changes nothing when it
// is asked twice is asked again while it is not answered; the first answer counts, whichever question it is to.
const (
	askWait  = 5 * time.Second
	askAnew  = time.Second
	mostAsks = int(askWait / askAnew)
)

// insist asks until one answers, for askWait.
func insist[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, mostAsks)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	tick := time.NewTicker(askAnew)
	defer tick.Stop()
	for asks := 0; ; asks++ {
		if asks < mostAsks {
			wg.Go(func() {
				v, err := ask(ctx)
				answers <- answer{v, err}
			})
		}
		select {
		case a := <-answers:
			return a.value, a.err
		case <-tick.C:
		}
	}
}
