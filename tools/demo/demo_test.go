package demo

import (
	"context"
	"errors"
	"testing"
)

// TestHasFailed: an engine that was stopped is not a failure.
func TestHasFailed(t *testing.T) {
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	if err := hasFailed(ctx, ended); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	cancel()
	ended <- nil
	if err := hasFailed(ctx, ended); err != context.Canceled || len(ended) != 1 {
		t.Errorf("stopped: %v", err)
	}
	<-ended
	ended <- errors.New("no disk")
	if err := hasFailed(t.Context(), ended); err == nil || err.Error() != "the engine stopped: no disk" {
		t.Errorf("failed: %v", err)
	}
}
