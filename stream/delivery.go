package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivery is a message of a stream as a consumer brings it.
type delivery struct {
	msg *nats.Msg
	nc  *nats.Conn
}

func (d *delivery) Subject() string                      { return d.msg.Subject }
func (d *delivery) Headers() nats.Header                 { return d.msg.Header }
func (d *delivery) Data() []byte                         { return d.msg.Data }
func (d *delivery) Metadata() (*nats.MsgMetadata, error) { return d.msg.Metadata() }

func (d *delivery) Ack() error { return d.nc.Publish(d.msg.Reply, []byte("+ACK")) }
func (d *delivery) Nak() error { return d.nc.Publish(d.msg.Reply, []byte("-NAK")) }
func (d *delivery) NakWithDelay(delay time.Duration) error {
	return d.nc.Publish(d.msg.Reply, fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// DoubleAck acknowledges and waits until the server says that it has it.
func (d *delivery) DoubleAck(ctx context.Context) error {
	_, err := d.nc.RequestWithContext(ctx, d.msg.Reply, []byte("+ACK"))
	return err
}

func (d *delivery) InProgress() error { return d.nc.Publish(d.msg.Reply, []byte("+WPI")) }

// pullRequest asks a consumer for messages, in the form of the JetStream API.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// pull asks for so many messages once, of at most maxBytes where that is not 0, and hands each to take.
//
// The client's own Fetch tells the server's messages (no more, a heartbeat, the consumer is gone) from those of the
// stream by a header that anybody can send. Here it is the reply: a message of a stream has one to acknowledge it by,
// which only the server can give it.
func pull(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, take func(*delivery), most, maxBytes int) (
	n int, err error) {
	request, err := json.Marshal(pullRequest{Batch: most, MaxBytes: maxBytes, Expires: fetchWait * 9 / 10,
		Heartbeat: fetchWait / 5})
	if err != nil {
		return 0, err
	}
	nc, inbox := js.Conn(), js.Conn().NewInbox()
	arrived := make(chan *nats.Msg, 2*most+16) // heartbeats too: a full channel would be a slow consumer
	sub, err := nc.ChanSubscribe(inbox, arrived)
	if err != nil {
		return 0, err
	}
	over := false
	defer func() {
		if over {
			_ = sub.Unsubscribe()
		} else {
			giveBack(sub, arrived, nc, c)
		}
	}()
	if err := nc.PublishRequest(nextSubject(js, c.CachedInfo()), inbox, request); err != nil {
		return 0, err
	}
	silence := time.NewTimer(fetchWait * 2 / 5)
	defer silence.Stop()
	for n < most {
		var msg *nats.Msg
		select {
		case msg = <-arrived:
		default:
			select {
			case msg = <-arrived:
			case <-silence.C:
				return n, jetstream.ErrNoHeartbeat
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			if msg != nil {
				giveBackOne(msg, nc, c)
			}
			return n, ctx.Err()
		}
		silence.Reset(fetchWait * 2 / 5)
		if strings.HasPrefix(msg.Reply, ackPrefix) {
			n++
			take(&delivery{msg, nc})
			continue
		}
		if over, err = control(msg); over {
			return n, err
		}
	}
	over = true
	return n, nil
}

// giveBack ends a pull before its time. What the server had sent for it goes to who asks next, at once and not only when
// its acknowledgement is missing.
func giveBack(sub *nats.Subscription, arrived <-chan *nats.Msg, nc *nats.Conn, c jetstream.Consumer) {
	if err := sub.Drain(); err != nil { // what was sent before the server has this still arrives
		return
	}
	_ = nc.FlushTimeout(giveBackWait)
	for {
		select {
		case msg := <-arrived:
			giveBackOne(msg, nc, c)
		default:
			return
		}
	}
}

func giveBackOne(msg *nats.Msg, nc *nats.Conn, c jetstream.Consumer) {
	if strings.HasPrefix(msg.Reply, ackPrefix) && c.CachedInfo().Config.AckPolicy != jetstream.AckNonePolicy {
		_ = (&delivery{msg, nc}).Nak() // where that does not arrive either it is redelivered in time
	}
}

// giveBackWait is how long a server that answers may take to end a pull.
const giveBackWait = time.Second

// ackPrefix is how the subjects begin by which messages of streams are acknowledged.
const ackPrefix = "$JS.ACK."

// nextSubject is where a consumer is asked for messages.
func nextSubject(js jetstream.JetStream, c *jetstream.ConsumerInfo) string {
	prefix := jetstream.DefaultAPIPrefix
	switch o := js.Options(); {
	case o.APIPrefix != "":
		prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		prefix = "$JS." + o.Domain + ".API."
	}
	return prefix + "CONSUMER.MSG.NEXT." + c.Stream + "." + c.Name
}

// control reads what the server says of a pull: whether it is over, and why where that is an error.
func control(msg *nats.Msg) (over bool, err error) {
	about := msg.Header.Get("Description")
	switch status := msg.Header.Get("Status"); status {
	case "100": // a heartbeat
		return false, nil
	case "404", "408": // nothing there; the time is over
		return true, nil
	case "503":
		return true, nats.ErrNoResponders
	case "409":
		switch text := strings.ToLower(about); {
		case strings.Contains(text, "maxbytes"), strings.Contains(text, "batch completed"):
			return true, nil
		case strings.Contains(text, "consumer deleted"):
			return true, jetstream.ErrConsumerDeleted
		}
		return true, errors.New("the server ended a pull: " + about)
	default:
		return true, fmt.Errorf("the server refuses a pull: %s %s", status, about)
	}
}
