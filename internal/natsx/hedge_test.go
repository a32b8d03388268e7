package natsx

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// TestHedge: a lost request is repeated, an error is an answer, and a cancelled context ends the requests.
func TestHedge(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	got, err := Hedge(t.Context(), func(ctx context.Context) (int32, error) {
		n := requests.Add(1)
		if n == 1 {
			<-ctx.Done() // as if the request were lost
			return 0, ctx.Err()
		}
		return n, nil
	})
	if err != nil || got < 2 {
		t.Errorf("the answer is %d, %v", got, err)
	}
	no := errors.New("no")
	if _, err := Hedge(t.Context(), func(context.Context) (int, error) { return 0, no }); !errors.Is(err, no) {
		t.Errorf("the error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Hedge(ended, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended the error is %v", err)
	}
}
