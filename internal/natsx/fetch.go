package natsx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MaxHeaderBytes is how much larger than its payload a stored message may be: subject, reply and headers.
	MaxHeaderBytes = 64 << 10

	// MaxFetchMessages is the maximum number of messages of one pull request. It sizes the client's channels, so it is
	// far below what a byte limit alone would allow.
	MaxFetchMessages = 1024

	// MaxFetchBytes is the maximum number of bytes of one pull request, however much memory is free. A server sends as
	// fast as its disk reads, and disconnects a client as a slow consumer when more than its max_pending (64 MiB by
	// default) waits to be written. All readers of a pipeline share one connection.
	MaxFetchBytes = 8 << 20

	// PullExpiry is when a pull request expires. Messages that arrive before are handed on at once.
	PullExpiry = 4 * time.Second

	// heartbeat is how often the server reports that it has a pull request, at most half of PullExpiry. Without one for
	// maxSilence the request is lost, as after a reconnect.
	heartbeat  = PullExpiry / 2
	maxSilence = 3 * time.Second

	// fetchWait bounds the time without a sign of life of the server.
	fetchWait = 5 * time.Second

	// releaseWait is how long the server may take to confirm the end of a pull request.
	releaseWait = time.Second
)

// ErrGap reports that consumer sequences are not consecutive: a message was lost between server and client. Without
// acknowledgements nothing redelivers it, so the reader has to start again behind the last message it has.
var ErrGap = errors.New("a message was lost in transit")

// pullRequest is the JetStream API's request for messages of a consumer.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// Pull sends one pull request for at most maxMessages and maxBytes (0: no limit), calls handle with each message in
// order, and returns the number of messages.
//
// The client's own Fetch recognises status messages of the server (no messages, heartbeat, consumer deleted) by a
// header that any publisher can set. Pull recognises a message of the stream by its reply subject, which only the
// server sets.
func Pull(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, maxMessages, maxBytes int,
	handle func(*Message)) (n int, err error) {
	p, err := openPull(js, c, maxMessages, maxBytes)
	if err != nil {
		return 0, err
	}
	ended, isEarly := false, false // isEarly: the status that ends the request has arrived before its last messages
	defer func() { p.close(ended) }()
	for bytes := 0; n < maxMessages && (maxBytes == 0 || bytes != maxBytes); { // no status comes then
		msg := p.next(ctx)
		switch {
		case ctx.Err() != nil:
			p.release(msg)
			return n, ctx.Err()
		case msg == nil && isEarly:
			return n, ErrGap
		case msg == nil:
			return n, jetstream.ErrNoHeartbeat
		case isStored(msg):
			n, bytes = n+1, bytes+msg.Size()
			handle(&Message{msg: msg, nc: p.nc})
			continue
		}
		if ended, err = readStatus(msg); !ended {
			continue
		}
		delivered, isCounted := deliveredBefore(msg, maxMessages)
		if isEarly = err == nil && isCounted && n < delivered; !isEarly {
			return n, err
		}
		ended, maxMessages = false, delivered
	}
	ended = true
	return n, nil
}

// pull is a pull request that was sent.
type pull struct {
	nc          *nats.Conn
	consumer    jetstream.Consumer
	sub         *nats.Subscription
	arrived     chan *nats.Msg // messages of the stream, and the server's status messages
	reconnected chan nats.Status
	silence     *time.Timer // since the last of them
}

func openPull(js jetstream.JetStream, c jetstream.Consumer, maxMessages, maxBytes int) (*pull, error) {
	request, err := json.Marshal(pullRequest{Batch: maxMessages, MaxBytes: maxBytes, Expires: PullExpiry,
		Heartbeat: heartbeat})
	if err != nil {
		return nil, err
	}
	p := &pull{nc: js.Conn(), consumer: c, silence: time.NewTimer(maxSilence),
		arrived: make(chan *nats.Msg, 2*maxMessages+16)} // with room for heartbeats: a full channel is a slow consumer
	if p.sub, err = p.nc.ChanSubscribe(p.nc.NewInbox(), p.arrived); err != nil {
		return nil, err
	}
	p.reconnected = p.nc.StatusChanged(nats.CONNECTED)
	info := c.CachedInfo()
	if err := p.nc.PublishRequest(PullSubject(js, info.Stream, info.Name), p.sub.Subject, request); err != nil {
		p.close(false)
		return nil, err
	}
	return p, nil
}

