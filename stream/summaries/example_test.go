package summaries_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/summaries"
)

// A pipeline that learns from edges looks up how far their summaries have arrived.
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
	bucket, err := summaries.Open(ctx, js, 1)
	if err != nil {
		log.Fatal(err)
	}
	input, err := js.Stream(ctx, "FEATURES")
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := bucket.LoadLedger(ctx, "machines", input.CachedInfo().Created)
	if errors.Is(err, summaries.ErrMissing) {
		fmt.Println("no summary has arrived")
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ledger.Next, len(ledger.Edges))
}
