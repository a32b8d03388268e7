package natsx

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/testsize"
)

func TestMain(m *testing.M) {
	testsize.AtOnce(8)
	KeyPoll, HedgeWait = time.Second, natstest.Timeout
	os.Exit(m.Run())
}

// TestCanSendHeader compares with what the client sends: it returns no size for headers that it refuses.
func TestCanSendHeader(t *testing.T) {
	for b := range 256 {
		name := "a" + string([]byte{byte(b)})
		if sends := (&nats.Msg{Header: nats.Header{name: {"v"}}}).Size() > 0; CanSendHeader(name) != sends {
			t.Errorf("%q: %t, and the client says %t", name, !sends, sends)
		}
	}
	if CanSendHeader("") {
		t.Error("a header without a name can be sent")
	}
}
