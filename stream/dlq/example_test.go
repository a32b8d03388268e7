package dlq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/dlq"
)

// The dead letters of the last hour that had a value that is not finite are replayed: published to their input again,
// and deleted.
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
	letters := dlq.DeadLetters{Subject: "dead.digits", Codes: []string{"non_finite"}, Since: time.Now().Add(-time.Hour),
		Bodies: true}
	err = letters.Read(ctx, js, func(l *dlq.DeadLetter) error {
		one, err := dlq.Replays{}.Do(ctx, js, l)
		fmt.Println(one.Number, one.To, one.As)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
