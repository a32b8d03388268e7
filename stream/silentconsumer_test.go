package stream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/relay"
)

// silentFleet has a pipeline with a partition whose consumer can be silenced. It changes limits of the process, so no
// other test runs at the time.
func silentFleet(t *testing.T) (f *fleet, p Pipeline, q needs.Partition) {
	wait, longest := natsx.HedgeWait, relay.MaxConsumerSilence
	natsx.HedgeWait, relay.MaxConsumerSilence = time.Second, time.Second
	t.Cleanup(func() { natsx.HedgeWait, relay.MaxConsumerSilence = wait, longest })
	f, p = newFleet(t, 2), keyed()
	p.Partitions, p.Stage.Fixed = 2, fixed(t)
	return f, p, needs.Partition{Number: 1, Of: 2}
}

// silence has the server not answer about a consumer, and not deliver its messages, until it is deleted, which it
// signals.
func (f *fleet) silence(durable string) (deleted chan struct{}) {
	f.Helper()
	account, nc := f.server.GlobalAccount(), f.js.Conn()
	deleted = make(chan struct{}, 9)
	requests := []string{"$JS.API.CONSUMER.INFO.in." + durable, "$JS.API.CONSUMER.MSG.NEXT.in." + durable}
	for _, request := range requests {
		if err := account.AddMapping(request, "unanswered"); err != nil {
			f.Fatal(err)
		}
	}
	if _, err := nc.SubscribeSync("unanswered"); err != nil {
		f.Fatal(err)
	}
	if _, err := nc.Subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.in."+durable, func(*nats.Msg) {
		for _, request := range requests {
			account.RemoveMapping(request)
		}
		deleted <- struct{}{}
	}); err != nil {
		f.Fatal(err)
	}
	return deleted
}

func (f *fleet) consumer(durable string) *jetstream.ConsumerInfo {
	f.Helper()
	consumer, err := f.js.Consumer(f.Context(), "in", durable)
	if err != nil {
		f.Fatal(err)
	}
	return consumer.CachedInfo()
}

// TestSilentConsumerIsCreatedAgain: after a network partition a server answered about a stream for half an hour, but
// not about one of its consumers. The consumer is created again, and nothing is lost, answered twice or out of order.
func TestSilentConsumerIsCreatedAgain(t *testing.T) {
	f, p, q := silentFleet(t)
	durable := q.ConsumerName(needs.ConsumerName(p.Name, ""))
	f.publish(20, 10)
	first := f.replica(p)
	f.answered()
	first.end()
	before := f.consumer(durable).Created
	f.silence(durable)
	f.publish(40, 10)
	f.replica(p)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
	if after := f.consumer(durable).Created; !after.After(before) {
		t.Errorf("the consumer is the one of %v still", before)
	}
}

// TestSilentConsumerContinues: the consumer is created again where its owner has answered everything, not where the
// owner bound it, since outputs from weeks ago need not be stored any more.
func TestSilentConsumerContinues(t *testing.T) {
	f, p, q := silentFleet(t)
	durable := q.ConsumerName(needs.ConsumerName(p.Name, ""))
	f.replica(p)
	f.publish(20, 10)
	f.answered()
	f.until("all is acknowledged", func() bool { i := f.consumer(durable); return i.NumAckPending+int(i.NumPending) == 0 })
	floor := f.consumer(durable).AckFloor.Stream
	deleted := f.silence(durable)
	f.until("the consumer is deleted", func() bool { return len(deleted) > 0 })
	f.publish(20, 10)
	f.answered()
	if o := f.order(); o.lost+o.twice+o.late+o.marked > 0 {
		t.Errorf("%+v", o)
	}
	if start := f.consumer(durable).Config.OptStartSeq; floor == 0 || start <= floor {
		t.Errorf("the consumer starts at message %d, and was answered up to %d", start, floor)
	}
}

// TestSilentConsumerWithoutBookmark: without a bookmark the whole stream would be delivered again.
func TestSilentConsumerWithoutBookmark(t *testing.T) {
	f, p, q := silentFleet(t)
	durable := q.ConsumerName(needs.ConsumerName(p.Name, ""))
	f.publish(20, 10)
	first := f.replica(p)
	f.answered()
	first.end()
	leases, err := natsx.OpenBucket(t.Context(), f.js, lease.BucketName)
	if err == nil {
		_, err = leases.Modify(t.Context(), q.BookmarkKey(p.Name), func([]byte) ([]byte, error) { return nil, nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	deleted := f.silence(durable)
	f.replica(p)
	select {
	case <-deleted:
		t.Error("the consumer was deleted")
	case <-time.After(5 * time.Second):
	}
}
