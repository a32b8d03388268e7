package admin

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// TestMessagesThatCannotBeRead: the report says that the messages of an input could not be read, and why.
func TestMessagesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in"})
	if _, err := s.JS.Publish(t.Context(), "in.a", []byte("a row")); err != nil {
		t.Fatal(err)
	}
	input, err := s.JS.Stream(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteStream(t.Context(), "in"); err != nil { // it is gone before it is read
		t.Fatal(err)
	}
	d := &diagnosis{js: s.JS, permissions: natsx.MonitorPermissions(s.JS.Conn()), reported: map[Finding]bool{}}
	defer d.permissions.Stop()
	p := &spec.Pipeline{Name: "p", Stream: "in", Subject: "in.a"}
	(&traffic{diagnosis: d, pipeline: p, input: input}).check(t.Context())
	if len(d.findings) != 1 || d.findings[0].Level != LevelNote ||
		!strings.Contains(d.findings[0].Text, "cannot be read") {
		t.Errorf("findings: %+v", d.findings)
	}
}

// TestDoctorSeesTheCluster: the versions of all servers are reported, not only that of the connected one, and one that
// cannot be reached is named. Consumers of a bucket are counted.
func TestDoctorSeesTheCluster(t *testing.T) {
	t.Parallel()
	all := natstest.NewCluster(t)
	s := all[0]
	s.Stream(jetstream.StreamConfig{Name: "in", Replicas: 3})
	s.Stream(jetstream.StreamConfig{Name: "out", Replicas: 3})
	if _, err := statestore.Open(t.Context(), s.JS, 3); err != nil {
		t.Fatal(err)
	}
	bucket, err := s.JS.Stream(t.Context(), statestore.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other"}); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(all[0].URL()+","+all[1].URL()+","+all[2].URL(), nats.DontRandomize(),
		nats.Timeout(natstest.Timeout)) // a server that is not named is forgotten when it stops
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	p := spec.Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "out.dead",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}}}}
	has := func(check string, level Level, words ...string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Timeout)
		defer cancel()
		found, err := Diagnose(ctx, Options{Conn: nc, Pipelines: []spec.Pipeline{p}})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(found, func(f Finding) bool {
			return f.Check == check && f.Level == level && !slices.ContainsFunc(words, func(w string) bool {
				return !strings.Contains(f.Text, w)
			})
		})
	}
	version := nc.ConnectedServerVersion()
	natstest.Await(t, "all versions are reported", func() bool {
		return has("server", LevelOK, version+", "+version+", "+version)
	})
	natstest.Await(t, "the consumer of a bucket is reported", func() bool {
		return has("buckets", LevelOK, statestore.Stream, "1 consumers")
	})
	stopped := strings.TrimPrefix(all[2].URL(), "nats://")
	all[2].Stop()
	natstest.Await(t, "a server that is down is named", func() bool {
		return has("server", LevelNote, stopped, "cannot be reached")
	})
}
