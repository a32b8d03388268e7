package natsx

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// maxReceived is how many messages wait for the goroutine of a Receiver. The client drops those beyond it.
const maxReceived = 4096

// Receiver receives the messages of many subscriptions in one goroutine, which runs while there are any. The client
// would have a goroutine for each. Safe for concurrent use.
type Receiver struct {
	conn *nats.Conn

	mu       sync.Mutex
	handlers map[*nats.Subscription]func(*nats.Msg)
	arrived  chan *nats.Msg // nil: no goroutine runs
	ended    chan struct{}  // closed when it has ended
}

// NewReceiver returns a receiver of a connection.
func NewReceiver(conn *nats.Conn) *Receiver {
	return &Receiver{conn: conn, handlers: map[*nats.Subscription]func(*nats.Msg){}}
}

// Subscribe has handle called with each message of a subject: for one member of a queue group, or for all if queue
// is "". handle must not block, and must not end a subscription.
func (r *Receiver) Subscribe(subject, queue string, handle func(*nats.Msg)) (*nats.Subscription, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	arrived := r.arrived
	if arrived == nil {
		arrived = make(chan *nats.Msg, maxReceived)
	}
	sub, err := r.conn.ChanQueueSubscribe(subject, queue, arrived)
	if err != nil {
		return nil, err
	}
	r.handlers[sub] = handle
	if r.arrived == nil {
		r.arrived, r.ended = arrived, make(chan struct{})
		go r.run(arrived, r.ended)
	}
	return sub, nil
}

func (r *Receiver) run(arrived <-chan *nats.Msg, ended chan<- struct{}) {
	defer close(ended)
	for msg := range arrived {
		if msg == nil {
			return
		}
		r.mu.Lock()
		handle := r.handlers[msg.Sub]
		r.mu.Unlock()
		if handle != nil {
			handle(msg)
		}
	}
}

// Drain ends subscriptions when the messages that the server has sent for them are handled.
func (r *Receiver) Drain(subs []*nats.Subscription) {
	for _, sub := range subs {
		_ = sub.Drain() // an error is that of a closed connection
	}
	if r.conn.IsConnected() {
		_ = r.conn.FlushTimeout(releaseWait)
	}
	r.mu.Lock()
	arrived, last, handled := r.arrived, &nats.Subscription{}, make(chan struct{})
	if arrived != nil {
		r.handlers[last] = func(*nats.Msg) { close(handled) }
	}
	r.mu.Unlock()
	if arrived != nil {
		arrived <- &nats.Msg{Sub: last}
		<-handled
	}
	for _, sub := range subs {
		_ = sub.Unsubscribe() // the client subscribes to a drained one again if the connection was down meanwhile
	}
	r.remove(last)
	r.remove(subs...)
}

// Unsubscribe ends a subscription. A message may be handled while it runs.
func (r *Receiver) Unsubscribe(sub *nats.Subscription) {
	_ = sub.Unsubscribe() // as in Drain
	r.remove(sub)
}

// remove forgets subscriptions, and ends the goroutine after the last one.
func (r *Receiver) remove(subs ...*nats.Subscription) {
	r.mu.Lock()
	for _, sub := range subs {
		delete(r.handlers, sub)
	}
	arrived, ended := r.arrived, r.ended
	isLast := len(r.handlers) == 0 && arrived != nil
	if isLast {
		r.arrived = nil
	}
	r.mu.Unlock()
	if isLast {
		arrived <- nil
		<-ended
	}
}
