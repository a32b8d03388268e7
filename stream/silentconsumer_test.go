package stream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/relay"
)

// TestSilentConsumerIsCreatedAgain: after a network partition a server answered about a stream for half an hour, but
// not about one of its consumers. The consumer is created again, and nothing is lost, answered twice or out of order.
// The test changes limits of the process, so no other test runs at the time.
func TestSilentConsumerIsCreatedAgain(t *testing.T) {
	wait, longest := natsx.HedgeWait, relay.MaxConsumerSilence
	natsx.HedgeWait, relay.MaxConsumerSilence = time.Second, time.Second
	t.Cleanup(func() { natsx.HedgeWait, relay.MaxConsumerSilence = wait, longest })

	f := newFleet(t, 2)
	p := keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	f.publish(20, 10)
	first := f.replica(p)
	f.answered()
	first.end()

	durable := needs.Partition{Number: 1, Of: 2}.ConsumerName(needs.ConsumerName(p.Name, ""))
	created := func() time.Time {
		consumer, err := f.js.Consumer(f.Context(), "in", durable)
		if err != nil {
			t.Fatal(err)
		}
		return consumer.CachedInfo().Created
	}
	before := created()
	account, request := f.server.GlobalAccount(), "$JS.API.CONSUMER.INFO.in."+durable
	if err := account.AddMapping(request, "unanswered"); err != nil {
		t.Fatal(err)
	}
	nc := f.js.Conn()
	if _, err := nc.SubscribeSync("unanswered"); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.in."+durable, func(*nats.Msg) {
		account.RemoveMapping(request)
	}); err != nil {
		t.Fatal(err)
	}
	f.publish(40, 10)
	f.replica(p)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
	if after := created(); !after.After(before) {
		t.Errorf("the consumer is the one of %v still", before)
	}
}
