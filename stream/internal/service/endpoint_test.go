package service

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/scope"
)

// TestWaitingRequestsAreBounded: the headers of requests that wait count as their bodies do.
func TestWaitingRequestsAreBounded(t *testing.T) {
	s := &Service{pipeline: &operations.Pipeline{Scope: &scope.Scope{Log: slog.New(slog.DiscardHandler)}}}
	e := &endpoint{maxBytes: 1000, isRunning: true} // by no goroutine: all requests wait
	for range 9 {
		s.receive(e, &nats.Msg{Subject: "s", Reply: "r", Header: nats.Header{"A": {string(make([]byte, 300))}}})
	}
	if n := len(e.pending); n != 3 || e.bytes > e.maxBytes {
		t.Errorf("%d requests of 300 bytes wait, the limit is %d bytes", n, e.maxBytes)
	}
}
