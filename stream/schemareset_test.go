package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/registry"
)

func longer(n int) []string { return slices.Repeat([]string{"another list length"}, n) }

// resetSchema resets the schema of a pipeline as the command does.
func resetSchema(s *natstest.Server, p stream.Pipeline) admin.Schema {
	s.Helper()
	var plan *admin.SchemaReset
	var err error
	natstest.Await(s, "the server answers in the time that a verb waits", func() bool {
		plan, err = admin.PlanSchemaReset(s.Context(), s.JS, p)
		return !errors.Is(err, context.DeadlineExceeded)
	})
	if err != nil {
		s.Fatal(err)
	}
	after, err := plan.Apply(s.Context(), s.JS)
	if err != nil {
		s.Fatal(err)
	}
	return after
}

// awaitReopened waits until a replica has opened the pipeline again after a reset: it has no model of before.
func (r *replica) awaitReopened(before string) {
	r.t.Helper()
	natstest.Await(r.t, "the pipeline is opened again", func() bool { return r.live() != before })
}

// TestSchemaReset: with two replicas and a live model, both open the pipeline again, the schema of most messages after
// the reset is answered by a model of a new epoch, and messages of the old one are dead letters.
func TestSchemaReset(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	replicas := []*replica{startReplica(t, s.Connect(), p), startReplica(t, s.Connect(), p)}
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	for _, r := range replicas {
		natstest.Await(t, "both replicas have the model", func() bool { return r.live() != "" })
	}
	before := replicas[0].pipeline().Stage.Live

	after := resetSchema(s, p)
	if after.Generation != 2 || after.After != 30 || after.Contract != nil {
		t.Errorf("the reset stored %+v", after)
	}
	for _, r := range replicas {
		r.awaitReopened(before.Version)
		if r.counter("embedd_model_info") != 0 {
			t.Error("embedd_model_info has a series without a live model")
		}
	}
	publishShapes(s, p, append(append(good(1), longer(60)...), good(5)...)...)
	want := map[int]string{}
	for seq := 1; seq <= 96; seq++ {
		want[seq] = "out"
		if seq == 31 || seq > 91 {
			want[seq] = string(wire.SchemaChanged)
		}
	}
	wantOutcomes(t, awaitOutcomes(s, p, 96), want)
	for i, r := range replicas {
		natstest.Await(t, fmt.Sprintf("replica %d has the model of the new schema", i), func() bool { return r.live() != "" })
		if l := r.pipeline().Stage.Live; l.Epoch <= before.Epoch || len(l.Model.Features()) != 6 {
			t.Errorf("replica %d has epoch %d after %d, features %v", i, l.Epoch, before.Epoch, l.Model.Features())
		}
	}
	if shown, err := admin.ReadSchema(t.Context(), s.JS, p); err != nil || shown.Elements != 6 || shown.Generation != 2 {
		t.Errorf("the schema is %+v: %v", shown, err)
	}
}

// TestSchemaResetWhileCounting: messages that were counted before a reset do not count.
func TestSchemaResetWhileCounting(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(3)...)
	natstest.Await(t, "the report says what is counted", func() bool {
		report := r.pipeline().Report()
		c := report.Schema.Counting
		return c != nil && c.Messages == 3 && c.Candidates[0].Columns == "x[4], z" && c.Candidates[0].Rows == 15 &&
			strings.Contains(report.Reason, "counting schemas: x[4], z leads with 3 of 3 messages (15 of ")
	})
	resetSchema(s, p)
	natstest.Await(t, "the pipeline is opened again", func() bool {
		return r.pipeline().State == stream.StateWaitingForModel && r.pipeline().Stage.Counted == 0
	})
	publishShapes(s, p, longer(30)...)
	want := map[int]string{1: string(wire.SchemaChanged), 2: string(wire.SchemaChanged), 3: string(wire.SchemaChanged)}
	for seq := 4; seq <= 33; seq++ {
		want[seq] = "out"
	}
	wantOutcomes(t, awaitOutcomes(s, p, 33), want)
}

// TestRestartAfterReset: a reset while no replica runs, and a restart before the first model, lose and double nothing.
func TestRestartAfterReset(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	resetSchema(s, p)
	r = startReplica(t, s.Connect(), p)
	if v := r.live(); v != "" {
		t.Errorf("model %s is live after the reset", v)
	}
	publishShapes(s, p, longer(2)...)
	natstest.Await(t, "messages are counted", func() bool { return r.pipeline().Stage.Counted == 2 })
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	r = startReplica(t, s.Connect(), p)
	natstest.Await(t, "messages are counted again", func() bool { return r.pipeline().Stage.Counted == 2 })
	publishShapes(s, p, longer(30)...)
	want := map[int]string{}
	for seq := 1; seq <= 62; seq++ {
		want[seq] = "out"
	}
	wantOutcomes(t, awaitOutcomes(s, p, 62), want)
}

