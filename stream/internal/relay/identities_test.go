package relay

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/embedd/embedd/stream/internal/statestore"
)

// TestStoppedIdentities: a canceled context, with which a pipeline stops, is not logged as a fault of the stored key.
// Another error is.
func TestStoppedIdentities(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	state, err := statestore.Open(t.Context(), s.JS, 1)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	i := newIdentities()
	i.State, i.Log = state, slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.followedKey().Read(ctx); err == nil || log.Len() > 0 {
		t.Errorf("the error is %v, the log %q", err, &log)
	}
	s.JS.Conn().Close()
	if _, err := i.followedKey().Read(t.Context()); err == nil || !strings.Contains(log.String(), "cannot be read") {
		t.Errorf("without a connection the error is %v, the log %q", err, &log)
	}
}
