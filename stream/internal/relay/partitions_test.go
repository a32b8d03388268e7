package relay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/embedd/embedd/stream/internal/scope"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// newServer starts a server with the streams of a pipeline.
func newServer(t *testing.T) *natstest.Server {
	t.Helper()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in"})
	s.Stream(jetstream.StreamConfig{Name: "out"})
	return s
}

// TestInOrderAfterLapse: a lease that lapsed and is renewed under the same term does not bring back what was held
// under it: an answer was refused meanwhile, and the one behind it of its key must not be stored before that comes
// again.
func TestInOrderAfterLapse(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	leases, err := lease.Open(t.Context(), s.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := leases.Lease(lease.Options{Key: "q", Claim: lease.Claim{Holder: nats.NewInbox()}, TTL: time.Second})
	try := func() { _ = l.Acquire(t.Context()) }
	var is uint64
	natstest.Await(t, "the lease is held", func() bool { try(); is = l.Term(); return is != 0 })
	ln := &source{ownership: &ownership{lease: l, term: is}}
	natstest.Await(t, "the lease is over by our clock", func() bool { return l.Term() == 0 })
	u := newPublisher(s.JS.Conn(), "")
	defer u.close()
	p := New(&scope.Scope{}, &Activity{}, 0)
	u.sendNext = func(a *answer) { p.send(u, a) }
	answers := make([]*answer, 3)
	for i := range answers {
		o := &part{msg: nats.NewMsg("out.x"), id: nats.NewInbox(), sink: &sink{}}
		answers[i] = &answer{in: &input{source: ln, Message: scope.Message{Subject: "in.k"}}, parts: []*part{o}}
	}
	p.publish(u, answers[0])
	p.publish(u, answers[1])
	natstest.Await(t, "the lease is held again", func() bool { try(); return l.Term() != 0 })
	u.releaseNext(answers[0])
	u.releaseNext(answers[1])
	p.publish(u, answers[2])
	for i, a := range answers {
		if err := a.parts[0].err; !errors.Is(err, errNotOwned) {
			t.Errorf("answer %d is sent: %v", i, err)
		}
	}
	if ln.isActive() {
		t.Error("what comes next is answered")
	}
}

// TestNothingIsSentAfterTheDrain: when the drain has taken too long, an answer that waits for the one before it of its
// key is not sent: the earlier one, which failed, would be stored behind it after the next start.
func TestNothingIsSentAfterTheDrain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	leases, err := lease.Open(t.Context(), s.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := leases.Lease(lease.Options{Key: "q", Claim: lease.Claim{Holder: nats.NewInbox()}, TTL: natstest.Timeout})
	natstest.Await(t, "the lease is held", func() bool { return l.Acquire(t.Context()) == nil && l.Term() != 0 })
	outputs, err := s.JS.Conn().SubscribeSync("out.x")
	if err != nil {
		t.Fatal(err)
	}
	u := newPublisher(s.JS.Conn(), "")
	defer u.close()
	p := New(&scope.Scope{}, &Activity{}, 0)
	u.sendNext = func(a *answer) { p.send(u, a) }
	sent := make(chan *answer, 2)
	for range 2 {
		o := &part{msg: nats.NewMsg("out.x"), id: nats.NewInbox(), sink: &sink{}}
		a := &answer{in: &input{source: &source{ownership: &ownership{lease: l, term: l.Term()}},
			Message: scope.Message{Subject: "in.k"}}, parts: []*part{o}}
		p.publish(u, a)
		if len(sent) == 0 {
			u.fail(o, nats.ErrDisconnected)
		}
		sent <- a
	}
	close(sent)
	c := newConfirmer(p.hotPath, u)
	c.sent = sent
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.run(ctx)
	if err := s.JS.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := outputs.Pending(); n != 1 || err != nil {
		t.Errorf("%d outputs are sent, want the first alone; %v", n, err)
	}
}

// TestPostponedElsewhereSince: a postponed input that another process has had since may have an answer that this
// process does not know.
func TestPostponedElsewhereSince(t *testing.T) {
	in := &input{Message: scope.Message{Origin: wire.Origin{Seq: 1}, Delivered: 1}}
	a := &answer{in: in, parts: []*part{{id: "id", isDoubtful: true}}}
	var u undeliverable
	if isPostponed, _ := u.restore(a); isPostponed {
		t.Error("an input that was not postponed is one")
	}
	u.add(a, errRefused, time.Now())
	for delivered, want := range map[uint64]bool{2: true, 3: false} {
		in.Delivered = delivered
		again := &answer{in: in, parts: []*part{{id: "id"}}}
		isPostponed, isNext := u.restore(again)
		if !isPostponed || isNext != want || !again.parts[0].isDoubtful {
			t.Errorf("delivery %d: postponed %t, the next delivery %t, doubtful %t", delivered, isPostponed, isNext,
				again.parts[0].isDoubtful)
		}
	}
}

// TestErrorOfReleasedPartition: the error of a partition that cannot be pulled stays while another one can be, and ends
// when this replica does not own the partition any more: without a pull nothing else would end it.
func TestErrorOfReleasedPartition(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	leases, err := lease.Open(t.Context(), s.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := leases.Lease(lease.Options{Key: "q", Claim: lease.Claim{Holder: "a"}, TTL: lease.MaxTTL})
	if err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	conditions := &health.Conditions{}
	r := New(&scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in", Subject: "in.*", Partitions: 2}, JS: s.JS,
		Conditions: conditions, Log: slog.New(slog.DiscardHandler)}, &Activity{}, 0)
	o := &partitionOwner{partitions: r.partitions, work: t.Context(), inFlight: newInFlight(r.activity, nil, nil)}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { o.own(ctx, needs.Partition{Number: 1, Of: 2}, l, l.Term()) }) // the consumer p is missing
	natstest.Await(t, "the error is reported", func() bool { return conditions.Reason(health.Pull) != "" })
	o.setPullError(needs.Partition{Number: 0, Of: 2}, nil) // a pull of another one
	if reason := conditions.Reason(health.Pull); !strings.Contains(reason, "partition 1of2") {
		t.Errorf("after another partition was pulled the error is %q", reason)
	}
	stop()
	wg.Wait()
	if reason := conditions.Reason(health.Pull); reason != "" {
		t.Errorf("after the partition was released: %s", reason)
	}
}

