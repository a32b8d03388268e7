package stream_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/dlq"
)

var writeGolden = flag.Bool("write-golden", false, "write testdata/golden.txt from what this tree stores and sends")

const goldenFile = "testdata/golden.txt"

// TestGolden holds everything that is stored or sent to testdata/golden.txt: subjects, headers, bytes of outputs,
// streams, buckets, consumers, keys, forms of values, services, metrics and permissions. Where a change is meant,
// -write-golden rewrites the file, and CHANGELOG.md lists the difference.
func TestGolden(t *testing.T) {
	t.Parallel()
	variants := map[string]func(*golden){
		"learning":   (*golden).learning,
		"fixed":      (*golden).fixed,
		"partitions": (*golden).partitions,
		"blocks":     (*golden).blocks,
		"labels":     (*golden).labels,
		"stale":      (*golden).stale,
		"core":       (*golden).core,
		"directory":  (*golden).directory,
		"edge":       (*golden).edge,
	}
	var mu sync.Mutex
	all := map[string]bool{}
	t.Run("variants", func(t *testing.T) {
		for name, run := range variants {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := &golden{T: t, variant: name, facts: map[string]bool{}}
				g.server = natstest.New(t)
				run(g)
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(all, g.facts)
			})
		}
	})
	if t.Failed() {
		return
	}
	have := slices.Sorted(maps.Keys(all))
	if *writeGolden {
		if err := os.MkdirAll(filepath.Dir(goldenFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenFile, []byte(strings.Join(have, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		want[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range slices.Sorted(maps.Keys(want)) {
		if !all[line] {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range have {
		if !want[line] {
			t.Errorf("new:  %s", line)
		}
	}
}

// golden collects the facts of one variant.
type golden struct {
	*testing.T
	variant string
	server  *natstest.Server
	facts   map[string]bool
}

func (g *golden) note(kind, format string, args ...any) {
	g.facts[fmt.Sprintf("%s | %s | %s", g.variant, kind, fmt.Sprintf(format, args...))] = true
}

// goldenPipeline reads the stream that setup makes. Its leases do not expire on a busy machine.
func goldenPipeline() stream.Pipeline {
	p := basicPipeline()
	p.Stream, p.Lease = "IN", time.Minute
	return p
}

// learns reports whether the variant trains its model: the rows that a fit holds out depend on the creation time of the
// stream, so the numbers differ from run to run.
func (g *golden) learns() bool {
	return !slices.Contains([]string{"fixed", "partitions", "core"}, g.variant)
}

// The variants.

func (g *golden) learning() {
	p := goldenPipeline()
	p.Stage.Spec.Key = "key"
	p.Stage.Until = plugin.UntilPCA
	g.setup(p)
	r := startReplica(g, g.server.Connect(), p)
	g.request("no-model", "transform", drawRows(1, 1, 4).message(g))
	g.request("no-model", "model show", nil)
	unlabelled := drawRows(1, 100, 4)
	for i := range unlabelled.label {
		unlabelled.label[i] = null
	}
	g.publish("in.x", nil, unlabelled.message(g))
	natstest.Await(g, "the bootstrap model is live", func() bool { return g.server.Count("OUT") == 1 })
	for i := range 9 {
		g.publish("in.x", nil, drawRows(uint64(i+2), 12, 4).message(g))
	}
	natstest.Await(g, "a learned model is live", func() bool {
		l := r.pipeline().Stage.Live
		return l != nil && !l.Bootstrap && r.pipeline().Stage.Backlog == 0 && !r.pipeline().Stage.Fitting
	})
	natstest.Await(g, "the messages are answered", func() bool { return g.server.Count("OUT") == 10 })
	odd := drawRows(20, 3, 4)
	g.publish("in.x", nats.Header{"X-Custom": {"one", "two"}, "Traceparent": {"00-1"}, "Nats-Expected-Stream": {"IN"}},
		odd.message(g))
	g.publish("in.x", nil, []byte("no Arrow"))
	g.publish("in.x", nil, drawRows(21, 2, 5).message(g))
	nan := drawRows(22, 3, 4)
	nan.x[1][2] = float32(nanValue())
	g.publish("in.x", nats.Header{"X-Custom": {"three"}}, nan.message(g))
	natstest.Await(g, "the odd messages are answered", func() bool {
		return g.server.Count("OUT") == 12 && g.server.Count("DEAD") == 3
	})
	g.request("live", "status", nil)
	g.request("live", "model ls", nil)
	g.request("live", "model show", nil)
	g.request("live", "model pin", nil)
	natstest.Await(g, "the pin is known", func() bool { return r.pipeline().Stage.Pinned })
	g.request("pinned", "retrain", nil)
	g.request("live", "model unpin", nil)
	natstest.Await(g, "the end of the pin is known", func() bool { return !r.pipeline().Stage.Pinned })
	g.request("live", "resume", nil)
	g.request("live", "transform", odd.message(g))
	g.request("bad", "transform", []byte("no Arrow"))
	g.request("bad", "model pin", []byte("no JSON"))
	g.request("bad", "model rollback", []byte(`{"version":"none"}`))
	g.service("p")
	g.outputs("OUT", 11) // those before were answered by the bootstrap model or the learned one, as time had it
	g.letters()
	g.stop(r)
	g.stored()
}

func (g *golden) fixed() {
	p := goldenPipeline()
	p.Name, p.Stage.Fixed = "fixed-1", fixedModel(g)
	p.Stage.Spec.Label = ""
	p.Stage.Output = arrowio.Output{Columns: true, Compression: "zstd"}
	g.setup(p)
	out, err := g.server.JS.Stream(g.Context(), "OUT")
	if err != nil {
		g.Fatal(err)
	}
	config := out.CachedInfo().Config
	config.MaxMsgSize = 3000
	if _, err := g.server.JS.UpdateStream(g.Context(), config); err != nil {
		g.Fatal(err)
	}
	r := startReplica(g, g.server.Connect(), p)
	g.publish("in.x", nil, drawRows(1, 5, 4).message(g))
	g.publish("in.x", nats.Header{"X-Custom": {"one"}}, drawRows(2, 200, 4).message(g))
	bad := drawRows(3, 5, 4)
	bad.x[0][0] = float32(nanValue())
	bad.x[4][1] = float32(nanValue())
	g.publish("in.x", nil, bad.message(g))
	g.publish("in.x", nats.Header{"X-Custom": {"four"}}, arrowMessage(g, column{"y", []float32{1}}))
	natstest.Await(g, "the messages are answered", func() bool { return r.counter("embedd_messages_total") >= 4 })
	natstest.Await(g, "the messages are acknowledged", func() bool { return g.acknowledged("IN", 4) })
	g.outputs("OUT", 1)
	g.letters()
	g.request("live", "status", nil)
	g.request("live", "model show", nil)
	g.request("live", "model ls", nil)
	g.request("live", "transform", drawRows(1, 5, 4).message(g))
	g.request("live", "retrain", nil)
	g.service("fixed-1")
	g.stop(r)
	letters := dlq.DeadLetters{Subject: "dead.x", Bodies: true}
	js := g.server.JS
	err = letters.Read(g.Context(), js, func(l *dlq.DeadLetter) error {
		one, err := dlq.Replays{Keep: true}.Do(g.Context(), js, l)
		if one.Error != "" {
			g.Error(one.Error)
		}
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	for _, m := range g.server.Messages("IN")[4:] {
		what := fmt.Sprintf("replayed %d", m.Sequence)
		for _, name := range slices.Sorted(maps.Keys(m.Header)) {
			g.note(what, "header %s: %s", name, g.steady(strings.Join(m.Header[name], " + ")))
		}
		g.body(what, m.Data, false)
	}
	g.stored()
}

func (g *golden) partitions() {
	p := goldenPipeline()
	p.Subject, p.Partitions, p.Stage.Fixed = "in.*", 2, fixedModel(g)
	g.setup(p)
	r := startReplica(g, g.server.Connect(), p)
	for i := range 6 {
		g.publish(fmt.Sprintf("in.k%d", i), nil, drawRows(uint64(i), 2, 4).message(g))
	}
	natstest.Await(g, "the messages are answered", func() bool { return g.server.Count("OUT") == 6 })
	natstest.Await(g, "the partitions are held", func() bool {
		report := r.pipeline().Report()
		return report.Ready && report.Partitions != nil && *report.Partitions == 3
	})
	g.outputs("OUT", 1)
	g.request("live", "status", nil)
	g.bucket("KV_EMBEDD_LEASES")
	g.consumers("IN")
	g.stop(r)
	g.stored()
}

func (g *golden) blocks() {
	p := goldenPipeline()
	p.Stage.Training.Block, p.Stage.Training.Window.Rows = 5, 1000
	g.setup(p)
	r := startReplica(g, g.server.Connect(), p)
	for i := range 10 { // no more than a first model takes: which rows of blocks are held out depends on the creation time
		g.publish("in.x", nil, drawRows(uint64(i), 10, 4).message(g))
	}
	g.awaitLearned(r, 100)
	natstest.Await(g, "the messages are answered", func() bool { return g.server.Count("OUT") == 10 })
	g.request("live", "status", nil)
	g.bucket("KV_EMBEDD_LEASES")
	g.bucket("KV_EMBEDD_SUMMARIES")
	g.stop(r)
	g.stored()
}

func (g *golden) labels() {
	p := goldenPipeline()
	p.Stage.Spec.Key, p.Labels = "key", "labels.x"
	g.setup(p)
	r := startReplica(g, g.server.Connect(), p)
	for i := range 10 {
		d := drawRows(uint64(i), 12, 4)
		g.publish("in.x", nil, arrowMessage(g, column{"key", d.key}, column{"x", d.x}))
		g.publish("labels.x", nil, arrowMessage(g, column{"key", d.key}, column{"label", d.label}))
	}
	natstest.Await(g, "a model is live and the messages are answered", func() bool {
		return r.live() != "" && g.server.Count("OUT") == 10
	})
	g.publish("labels.x", nats.Header{"X-Custom": {"one"}}, []byte("no Arrow"))
	natstest.Await(g, "bad labels are a dead letter", func() bool { return g.server.Count("DEAD") == 1 })
	g.awaitLearned(r, 120)
	g.letters()
	g.request("live", "status", nil)
	g.stop(r)
	g.stored()
}

func (g *golden) stale() {
	p := goldenPipeline()
	p.MaxAge, p.WhenStale = time.Millisecond, stream.StalePass
	p.Models.None = true
	g.setup(p)
	r := startReplica(g, g.server.Connect(), p)
	for i := range 9 {
		g.publish("in.x", nil, drawRows(uint64(i), 12, 4).message(g))
	}
	natstest.Await(g, "a model is live and the messages are answered", func() bool {
		return r.live() != "" && g.server.Count("OUT") == 9
	})
	g.awaitLearned(r, 9*12)
	time.Sleep(10 * time.Millisecond)
	g.publish("in.x", nil, drawRows(1, 2, 4).message(g))
	natstest.Await(g, "the last message is answered", func() bool { return g.server.Count("OUT") == 10 })
	g.outputs("OUT", 10)
	g.request("live", "status", nil)
	g.stop(r)
	g.stored()
}

func (g *golden) core() {
	p := goldenPipeline()
	p.Stream, p.Stage.Fixed = "", fixedModel(g)
	nc := g.server.Connect()
	got := make(chan *nats.Msg, 10)
	for _, subject := range []string{"out.x", "dead.x"} {
		if _, err := nc.ChanSubscribe(subject, got); err != nil {
			g.Fatal(err)
		}
	}
	r := startReplica(g, g.server.Connect(), p)
	bad := drawRows(3, 3, 4)
	bad.x[1][1] = float32(nanValue())
	g.server.AwaitSubscriber("in.x")
	for i, m := range []*nats.Msg{
		{Subject: "in.x", Data: []byte("no Arrow")},
		{Subject: "in.x", Header: nats.Header{"X-Custom": {"one"}}, Data: drawRows(1, 5, 4).message(g)},
		{Subject: "in.x", Data: bad.message(g)},
	} {
		if err := nc.PublishMsg(m); err != nil {
			g.Fatal(err)
		}
		for range max(1, i) { // the last has an output and a dead letter
			msg := <-got
			g.answer(i+1, msg.Subject, msg.Header, msg.Data)
		}
	}
	g.request("live", "status", nil)
	g.request("live", "transform", drawRows(1, 5, 4).message(g))
	g.service("p")
	g.stop(r)
	g.stored()
}

func (g *golden) directory() {
	p := goldenPipeline()
	p.Stream, p.Models.Directory = "", g.TempDir()
	nc := g.server.Connect()
	got := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("out.x", got); err != nil {
		g.Fatal(err)
	}
	r := startReplica(g, g.server.Connect(), p)
	g.server.AwaitSubscriber("in.x")
	if err := nc.Publish("in.x", []byte("no Arrow")); err != nil {
		g.Fatal(err)
	}
	if err := nc.Publish("in.x", drawRows(1, 100, 4).message(g)); err != nil {
		g.Fatal(err)
	}
	g.awaitLearned(r, 100)
	g.request("live", "status", nil)
	g.stop(r)
	root := p.Models.Directory
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		g.note("file", "%s %s", g.steady(name), info.Mode())
		if !d.IsDir() {
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			g.shape("file "+g.steady(name), body)
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
}

// edge has a hub that learns from the summaries of a leaf node, and the leaf node answers with its models.
func (g *golden) edge() {
	port := link.FreePort(g)
	domain := func(name string, leaf server.LeafNodeOpts) *golden {
		return &golden{T: g.T, variant: name, facts: g.facts, server: natstest.New(g, func(o *server.Options) {
			o.ServerName, o.JetStreamDomain, o.LeafNode = name, name, leaf
		})}
	}
	hub := domain("hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: port, NoAdvertise: true})
	way := &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)}
	to := &server.RemoteLeafOpts{URLs: []*url.URL{way}, DenyExports: []string{"in.>", "out.>", "dead.>"}}
	edge := domain("edge", server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond,
		Remotes: []*server.RemoteLeafOpts{to}})

	p := goldenPipeline()
	p.Edges = []string{"edge"}
	p.Stage.Training.Block, p.Stage.Training.Window.Rows = 5, 1000
	trains := p
	trains.Role = stream.RoleTrain
	p.Role, p.Models.Hub = stream.RoleTransform, "hub"
	edge.setup(p)
	hub.setup(trains)
	trainer := startReplica(g, hub.server.Connect(), trains)
	answers := startReplica(g, edge.server.Connect(), p)
	for i := range 10 {
		edge.publish("in.x", nil, drawRows(uint64(i), 10, 4).message(g))
	}
	natstest.Await(g, "the leaf node answers", func() bool { return edge.server.Count("OUT") == 10 })
	hub.awaitLearned(trainer, 100)
	hub.stop(trainer)
	for _, name := range []string{"KV_EMBEDD_MODELS", "OBJ_EMBEDD_MODELS"} {
		natstest.Await(g, "the leaf node mirrors "+name, func() bool {
			return edge.server.Count(name) == hub.server.Count(name)
		})
	}
	edge.stop(answers)
	edge.stored()
	hub.stored()
}

// What they have in common.

// setup makes the streams as the verb does, and notes what a user needs for the pipeline.
func (g *golden) setup(p stream.Pipeline) {
	g.Helper()
	plans, err := admin.Setup(g.Context(), g.server.JS, []stream.Pipeline{p}, true)
	if err != nil {
		g.Fatal(err)
	}
	for _, one := range plans {
		if one.Problem != "" {
			g.Fatalf("%s: %s", one.Name, one.Problem)
		}
		g.note("plan", "%s bucket=%t subjects=%v", one.Name, one.Bucket, one.Subjects)
	}
	for _, r := range admin.PermissionsOf([]stream.Pipeline{p}, plans, admin.Account{}) {
		if r.Role != "daemon" && g.variant != "learning" {
			continue
		}
		for _, s := range r.Publish {
			g.note("permission", "%s publish %s", r.Role, s)
		}
		for _, s := range r.Subscribe {
			g.note("permission", "%s subscribe %s", r.Role, s)
		}
	}
}

func (g *golden) publish(subject string, header nats.Header, body []byte) {
	g.Helper()
	g.server.Publish(&nats.Msg{Subject: subject, Header: header, Data: body})
}

// awaitLearned waits until so many rows are learned, and the outcome of the fit is reported: a model is live before.
func (g *golden) awaitLearned(r *replica, rows int) {
	g.Helper()
	natstest.Await(g, "all rows are learned", func() bool {
		s := r.pipeline().Stage
		return s.Live != nil && s.Received == rows && s.Backlog == 0 && !s.Fitting
	})
}

// acknowledged reports whether all consumers of a stream have acknowledged up to a message.
func (g *golden) acknowledged(name string, seq uint64) bool {
	g.Helper()
	s, err := g.server.JS.Stream(g.Context(), name)
	if err != nil {
		g.Fatal(err)
	}
	for c := range s.ListConsumers(g.Context()).Info() {
		if c.Config.Durable != "" && c.AckFloor.Stream < seq {
			return false
		}
	}
	return true
}

// stop ends the engine after its metrics were noted.
func (g *golden) stop(r *replica) {
	g.Helper()
	g.metrics(r.Metrics)
	if err := r.Stop(); err != nil {
		g.Fatal(err)
	}
}

// outputs notes the answers of inputs from a sequence number on.
func (g *golden) outputs(name string, from int) {
	g.Helper()
	for _, m := range g.server.Messages(name) {
		_, seq, _ := strings.Cut(m.Header.Get(wire.HeaderSource), ":")
		if n, err := strconv.Atoi(seq); err != nil || n < from {
			continue
		} else {
			g.answer(n, m.Subject, m.Header, m.Data)
		}
	}
}

func (g *golden) letters() {
	g.Helper()
	for i, m := range g.server.Messages("DEAD") {
		g.answer(i+1, m.Subject, m.Header, m.Data)
	}
}

// answer notes an output or a dead letter.
func (g *golden) answer(number int, subject string, header nats.Header, body []byte) {
	g.Helper()
	what := fmt.Sprintf("answer %d %s %s", number, subject, header.Get(wire.HeaderPart))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		values := header[name]
		switch name {
		case "Nats-Msg-Id":
			values = []string{g.identity(subject, header)}
		case wire.HeaderLetter:
			values = []string{g.steady(values[0])}
		case wire.HeaderError:
			values = []string{"<text>"}
		case wire.HeaderStale:
			values = []string{"<seconds>"}
			body = bytes.ReplaceAll(body, []byte(header.Get(name)), []byte("<seconds>"))
		}
		g.note(what, "header %s: %s", name, g.steady(strings.Join(values, " + ")))
	}
	g.body(what, body, header.Get(wire.HeaderModel) != "")
}

// body notes an Arrow message. Of what a learned model made it notes the length alone.
func (g *golden) body(what string, body []byte, reduced bool) {
	if g.learns() && reduced {
		g.note(what, "body %d bytes", len(body))
		return
	}
	sum := sha256.Sum256(body)
	g.note(what, "body %d bytes %s", len(body), hex.EncodeToString(sum[:8]))
}

// identity names the answer, kind and part of an identity, by the formula of docs/wire.md.
func (g *golden) identity(subject string, header nats.Header) string {
	g.Helper()
	name, seq, _ := strings.Cut(header.Get(wire.HeaderSource), ":")
	s, err := g.server.JS.Stream(g.Context(), name)
	if err != nil {
		g.Fatal(err)
	}
	part := 0
	if text, _, found := strings.Cut(header.Get(wire.HeaderPart), "/"); found {
		one, err := strconv.Atoi(text)
		if err != nil {
			g.Fatal(err)
		}
		part = one - 1
	}
	for _, pipeline := range []string{"p", "fixed-1"} {
		for _, kind := range []string{"out", "dead", "dead-rows"} {
			mac := hmac.New(sha256.New, g.identityKey(pipeline))
			fmt.Fprintf(mac, "%s\x00%d\x00%s\x00%s\x00%s\x00%d", name, s.CachedInfo().Created.UnixNano(), seq, pipeline,
				kind, part)
			if hex.EncodeToString(mac.Sum(nil)[:16]) == header.Get("Nats-Msg-Id") {
				return fmt.Sprintf("<identity of %s %s %s %s %d>", name, seq, pipeline, kind, part)
			}
		}
	}
	return "<unknown identity of " + subject + ">"
}

// identityKey reads the key of a pipeline's identities.
func (g *golden) identityKey(pipeline string) []byte {
	g.Helper()
	state, err := g.server.JS.KeyValue(g.Context(), "EMBEDD_STATE")
	if err != nil {
		g.Fatal(err)
	}
	entry, err := state.Get(g.Context(), pipeline+".identity")
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	var note struct{ Key []byte }
	if err == nil {
		err = json.Unmarshal(entry.Value(), &note)
	}
	if err != nil || len(note.Key) != 32 {
		g.Fatalf("the key %q of the identities of %s: %v", note.Key, pipeline, err)
	}
	return note.Key
}

// request notes the form of an answer of the service.
func (g *golden) request(when, endpoint string, body []byte) {
	g.Helper()
	pipeline := "p"
	if g.variant == "fixed" {
		pipeline = "fixed-1"
	}
	subject := stream.ServiceSubject(pipeline, endpoint)
	ctx, cancel := context.WithTimeout(g.Context(), natstest.Timeout)
	defer cancel()
	var answer *nats.Msg
	var err error
	hasReason := g.variant == "stale" // the others are ready, or will be in a moment
	natstest.Await(g, "there is "+subject, func() bool {
		answer, err = g.server.JS.Conn().RequestWithContext(ctx, subject, body)
		return !errors.Is(err, nats.ErrNoResponders) &&
			(err != nil || endpoint != "status" || bytes.Contains(answer.Data, []byte(`"reason":`)) == hasReason)
	})
	if err != nil {
		g.Fatalf("%s: %v", subject, err)
	}
	what := "request " + subject + " " + when
	for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
		value := strings.Join(answer.Header[name], " + ")
		if name == wire.HeaderError || name == "Nats-Service-Error" {
			value = "<text>"
		}
		g.note(what, "header %s: %s", name, g.steady(value))
	}
	if answer.Header.Get(wire.HeaderContentType) != "" {
		g.body(what, answer.Data, true)
		return
	}
	g.shape(what, answer.Data)
}

// service notes the endpoints that the service names.
func (g *golden) service(pipeline string) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), natstest.Timeout)
	defer cancel()
	for _, verb := range []string{"INFO", "STATS"} {
		answer, err := g.server.JS.Conn().RequestWithContext(ctx, "$SRV."+verb+"."+stream.ServiceName(pipeline), nil)
		if err != nil {
			g.Fatal(err)
		}
		var info struct {
			Name, Version, Description string
			Metadata                   map[string]string
			Endpoints                  []struct {
				Name, Subject string
				Queue         string `json:"queue_group"`
			}
		}
		if err := json.Unmarshal(answer.Data, &info); err != nil {
			g.Fatal(err)
		}
		g.note("service", "%s %s metadata %s", info.Name, info.Version, slices.Sorted(maps.Keys(info.Metadata)))
		for _, e := range info.Endpoints {
			g.note("service", "%s endpoint %s on %s, queue group %q", info.Name, e.Name, e.Subject, e.Queue)
		}
	}
}

// metrics notes names, types and labels.
func (g *golden) metrics(r *prometheus.Registry) {
	g.Helper()
	families, err := r.Gather()
	if err != nil {
		g.Fatal(err)
	}
	for _, f := range families {
		g.facts[fmt.Sprintf("all | metric | %s %s", f.GetName(), f.GetType())] = true
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+g.steady(l.GetValue()))
			}
			g.note("metric", "%s{%s}", f.GetName(), strings.Join(labels, ","))
		}
	}
}