// next returns the next message; nil: the request is lost, or ctx is done.
func (p *pull) next(ctx context.Context) *nats.Msg {
	select {
	case msg := <-p.arrived:
		return msg
	default:
	}
	p.silence.Reset(maxSilence)
	select {
	case msg := <-p.arrived:
		return msg
	case <-p.silence.C:
	case <-p.reconnected:
	case <-ctx.Done():
	}
	return nil
}

// close ends the request. If the server has not ended it, what was sent for it is nak'd, so that another client gets
// these messages at once and not only after the ack wait.
func (p *pull) close(ended bool) {
	p.silence.Stop()
	p.nc.RemoveStatusListener(p.reconnected)
	if ended {
		_ = p.sub.Unsubscribe()
		return
	}
	if err := p.sub.Drain(); err != nil { // what the server sends before it processes this still arrives
		return
	}
	_ = p.nc.FlushTimeout(releaseWait)
	for len(p.arrived) > 0 {
		p.release(<-p.arrived)
	}
}

// release sends a negative acknowledgement for a message of the stream, if the consumer has acknowledgements.
func (p *pull) release(msg *nats.Msg) {
	if isStored(msg) && p.consumer.CachedInfo().Config.AckPolicy != jetstream.AckNonePolicy {
		_ = (&Message{msg: msg, nc: p.nc}).Nak() // if it is lost, the message is redelivered after the ack wait
	}
}

// isStored reports whether a message is one of the stream, and not nil or a status message.
func isStored(msg *nats.Msg) bool { return msg != nil && strings.HasPrefix(msg.Reply, AckPrefix) }

// PullSubject is the subject of pull requests to a consumer.
func PullSubject(js jetstream.JetStream, stream, consumer string) string {
	return APIPrefix(js) + "CONSUMER.MSG.NEXT." + stream + "." + consumer
}

// APIPrefix begins the subjects of JetStream API requests, with its final dot.
func APIPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return DomainPrefix(o.Domain) + "."
	}
	return jetstream.DefaultAPIPrefix
}

// DomainPrefix is the API prefix of a JetStream domain, without a final dot.
func DomainPrefix(domain string) string { return "$JS." + domain + ".API" }

// readStatus reads a status message: whether it ends the pull request, and the error if it reports one.
func readStatus(msg *nats.Msg) (ended bool, err error) {
	description := msg.Header.Get("Description")
	switch status := msg.Header.Get("Status"); status {
	case "100": // heartbeat
		return false, nil
	case "404", "408": // no messages; expired
		return true, nil
	case "503":
		return true, nats.ErrNoResponders
	case "409":
		switch text := strings.ToLower(description); {
		case strings.Contains(text, "maxbytes"), strings.Contains(text, "batch completed"):
			return true, nil
		case strings.Contains(text, "consumer deleted"):
			return true, jetstream.ErrConsumerDeleted
		}
		return true, errors.New("the server ended a pull request: " + description)
	default:
		return true, fmt.Errorf("the server rejected a pull request: %s %s", status, description)
	}
}

// deliveredBefore is how many messages of a pull request a server has delivered, as the status that ends the request
// says. From 2.11 on a consumer with replicas holds messages back until most of the servers know that they are
// delivered, and the status of a request that has reached its limit overtakes them.
func deliveredBefore(status *nats.Msg, requested int) (n int, isCounted bool) {
	pending, err := strconv.Atoi(status.Header.Get("Nats-Pending-Messages"))
	return requested - pending, err == nil && pending >= 0
}
