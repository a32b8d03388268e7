// Package insist asks again what nobody has heard.
package insist

import (
	"context"
	"sync"
	"time"
)

// A question to a stream that elects its leader is lost, and one on its way when the connection ends: nobody has it, and
// nobody says so. So what changes nothing when it is asked twice is asked again while it is not answered; the first answer
// counts, whichever question it is to.
const (
	wait  = 5 * time.Second
	again = time.Second
	most  = int(wait / again)
)

// Ask asks until one answers, for five seconds.
func Ask[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, most)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(again)
	defer tick.Stop()
	for asks := 0; ; asks++ {
		if asks < most {
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