// stored notes every stream of the server with its consumers, and what ours hold.
func (g *golden) stored() {
	g.Helper()
	var names []string
	list := g.server.JS.StreamNames(g.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		g.Fatal(err)
	}
	for _, name := range names {
		s, err := g.server.JS.Stream(g.Context(), name)
		if err != nil {
			g.Fatal(err)
		}
		g.note("stream", "%s %s", name, g.config(s.CachedInfo().Config))
		g.consumers(name)
		if strings.Contains(name, "EMBEDD") {
			g.bucket(name)
		}
	}
}

// consumers notes the durable consumers of a stream; others come and go.
func (g *golden) consumers(name string) {
	g.Helper()
	s, err := g.server.JS.Stream(g.Context(), name)
	if err != nil {
		g.Fatal(err)
	}
	for c := range s.ListConsumers(g.Context()).Info() {
		if c.Config.Durable != "" {
			g.note("consumer", "%s %s", name, g.config(c.Config))
		}
	}
}

// config is a configuration as JSON, without what the server adds.
func (g *golden) config(c any) string {
	g.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		g.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		g.Fatal(err)
	}
	if first, _ := all["first_seq"].(float64); first > 1e12 {
		all["first_seq"] = "<microseconds>"
	}
	if meta, ok := all["metadata"].(map[string]any); ok {
		for key, value := range meta {
			if strings.HasPrefix(key, "_nats.") {
				delete(meta, key)
			} else if s, isText := value.(string); isText {
				meta[key] = g.steady(s)
			}
		}
	}
	if text, err = json.Marshal(all); err != nil {
		g.Fatal(err)
	}
	return string(text)
}

