package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publisher sends messages and hears what the server says of each. Two goroutines may share it: one sends, the other
// takes the server's words. The client's own PublishAsync has a channel, a timer and a decoder for each
// message, which together take longer than a small message's answer.
type publisher struct {
	nc     *nats.Conn
	hub    string // JetStream domain whose words are of streams of its own that take the same subjects; "": none
	inbox  string // begins the subjects of the server's words; the number of the message follows
	sub    *nats.Subscription
	words  chan *nats.Msg
	broken chan nats.Status // the connection ended: what becomes of all that is under way is not known

	mu       sync.Mutex
	newest   uint64
	away     map[uint64]*outgoing // sent, and nothing said of it yet
	newestOf map[string]*answer   // where order is kept: by key, the newest answer that is not settled
	leave    func(*answer)        // sends an answer whose turn it is
}

// wordWait is how long the server may take to say what became of a message: then it is looked for, and sent again
// where it is not stored. What a stream has that lost its leader is lost, so it is about as long as an election
// takes.
const wordWait = 5 * time.Second

// maxWords is how many words may wait to be taken. One that is lost is as one that does not come.
const maxWords = 4 * ackPending

func newPublisher(nc *nats.Conn, hub string) (*publisher, error) {
	u := &publisher{nc: nc, hub: hub, inbox: nc.NewInbox() + ".", words: make(chan *nats.Msg, maxWords),
		away: map[uint64]*outgoing{}, newestOf: map[string]*answer{}}
	var err error
	if u.sub, err = nc.ChanSubscribe(u.inbox+"*", u.words); err != nil {
		return nil, err
	}
	u.broken = nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	return u, nil
}

func (u *publisher) close() {
	u.nc.RemoveStatusListener(u.broken)
	_ = u.sub.Unsubscribe()
}

// send sends a message. Where that fails nothing will be said of it.
func (u *publisher) send(o *outgoing) {
	if o.answer != nil && !o.answer.in.lane.mine() {
		u.fail(o, errNotHeld)
		return
	}
	if o.after.created.IsZero() {
		o.after = o.sink.place()
	}
	o.ids[0] = o.id
	o.msg.Header[jetstream.MsgIDHeader] = o.ids[:]
	u.mu.Lock()
	u.newest++
	o.number, o.sent = u.newest, time.Now()
	u.away[o.number] = o
	o.msg.Reply = u.inbox + strconv.FormatUint(o.number, 10)
	u.mu.Unlock()
	if err := u.nc.PublishMsg(o.msg); err != nil {
		u.fail(o, err)
	}
}

// fail notes that nothing is known of a message that was sent, or that it was not sent at all.
func (u *publisher) fail(o *outgoing, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.away, o.number)
	o.failed(err)
}

// forget gives up parts of which it no longer matters what is said.
func (u *publisher) forget(parts []*outgoing) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, o := range parts {
		delete(u.away, o.number)
	}
}

// take takes one word of the server.
func (u *publisher) take(word *nats.Msg) {
	number, err := strconv.ParseUint(word.Subject[len(u.inbox):], 10, 64)
	if err != nil {
		return
	}
	if a := u.note(number, word); a.stored() {
		u.pass(a)
	}
}

// note takes what the server says of a message, and returns the answer whose order is kept that has it stored now.
func (u *publisher) note(number uint64, word *nats.Msg) *answer {
	seq, domain, err := readWord(word)
	if domain != "" && domain == u.hub {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.away[number]
	if o == nil {
		return nil // it was given up
	}
	delete(u.away, number)
	if err != nil {
		o.failed(err)
		return nil
	}
	o.number, o.stored = 0, true
	o.sink.stored(seq)
	return o.answer
}

// isNext tells whether no answer of its key is to be stored before this one; else it leaves when that is.
func (u *publisher) isNext(a *answer) bool {
	for _, o := range a.parts {
		o.answer = a
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.newestOf[a.in.Subject]
	u.newestOf[a.in.Subject] = a
	if before != nil {
		before.next = a
	}
	return before == nil
}

// pass sends the answer whose turn it is once this one is stored, or was given up.
func (u *publisher) pass(a *answer) {
	if !a.in.lane.inOrder() {
		return
	}
	u.mu.Lock()
	next := a.next
	if a.passed {
		next = nil
	}
	a.passed = true
	if u.newestOf[a.in.Subject] == a {
		delete(u.newestOf, a.in.Subject)
	}
	u.mu.Unlock()
	if next != nil {
		u.leave(next)
	}
}

// lost gives up all that is under way: the connection over which the server would say something has ended.
func (u *publisher) lost() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for number, o := range u.away {
		delete(u.away, number)
		o.failed(nats.ErrDisconnected)
	}
}

// catchUp takes all that has been said so far.
func (u *publisher) catchUp() {
	for {
		select {
		case word := <-u.words:
			u.take(word)
			continue
		default:
		}
		select {
		case <-u.broken:
			u.lost()
			continue
		default:
		}
		return
	}
}

// readWord is the number under which a stream has stored a message, or why it has not, and the stream's domain where
// the server has one.
func readWord(word *nats.Msg) (seq uint64, domain string, err error) {
	if len(word.Data) == 0 && word.Header.Get("Status") == "503" {
		return 0, "", jetstream.ErrNoStreamResponse
	}
	if seq, ok := plainWord(word.Data); ok {
		return seq, "", nil
	}
	var said struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.PubAck
	}
	switch err := json.Unmarshal(word.Data, &said); {
	case err != nil:
		return 0, "", fmt.Errorf("%w: %w", jetstream.ErrInvalidJSAck, err)
	case said.Error != nil:
		return 0, said.Domain, said.Error
	case said.Stream == "":
		return 0, "", jetstream.ErrInvalidJSAck
	}
	return said.Sequence, said.Domain, nil
}

// plainWord reads the usual word, {"stream":"NAME", "seq":1}; false for any other.
func plainWord(data []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 1 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return 0, false
	}
	rest = bytes.TrimLeft(rest[end+1:], ", ")
	if rest, ok = bytes.CutPrefix(rest, []byte(`"seq":`)); !ok {
		return 0, false
	}
	rest = bytes.TrimLeft(rest, " ")
	for i, c := range rest {
		if c == '}' && i > 0 && i < 20 && i == len(rest)-1 {
			return seq, true
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return 0, false
}

var errNoWord = errors.New("the server has not said in time whether it stored the message")
