package relay

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publisher publishes the parts of answers and receives the publish acknowledgements of the server. Two goroutines
// may share it: one sends, the other receives. PublishAsync of the client allocates a channel, a timer and a decoder
// for each message, which together take longer than answering a small message.
type publisher struct {
	nc    *nats.Conn
	hub   string // JetStream domain of a hub whose acknowledgements are ignored: its streams take the same subjects
	inbox string // prefix of the reply subjects; the number of the attempt follows

	broken chan nats.Status // receives when the connection was lost, and with it the acknowledgements

	mu       sync.Mutex
	sub      *nats.Subscription // nil until something is sent: an idle pipeline needs no room for acknowledgements
	acks     chan *nats.Msg
	newest   uint64
	pending  map[uint64]*part   // sent and not acknowledged, by number
	newestOf map[string]*answer // with partitions: the newest answer of each key that is not finished
	sendNext func(*answer)      // sends an answer that waited until the previous one of its key was stored
}

// ackTimeout is how long the server may take to acknowledge a message before it is looked up and sent again. A stream
// that lost its leader loses what it had not stored, so it is about as long as an election takes.
const ackTimeout = 5 * time.Second

// maxAcks bounds the acknowledgements that wait to be received. One that is lost is like one that was not sent.
const maxAcks = 4 * maxPending

var errAckTimeout = errors.New("the server has not said in time whether it stored the message")

func newPublisher(nc *nats.Conn, hub string) *publisher {
	return &publisher{nc: nc, hub: hub, inbox: nc.NewInbox() + ".", pending: map[uint64]*part{},
		newestOf: map[string]*answer{}, broken: nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)}
}

// subscribe subscribes to the acknowledgements, once. The caller holds the lock.
func (p *publisher) subscribe() (err error) {
	if p.sub == nil {
		acks := make(chan *nats.Msg, maxAcks)
		if p.sub, err = p.nc.ChanSubscribe(p.inbox+"*", acks); err == nil {
			p.acks = acks
		}
	}
	return err
}

// ackChan receives the acknowledgements; nil: nothing was sent.
func (p *publisher) ackChan() <-chan *nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acks
}

func (p *publisher) close() {
	p.nc.RemoveStatusListener(p.broken)
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
	}
}

// send publishes a part. If that fails, the part's error is set.
func (p *publisher) send(o *part) {
	if o.answer != nil && !o.answer.in.source.isOwned() {
		p.fail(o, errNotOwned)
		return
	}
	if o.after.created.IsZero() {
		o.after = o.sink.position()
	}
	o.ids[0] = o.id
	o.msg.Header[jetstream.MsgIDHeader] = o.ids[:]
	p.mu.Lock()
	err := p.subscribe()
	p.newest++
	o.attempt, o.sentAt = p.newest, time.Now()
	if o.firstSentAt.IsZero() {
		o.firstSentAt = o.sentAt
	}
	p.pending[o.attempt] = o
	var digits [20]byte
	o.msg.Reply = p.inbox + string(strconv.AppendUint(digits[:0], o.attempt, 10))
	p.mu.Unlock()
	if err == nil {
		err = p.nc.PublishMsg(o.msg)
	}
	if err != nil {
		p.fail(o, err)
	}
}

// fail ends the attempt at a part with an error.
func (p *publisher) fail(o *part, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, o.attempt)
	o.fail(err)
}

// forget ignores the acknowledgements of parts from now on.
func (p *publisher) forget(parts []*part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range parts {
		delete(p.pending, o.attempt)
	}
}

// receive processes one acknowledgement.
func (p *publisher) receive(ack *nats.Msg) {
	number, err := strconv.ParseUint(ack.Subject[len(p.inbox):], 10, 64)
	if err != nil {
		return
	}
	if a := p.record(number, ack); a.isStored() {
		p.releaseNext(a)
	}
}

// record stores the result of an attempt, and returns the answer of the part if answers are sent in order.
func (p *publisher) record(number uint64, ack *nats.Msg) *answer {
	stored, err := parsePubAck(ack)
	if stored.Domain != "" && stored.Domain == p.hub {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.pending[number]
	if o == nil {
		return nil // forgotten
	}
	delete(p.pending, number)
	if err != nil {
		o.fail(err)
		return nil
	}
	if stored.Duplicate { // the confirmer looks whose message that is
		o.claimant = stored.Sequence
		o.fail(errDuplicate)
		return nil
	}
	o.attempt, o.isStored = 0, true
	o.sink.addStored(stored.Sequence)
	return o.answer
}

// enqueue adds an answer behind those of its key. It reports whether it may be sent now; otherwise it is sent when the
// one before it is stored.
func (p *publisher) enqueue(a *answer) bool {
	for _, o := range a.parts {
		o.answer = a
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.newestOf[a.in.Subject]
	p.newestOf[a.in.Subject] = a
	if before != nil {
		before.next = a
	}
	return before == nil
}

// releaseNext sends the next answer of the key, once this one is stored or was given up.
func (p *publisher) releaseNext(a *answer) {
	if !a.in.source.isOrdered() {
		return
	}
	p.mu.Lock()
	next := a.next
	if a.isReleased {
		next = nil
	}
	a.isReleased = true
	if p.newestOf[a.in.Subject] == a {
		delete(p.newestOf, a.in.Subject)
	}
	p.mu.Unlock()
	if next != nil {
		p.sendNext(next)
	}
}

// failAll ends all attempts, because the connection was lost.
func (p *publisher) failAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for number, o := range p.pending {
		delete(p.pending, number)
		o.fail(nats.ErrDisconnected)
	}
}

// receiveAll processes all acknowledgements that have arrived.
func (p *publisher) receiveAll() {
	acks := p.ackChan()
	for {
		select {
		case ack := <-acks:
			p.receive(ack)
			continue
		default:
		}
		select {
		case <-p.broken:
			p.failAll()
			continue
		default:
		}
		return
	}
}
