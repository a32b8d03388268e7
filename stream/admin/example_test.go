package admin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// Without a server, Setup plans for one that has no streams. With one and apply, it creates what is missing.
func Example() {
	pipelines := []stream.Pipeline{{Name: "digits", Stream: "FEATURES", Subject: "features.digits",
		Output: "reduced.digits", Dead: "dead.digits"}}
	plans, err := admin.Setup(context.Background(), nil, pipelines, false)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range plans {
		if !p.Bucket {
			fmt.Println(p.Name, p.Subjects)
		}
	}
	for _, p := range admin.PermissionsOf(pipelines, plans, admin.Account{}) {
		if p.Role == "producer" {
			fmt.Println(p.Publish, p.Subscribe)
		}
	}
	// Output:
	// FEATURES [features.digits]
	// REDUCED [reduced.digits]
	// DEAD [dead.digits]
	// [$JS.API.STREAM.NAMES embedd.digits.transform features.digits] [_INBOX.producer.>]
}