// bucket notes the keys of a stream of ours, their headers, and the form of their values.
func (g *golden) bucket(name string) {
	g.Helper()
	for _, m := range g.server.Messages(name) {
		subject := g.steady(m.Subject)
		if encoded, found := strings.CutPrefix(m.Subject, "$O.EMBEDD_MODELS.M."); found {
			object, err := base64.URLEncoding.DecodeString(encoded)
			if err != nil {
				g.Fatal(err)
			}
			subject = "$O.EMBEDD_MODELS.M." + g.steady(string(object))
		}
		what := "key " + name + " " + subject
		g.note(what, "headers %v", slices.Sorted(maps.Keys(m.Header)))
		g.shape(what, m.Data)
	}
}

// shape notes the keys of a JSON value with their types, one a line. What is no JSON has its first bytes.
func (g *golden) shape(what string, body []byte) {
	g.Helper()
	if len(body) == 0 {
		g.note(what, "empty")
		return
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		printable := regexp.MustCompile(`^[\x20-\x7e]{4,16}`).Find(body)
		g.note(what, "bytes %q", printable)
		return
	}
	g.walk(what, "", value)
}

func (g *golden) walk(what, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			g.note(what, "%s {}", path)
		}
		for key, one := range v {
			g.walk(what, path+"."+g.steady(key), one)
		}
	case []any:
		if len(v) == 0 {
			g.note(what, "%s []", path)
		}
		for _, one := range v {
			g.walk(what, path+"[]", one)
		}
	case string:
		if state, err := base64.StdEncoding.DecodeString(v); err == nil && len(state) > 2 && state[0] == '{' {
			var inner any
			if json.Unmarshal(state, &inner) == nil {
				g.walk(what, path+" (base64)", inner)
				return
			}
		}
		g.note(what, "%s string", path)
	case bool:
		g.note(what, "%s boolean", path)
	default: // what is not known yet is null
		g.note(what, "%s number", path)
	}
}

