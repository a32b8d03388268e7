package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errDuplicate is the error of a part that was not stored, because the stream has a message with its identity.
var errDuplicate = errors.New("the stream has a message with this identity")

// parsePubAck returns where a stream stored a message, or has another one with its identity, or why it did not store
// it. The stream's JetStream domain is set if it has one.
func parsePubAck(msg *nats.Msg) (jetstream.PubAck, error) {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return jetstream.PubAck{}, jetstream.ErrNoStreamResponse
	}
	if seq, ok := parsePlainPubAck(msg.Data); ok {
		return jetstream.PubAck{Sequence: seq}, nil
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.PubAck
	}
	switch err := json.Unmarshal(msg.Data, &ack); {
	case err != nil:
		return ack.PubAck, fmt.Errorf("%w: %w", jetstream.ErrInvalidJSAck, err)
	case ack.Error != nil:
		return ack.PubAck, ack.Error
	case ack.Stream == "":
		return ack.PubAck, jetstream.ErrInvalidJSAck
	}
	return ack.PubAck, nil
}

// parsePlainPubAck parses the usual form, {"stream":"NAME", "seq":1}, without a JSON decoder. It returns false for any
// other.
func parsePlainPubAck(data []byte) (seq uint64, ok bool) {
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

// errCodeHeaderTooLarge is the server's code for headers over its limit; the client has no name for it.
const errCodeHeaderTooLarge jetstream.ErrorCode = 10097

// finalError returns an error for a message that the server will never store, nil if another attempt may succeed.
func finalError(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("the message is over the server's max_payload: %w", err)
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum ||
		api.ErrorCode == errCodeHeaderTooLarge):
		return fmt.Errorf("the message is over the stream's limit: %w", err)
	}
	return nil
}
