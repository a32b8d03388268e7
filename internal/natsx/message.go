package natsx

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// AckPrefix begins the subjects on which messages of streams are acknowledged; AckSubjects is all of them.
const (
	AckPrefix   = "$JS.ACK."
	AckSubjects = AckPrefix + ">"
)

var ackBody = []byte("+ACK") // must not be changed

// Message is a message that a pull consumer delivered.
type Message struct {
	msg  *nats.Msg
	nc   *nats.Conn
	meta *nats.MsgMetadata // nil: it is in the reply subject
}

func (m *Message) Subject() string      { return m.msg.Subject }
func (m *Message) Headers() nats.Header { return m.msg.Header }
func (m *Message) Data() []byte         { return m.msg.Data }

// CanSendHeader reports whether the client sends a header of this name. It refuses names that servers and other clients
// accept, such as "a/b", and then sends nothing of the message.
func CanSendHeader(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte(`"()/,:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// Metadata is the position of the message in its stream and its consumer.
func (m *Message) Metadata() (*nats.MsgMetadata, error) {
	if m.meta != nil {
		return m.meta, nil
	}
	return m.msg.Metadata()
}

func (m *Message) Ack() error { return m.nc.Publish(m.msg.Reply, ackBody) }
func (m *Message) Nak() error { return m.nc.Publish(m.msg.Reply, []byte("-NAK")) }
func (m *Message) NakWithDelay(delay time.Duration) error {
	return m.nc.Publish(m.msg.Reply, fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// DoubleAck acknowledges the message and waits until the server confirms the acknowledgement.
func (m *Message) DoubleAck(ctx context.Context) error {
	_, err := m.nc.RequestWithContext(ctx, m.msg.Reply, ackBody)
	return err
}

func (m *Message) InProgress() error { return m.nc.Publish(m.msg.Reply, []byte("+WPI")) }
