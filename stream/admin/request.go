package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

const requestTimeout = 5 * time.Second

// ask sends requests to the server within requestTimeout, and ends them as soon as the server denies one.
func ask[T any](ctx context.Context, p *natsx.PermissionMonitor, requests func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return natsx.Guarded(ctx, p, requests)
}

// guard is ask with an error that names what could not be done, as in "reading the schema", the pipeline, and the
// permission that is denied. js may be nil for a pipeline on core NATS.
func guard[T any](ctx context.Context, js jetstream.JetStream, what string, p *spec.Pipeline,
	requests func(context.Context) (T, error)) (answer T, err error) {
	switch {
	case js == nil && p.Stream != "":
		err = spec.ErrNoJetStream
	case js == nil:
		answer, err = requests(ctx)
	default:
		permissions := natsx.MonitorPermissions(js.Conn())
		defer permissions.Stop()
		answer, err = ask(ctx, permissions, requests)
	}
	if err != nil {
		err = fmt.Errorf("%s of pipeline %s: %w", what, p.Name, natsx.ExplainAPIError(err))
	}
	return answer, err
}