// steady masks what differs from run to run: times, instances, names of writings, and what is drawn from the
// creation time of a stream.
func (g *golden) steady(s string) string {
	for _, one := range []struct{ form, mask string }{
		{`\b[0-9A-Za-z]{22}\b`, "<nuid>"},
		{`\b\d{18,}\b`, "<nanoseconds>"},
		{`\b[0-9a-f]{32,}\b`, "<hex>"},
		{`EMBEDD_SUMMARIES\.(\w+)\.([0-9a-f]{16})\.[0-9a-z]{12}\.(\d+)\.[0-9a-f]{16}\b`,
			"EMBEDD_SUMMARIES.$1.$2.<created>.$3.<digest>"},
		{`EMBEDD_SUMMARIES\.(\w+)\.([0-9a-f]{16})\.[0-9a-z]{12}\b`, "EMBEDD_SUMMARIES.$1.$2.<created>"},
		{`\.edges\.[0-9a-z]{12}\b`, ".edges.<created>"},
		{`(EMBEDD_EDGES?[.\w]*)\.[0-9a-f]{16}\b`, "$1.<digest>"},
		{`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "<time>"},
	} {
		s = regexp.MustCompile(one.form).ReplaceAllString(s, one.mask)
	}
	if g.learns() {
		s = regexp.MustCompile(`\b(p-\d+-(?:t\d+-)?)[0-9a-f]{8}\b`).ReplaceAllString(s, "$1<digest>")
		s = regexp.MustCompile(`\b[0-9a-f]{16}$`).ReplaceAllString(s, "<digest>")
	}
	return s
}

func nanValue() float64 { var zero float64; return zero / zero }
