package lease

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestReleasedInTheMiddle: a replica that ends while it asks for the lease, or renews it, leaves none behind for which
// the next would have to wait, whether the server had taken its word by then or not.
func TestReleasedInTheMiddle(t *testing.T) {
	nc, err := nats.Connect(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := Open(t.Context(), js, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	left := 0
	for i := range 300 {
		l := bucket.Of(Options{Key: "q", Claim: Claim{Holder: nats.NewInbox()}, Life: time.Minute})
		if i%2 == 0 { // then it is a renewal that is cut
			if err := l.Try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(600))*time.Microsecond)
		_ = l.Try(ctx)
		cancel()
		l.Release(t.Context())
		held, err := bucket.Held(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		if held {
			left++
			if err := bucket.kv.Delete(t.Context(), "q"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left > 0 {
		t.Errorf("%d of 300 replicas left the lease behind", left)
	}
}