// TestInOrderPulls: each partition pulls its share at once, whatever the others do. What is pulled and what is
// unpacked are within the limit together; where one message for each partition is more than half of that, half of it
// is left.
func TestInOrderPulls(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const partitions, bulk = 8, 29 << 20
	p := New(&scope.Scope{Pipeline: spec.Pipeline{Partitions: partitions, InFlight: 64 << 20}, Conn: s.JS.Conn()},
		&Activity{}, 0).partitions
	h := newInFlight(&Activity{}, p.maxInFlight, func() int { return maxPending })
	for range partitions {
		if free, _ := h.awaitRoom(t.Context()); free <= 0 {
			t.Fatal("a partition has no room for a pull")
		}
	}
	n := uint64(0)
	add := func(size int64) *input {
		n++
		in := &input{size: size, Message: scope.Message{Origin: wire.Origin{Seq: n}}}
		h.add(in)
		return in
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	worked := 0
	for range 2 {
		if in := add(1 << 20); h.beginProcessing(over, in, bulk) {
			worked++
		}
	}
	each, _ := p.pullBytes()
	for range partitions {
		add(each)
	}
	if h.bytes > p.InFlight || worked != 1 {
		t.Errorf("%d MiB are held of %d; %d of two messages are unpacked", h.bytes>>20, p.InFlight>>20, worked)
	}
	p.InFlight = 8 << 20
	if _, all := p.pullBytes(); p.maxInFlight() != 4<<20 || all != partitions*(p.Conn.MaxPayload()+natsx.MaxHeaderBytes) {
		t.Errorf("%d bytes are pulled and %d held", all, p.maxInFlight())
	}
}

// TestAllPartitionsNotified: all partitions that wait for room continue once there is some, although only one of them
// is notified first.
func TestAllPartitionsNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newInFlight(&Activity{}, func() int64 { return 2 }, func() int { return maxPending })
		in := &input{size: 2}
		h.add(in)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { h.awaitRoom(t.Context()) })
		}
		synctest.Wait()
		h.remove(in)
		wg.Wait()
	})
}

