package insist

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// TestAsk: a question that is lost is asked again, an error is an answer, and nothing is asked once ctx is done.
func TestAsk(t *testing.T) {
	t.Parallel()
	var asks atomic.Int32
	got, err := Ask(t.Context(), func(ctx context.Context) (int32, error) {
		n := asks.Add(1)
		if n == 1 {
			<-ctx.Done() // as a question that nobody has
			return 0, ctx.Err()
		}
		return n, nil
	})
	if err != nil || got < 2 {
		t.Errorf("the answer is %d, %v", got, err)
	}
	no := errors.New("no")
	if _, err := Ask(t.Context(), func(context.Context) (int, error) { return 0, no }); !errors.Is(err, no) {
		t.Errorf("the error is %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(over, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("once it is over the error is %v", err)
	}
}
