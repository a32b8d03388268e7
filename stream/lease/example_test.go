package lease_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/lease"
)

// One of the processes that run this compacts; another continues within ten seconds of its end. What it writes carries
// the term, so that writes of an earlier holder can be refused.
func Example() {
	ctx := context.Background()
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	bucket, err := lease.Open(ctx, js, 1)
	if err != nil {
		log.Fatal(err)
	}
	l := bucket.Lease(lease.Options{Key: "compaction", Claim: lease.NewClaim("replica-1", nil), Logger: slog.Default()})
	if err := l.Acquire(ctx); err != nil { // waits
		log.Fatal(err)
	}
	defer l.Release(ctx)
	fmt.Println("term", l.Term())
}