// TestInOrderAsksForOne: of the partitions that wait for what came before one asks, for the first consumer that has
// something left, and not for all of an earlier number each time. What has nothing left is asked for once.
func TestInOrderAsksForOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Timeout)
	defer cancel()
	s.Publish(nats.NewMsg("in.k"))
	js, err := jetstream.New(s.Connect(), jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	p := New(&scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in", Subject: "in.*",
		Partitions: spec.MaxPartitions},
		JS: js, Log: slog.New(slog.DiscardHandler)}, &Activity{}, 0).partitions
	p.earlier = []needs.Partition{{Number: 0, Of: 4}, {Number: 1, Of: 4}}
	for _, q := range append(p.earlier, needs.Partition{}) {
		if _, err := s.JS.CreateConsumer(ctx, "in", jetstream.ConsumerConfig{Durable: q.ConsumerName(needs.ConsumerName("p",
			"")),
			FilterSubject: q.Filter("in.*"), AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
	}
	asked, err := s.JS.Conn().SubscribeSync("$JS.API.CONSUMER.INFO.in.*")
	if err == nil {
		err = s.JS.Conn().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, spec.MaxPartitions)
	for i := range spec.MaxPartitions {
		go func() { ended <- p.awaitEarlier(ctx, needs.Partition{Number: i, Of: spec.MaxPartitions}) }()
	}
	for range 3 {
		msg, err := asked.NextMsg(natstest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(msg.Subject, "."+needs.ConsumerName("p", "")) {
			t.Errorf("%s is asked for while the first has something left", msg.Subject)
		}
	}
	// Acknowledged without a question of the client's own for the consumer.
	answered, err := s.JS.Conn().RequestWithContext(ctx, "$JS.API.CONSUMER.MSG.NEXT.in."+needs.ConsumerName("p", ""), nil)
	if err == nil {
		_, err = s.JS.Conn().RequestWithContext(ctx, answered.Reply, []byte("+ACK"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for range spec.MaxPartitions {
		if err := <-ended; err != nil {
			t.Errorf("the wait ends with %v", err)
		}
	}
	if err := s.JS.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	questions := map[string]int{}
	last := p.earlier[1].ConsumerName(needs.ConsumerName("p", ""))
	// The server may answer the last question before it passes a copy of it on.
	for more := 1; more > 0 || questions[last] == 0; more, _, _ = asked.Pending() {
		msg, err := asked.NextMsg(natstest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		questions[msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]]++
	}
	// In the end the first is requested every two seconds; if each partition requested it, there would be one a partition.
	// There is none if the server answered the third question after the acknowledgement.
	if n := questions[needs.ConsumerName("p", "")]; n >= spec.MaxPartitions/2 {
		t.Errorf("%d questions more for the first", n)
	}
	for _, q := range p.earlier {
		if n := questions[q.ConsumerName(needs.ConsumerName("p", ""))]; n != 1 {
			t.Errorf("%d questions for %v", n, q)
		}
	}
}

// TestBookmarksOfARestoredStream: after an older copy of the input stream was restored, bookmarks behind its end are
// those of other messages: the one that is stored, and the one that the owner has in memory.
func TestBookmarksOfARestoredStream(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Publish(nats.NewMsg("in.k"))
	r := New(&scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in", Subject: "in.*"}, JS: s.JS, Conn: s.JS.Conn(),
		Log: slog.New(slog.DiscardHandler)}, &Activity{}, 0)
	for floor, want := range map[uint64]uint64{1: 1, 2: 0} {
		b := &source{durable: "c", filter: "in.*",
			ownership: &ownership{previous: bookmark{Floor: floor}, answered: &bookmark{Floor: floor}}}
		if _, _, err := r.consumers.bindOnce(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if b.previous.Floor != want || b.answered.Floor != want {
			t.Errorf("bookmarks at message %d become %d and %d, want %d", floor, b.previous.Floor, b.answered.Floor, want)
		}
	}
}
