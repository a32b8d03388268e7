package natsx

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
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

// TestFindStreamAsksAgain: a request about a stream that is not answered, as in a cluster that deletes it, is repeated.
func TestFindStreamAsksAgain(t *testing.T) {
	t.Parallel()
	nc := natstest.New(t).Connect()
	var requests atomic.Int32
	_, err := nc.Subscribe("lossy.STREAM.INFO.S", func(m *nats.Msg) {
		if requests.Add(1) > 1 {
			_ = m.Respond([]byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.NewWithAPIPrefix(nc, "lossy")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Timeout)
	defer cancel()
	if s, err := FindStream(ctx, js, "S"); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// TestWhileConnected: what waits for a lost answer ends with the connection, and an error without that is passed on.
func TestWhileConnected(t *testing.T) {
	t.Parallel()
	nc := natstest.New(t).Connect()
	no := errors.New("no")
	if err := WhileConnected(t.Context(), nc, func(context.Context) error { return no }); err != no {
		t.Errorf("the error is %v", err)
	}
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return no
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WhileConnected(ended, nc, wait); err != no {
		t.Errorf("after the context ended the error is %v", err)
	}
	for _, end := range []func(){func() { _ = nc.ForceReconnect() }, nc.Close} {
		err := WhileConnected(t.Context(), nc, func(ctx context.Context) error {
			end()
			return wait(ctx)
		})
		if !errors.Is(err, nats.ErrDisconnected) || !errors.Is(err, no) {
			t.Errorf("after the connection broke the error is %v", err)
		}
	}
}