// TestSchemaResetToTheSame: a reset whose winner is the schema of before gives a model of a new epoch on all replicas.
func TestSchemaResetToTheSame(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	replicas := []*replica{startReplica(t, s.Connect(), p), startReplica(t, s.Connect(), p)}
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	for _, r := range replicas {
		natstest.Await(t, "both replicas have the model", func() bool { return r.live() != "" })
	}
	before := replicas[0].pipeline().Stage.Live
	resetSchema(s, p)
	for _, r := range replicas {
		r.awaitReopened(before.Version)
	}
	publishShapes(s, p, good(40)...)
	awaitOutcomes(s, p, 70)
	for i, r := range replicas {
		natstest.Await(t, fmt.Sprintf("replica %d has a new model", i), func() bool {
			l := r.pipeline().Stage.Live
			return l != nil && l.Epoch > before.Epoch
		})
	}
}

// TestFixedSchemaReset: schema.features with sizes fixes the schema outright.
func TestFixedSchemaReset(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	before := r.live()
	p.Stage.Spec.Sizes = map[string]int{"x": 5, "z": 1}
	if after := resetSchema(s, p); after.Elements != 6 {
		t.Errorf("the reset stored %+v", after)
	}
	r.awaitReopened(before)
	publishShapes(s, p, append(good(5), longer(30)...)...)
	want := map[int]string{}
	for seq := 1; seq <= 65; seq++ {
		want[seq] = "out"
		if seq > 30 && seq <= 35 {
			want[seq] = string(wire.SchemaChanged)
		}
	}
	wantOutcomes(t, awaitOutcomes(s, p, 65), want)
}

// TestResetRefused: a pinned model, a model file and models of a hub keep their schema.
func TestResetRefused(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	store, err := registry.JetStream(t.Context(), s.JS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.New(store, p.Name, registry.Options{}).Pin(t.Context(),
		registry.Request{Version: r.live()}); err != nil {
		t.Fatal(err)
	}
	file, hub, edges := p, p, p
	file.Stage.Fixed = fixedModel(t)
	file.Stage.Spec.Features = file.Stage.Fixed.Features() // those of the configuration must be the model's
	hub.Models.Hub = "hub"
	edges.Edges, edges.Stage.Training.Block = []string{"berlin"}, 100
	core := p
	core.Stream = ""
	for _, c := range []struct {
		p    stream.Pipeline
		is   error
		says string
	}{{p, admin.ErrSchemaPinned, "embedd model unpin p"}, {file, admin.ErrSchemaElsewhere, "model.file"},
		{hub, admin.ErrSchemaElsewhere, "hub"}, {edges, admin.ErrSchemaElsewhere, "each of them"},
		{core, admin.ErrSchemaNotStored, "model.store"}} {
		_, err := admin.PlanSchemaReset(t.Context(), s.JS, c.p)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q and %v", err, c.says, c.is)
		}
	}
	if shown, err := admin.ReadSchema(t.Context(), s.JS,
		file); err != nil || shown.Elements != 4 || shown.Generation != 0 {
		t.Errorf("the schema of a model file is %+v: %v", shown, err)
	}
}

