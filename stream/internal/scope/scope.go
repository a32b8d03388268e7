// Package scope has what the parts of one running pipeline share: its configuration, the connection, and where they
// report to. Each part embeds a Scope and adds its own state.
package scope

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// Scope is one running pipeline as all of its parts see it. It is complete before any part runs and does
// not change after that.
type Scope struct {
	spec.Pipeline

	Conn        *nats.Conn
	JS          jetstream.JetStream
	Permissions *natsx.PermissionMonitor
	Receiver    *natsx.Receiver    // of the connection
	Streams     *natsx.StreamCache // shared by all pipelines of the engine
	Pulls       *natsx.PullLimit   // of the connection
	Domain      string             // of JetStream, on a leaf node whose models come from a hub; else ""
	Instance    string             // of this process; no other has it
	// Input is the input stream as it was when the pipeline was opened, Created its creation time. It is nil on core NATS;
	// on a hub that learns from edges it is the stream of their summaries.
	Input   jetstream.Stream
	Created time.Time
	State   *natsx.Bucket // see package statestore; nil on core NATS

	Running *stage.Stage // configured by Pipeline.Stage
	Log     *slog.Logger
	Tracer  trace.Tracer // nil: no spans
	Clock   func() time.Time
	// PollInterval is the least time between two requests about something that is quiet. It grows with the number of
	// pipelines of the process, so that the requests a second do not.
	PollInterval time.Duration

	Series     *health.Series
	Conditions *health.Conditions
	DeadShare  *health.DeadShare
	Freshness  *health.Freshness
}

// HasLimitsRetention reports whether the input stream keeps messages that were acknowledged. Otherwise training depends
// on what the hot path receives.
func (s *Scope) HasLimitsRetention() bool {
	return s.Input.CachedInfo().Config.Retention == jetstream.LimitsPolicy
}

// ConsumerName is the name of the pipeline's durable consumer.
func (s *Scope) ConsumerName() string { return needs.ConsumerName(s.Name, s.Domain) }

// GuardInput runs requests about the pipeline's input, and ends them as soon as the server refuses one whose subject
// contains one of verbs.
func (s *Scope) GuardInput(ctx context.Context, verbs []string, do func(context.Context) error) error {
	return s.Permissions.Guard(ctx, func(p natsx.Permission) bool {
		return s.Permissions.IsServerRequest(p) && (p.Action == natsx.Subscribe ||
			strings.Contains(p.Subject, "."+s.Stream) &&
				slices.ContainsFunc(verbs, func(verb string) bool { return strings.Contains(p.Subject, verb) }))
	}, do)
}

// RecentStream is a stream as one of the pipelines of the process has requested it within a second. Callers read the
// cached info only.
func (s *Scope) RecentStream(ctx context.Context, name string) (jetstream.Stream, error) {
	return s.Streams.Get(ctx, name, func(ctx context.Context) (stream jetstream.Stream, err error) {
		err = s.Permissions.Guard(ctx, func(p natsx.Permission) bool {
			return strings.HasSuffix(p.Subject, ".STREAM.INFO."+name)
		}, func(ctx context.Context) (err error) {
			stream, err = s.JS.Stream(ctx, name)
			return err
		})
		return stream, err
	})
}

// InputGone is the error of an input stream that no longer exists.
func (s *Scope) InputGone() error {
	return spec.Describe(fmt.Sprintf("the input stream %s is gone; create it again: 'embedd setup --apply'", s.Stream),
		jetstream.ErrStreamNotFound)
}