// TestSchemaOverwritten: a schema that is overwritten or deleted as soon as it is stored, before any process has read
// it, is stored again, after a reset too.
func TestSchemaOverwritten(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	foreign := func(nc *nats.Conn, key string) error { return nc.Publish(key, []byte("1")) }
	for _, c := range []struct {
		name    string
		attack  func(nc *nats.Conn, key string) error
		isReset bool
	}{{"foreign", foreign, false}, {"reset", foreign, true}, {"deleted", func(nc *nats.Conn, key string) error {
		return nc.PublishMsg(&nats.Msg{Subject: key, Header: nats.Header{"KV-Operation": {"DEL"}}})
	}, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := s.For(t)
			p := contractPipeline(c.name)
			makeStreams(s, p)
			nc, key := s.Connect(), "$KV.EMBEDD_STATE."+c.name+".contract"
			var writes atomic.Int32 // of the trainer
			if _, err := nc.Subscribe(key, func(msg *nats.Msg) {
				if !strings.Contains(string(msg.Data), `"contract"`) || writes.Add(1) > 1 {
					return
				}
				if err := c.attack(nc, key); err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			s.AwaitSubscriber(key)
			r, generation := startReplica(t, s.Connect(), p), uint64(1)
			if c.isReset {
				generation = 2
				resetSchema(s, p)
				natstest.Await(t, "the pipeline is opened again", func() bool {
					return r.Log.has("level=WARN", "the schema was reset") && r.pipeline().State == stream.StateWaitingForModel
				})
			}
			publishShapes(s, p, good(30)...)
			var fixed schemaOf
			natstest.Await(t, "the schema is stored again", func() bool {
				bucket, err := s.JS.Stream(t.Context(), "KV_EMBEDD_STATE")
				if err != nil || writes.Load() < 2 {
					return false
				}
				last, err := bucket.GetLastMsgForSubject(t.Context(), key)
				fixed = schemaOf{}
				return err == nil && json.Unmarshal(last.Data, &fixed) == nil && fixed.Contract != nil
			})
			if fixed.Generation != generation {
				t.Errorf("the schema is of generation %d", fixed.Generation)
			}
		})
	}
}

// schemaOf is what is stored of a schema, as far as the tests read it.
type schemaOf struct {
	Generation uint64
	Contract   json.RawMessage
}

// TestUnreadableSchema: with a record of a newer version the engine does not start, and says what to do; a reset
// replaces it.
func TestUnreadableSchema(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	kv, err := s.JS.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "EMBEDD_STATE"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Create(t.Context(), "p.contract", []byte(`{"version":9,"generation":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := runPipeline(t, s.Connect(), p); err == nil || !strings.Contains(err.Error(), "upgrade embedd") {
		t.Errorf("the engine runs with a schema of a newer version: %v", err)
	}
	if _, err := admin.ReadSchema(t.Context(), s.JS, p); err == nil || !strings.Contains(err.Error(), "upgrade embedd") {
		t.Errorf("the schema is read: %v", err)
	}
	resetSchema(s, p)
	startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(30)...)
	wantOutcomes(t, awaitOutcomes(s, p, 30), map[int]string{1: "out", 30: "out"})
}

// runPipeline runs an engine that is expected not to start, and returns its error.
func runPipeline(t *testing.T, nc *nats.Conn, p stream.Pipeline) error {
	t.Helper()
	e, err := stream.New(stream.Options{Conn: nc, Pipelines: []stream.Pipeline{p}})
	if err != nil {
		t.Fatal(err)
	}
	return e.Run(t.Context())
}

// TestStateDenied: without the permission on the state bucket the engine and the verbs say which one is missing.
func TestStateDenied(t *testing.T) {
	t.Parallel()
	s := natstest.New(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "pw"}, {Username: "least", Password: "pw",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"},
				Deny: []string{"$JS.API.STREAM.*.KV_EMBEDD_STATE", "$KV.EMBEDD_STATE.>"}}}}}
		o.NoAuthUser = "admin"
	})
	p := contractPipeline("p")
	makeStreams(s, p)
	nc := s.Connect(nats.UserInfo("least", "pw"))
	err := runPipeline(t, nc, p)
	if err == nil || !errors.Is(err, stream.ErrDenied) || !strings.Contains(err.Error(), "KV_EMBEDD_STATE") ||
		!strings.Contains(err.Error(), "setup --apply") {
		t.Errorf("the engine says %v", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = admin.PlanSchemaReset(t.Context(), js, p); err == nil || !strings.Contains(err.Error(),
		"KV_EMBEDD_STATE") {
		t.Errorf("the plan of a reset says %v", err)
	}
}

// TestModelBeforeSchema: the live model of an older version, which stored no schema, gives its features, and the schema
// is stored.
func TestModelBeforeSchema(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	version := r.live()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	kv, err := s.JS.KeyValue(t.Context(), "EMBEDD_STATE")
	if err == nil {
		err = kv.Purge(t.Context(), "p.contract")
	}
	if err != nil {
		t.Fatal(err)
	}
	publishShapes(s, p, append(longer(3), good(3)...)...)
	r = startReplica(t, s.Connect(), p)
	want := map[int]string{31: "schema_changed", 33: "schema_changed", 34: "out", 36: "out"}
	wantOutcomes(t, awaitOutcomes(s, p, 36), want)
	if r.live() != version {
		t.Errorf("live is %s, want %s", r.live(), version)
	}
	if shown, err := admin.ReadSchema(t.Context(), s.JS, p); err != nil || shown.Elements != 5 {
		t.Errorf("the schema is %+v: %v", shown, err)
	}
}

// schemaFinding is what doctor finds about the schema of a pipeline: nothing where a request takes too long.
func schemaFinding(s *natstest.Server, p stream.Pipeline) (f admin.Finding) {
	s.Helper()
	natstest.Await(s, "doctor looks at the schema", func() bool {
		found, err := admin.Diagnose(s.Context(), admin.Options{Conn: s.JS.Conn(), Pipelines: []stream.Pipeline{p}})
		i := slices.IndexFunc(found, func(f admin.Finding) bool { return f.Check == "schema" })
		if err == nil && i >= 0 {
			f = found[i]
		}
		return f.Check != ""
	})
	return f
}

// TestDoctorShowsSchemas: doctor counts the schemas of the messages that wait, and reports a majority that does not
// fit.
func TestDoctorShowsSchemas(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	finding := func() admin.Finding { return schemaFinding(s, p) }
	r := startReplica(t, s.Connect(), p)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	if f := finding(); f.Level != admin.LevelOK || !strings.Contains(f.Text, "the schema is x[4], z") {
		t.Errorf("all are answered: %+v", f)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	publishShapes(s, p, append(good(2), longer(5)...)...)
	if f := finding(); f.Level != admin.LevelFault || f.Command != "embedd schema reset p" ||
		!strings.Contains(f.Text, "5 with x[5], z; 2 with x[4], z: 5 do not fit") {
		t.Errorf("most do not fit: %+v", f)
	}
	publishShapes(s, p, good(5)...)
	if f := finding(); f.Level != admin.LevelNote {
		t.Errorf("some do not fit: %+v", f)
	}
}
