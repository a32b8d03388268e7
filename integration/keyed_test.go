package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/registry"
)

// keyed is a pipeline with partitions that is trained on summaries: three replicas on three servers, under load.
type keyed struct {
	*cluster
	test     *client
	replicas []*daemon
	streams  []string // the streams that it uses
	training string
	load     *load
}

const (
	keyedBlock = 32
	keyedKeys  = 50 // messages of each of four senders
)

// summarised is the setting with which all replicas summarise.
var summarised = fmt.Sprintf("block: %d, ", keyedBlock)

// newKeyed starts it with further settings of training, such as summaries. Each sender sends at an interval.
func newKeyed(t *testing.T, training string, every time.Duration) *keyed {
	t.Helper()
	k := &keyed{cluster: newCluster(t), training: training}
	k.test = k.dial()
	eventually(t, says("the servers find one another"), func() bool {
		_, err := k.test.js.CreateStream(within(t, 2*time.Second), jetstream.StreamConfig{Name: "DEAD", Replicas: 3,
			Subjects: []string{"dead.>"}})
		return err == nil
	})
	three := func(s *jetstream.StreamConfig) { s.Replicas = 3 }
	k.test.stream("FEATURES", func(s *jetstream.StreamConfig) {
		s.Replicas = 3
		s.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "features.*",
			Destination: "features.{{wildcard(1)}}.8.{{partition(8,1)}}"}
	}, "features.>")
	k.test.stream("REDUCED", three, "reduced.>")
	for _, m := range k.members {
		k.replicas = append(k.replicas, k.start(m.url(), "all"))
	}
	k.streams = append([]string{leaseStream, "FEATURES", "REDUCED"}, registry.Streams()...)
	if training != "" {
		k.streams = slices.Insert(k.streams, 2, summaryStream)
	}
	k.whole(k.test.js, k.streams...)
	k.load = k.cluster.load(4, every, func(k, n int) string {
		return fmt.Sprintf("features.k%d", 4*(n%keyedKeys)+k)
	})
	eventually(t, says("they answer"), func() bool { return k.test.count("REDUCED") > 0 })
	return k
}

func (k *keyed) start(url, role string) *daemon {
	k.t.Helper()
	path := filepath.Join(k.t.TempDir(), "embedd.yaml")
	text := fmt.Sprintf("daemon: {role: %s}\nnats: {url: %q, wait: 30s}\nhttp: {listen: "+
		"127.0.0.1:0}\npipelines:\n", role, url) +
		indent(fmt.Sprintf(`
p:
  input: {stream: FEATURES, subject: features.*, partitions: 8}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.p, dead: dead.p}
  model: {method: lda, dim: 4}
  training: {%swindow: {rows: 1M}, every: {rows: 5000, period: none}}`, k.training))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return startDaemon(k.t, path)
}

// well waits until everything has recovered from a fault.
func (k *keyed) well() {
	k.t.Helper()
	k.whole(k.test.js, k.streams...)
	time.Sleep(3 * time.Second)
}

// answered waits until all messages are answered, and checks the answers: each input has one, and those of a key are in
// the order of their inputs, except those marked as redelivered. It returns how many of these were late.
func (k *keyed) answered(sent int) (marked int) {
	t, test := k.t, k.test
	t.Helper()
	for n := 0; n < sent; { // no timeout while there is progress
		before := n
		eventually(t, func() string {
			return fmt.Sprintf("more than %d of %d inputs are answered", before, sent) + explain(test, "p", k.replicas)
		}, func() bool { n = test.count("REDUCED"); return n > before })
	}
	in, out := test.answers("FEATURES"), test.answers("REDUCED")
	key := map[string]string{} // answers to an input, by its source
	for i, subject := range in.subjects {
		key[fmt.Sprint("FEATURES:", in.numbers[i])] = subject
	}
	newest, seen, late, twice := map[string]uint64{}, map[string]bool{}, 0, 0
	for i, source := range out.sources {
		_, text, _ := strings.Cut(source, ":")
		n, err := strconv.ParseUint(text, 10, 64)
		of := key[source]
		switch {
		case err != nil || of == "":
			t.Fatalf("an output of no input: %q", source)
		case seen[source]:
			twice++
		case n < newest[of] && out.again[i]:
			marked++
		case n < newest[of]:
			late++
		}
		seen[source], newest[of] = true, max(n, newest[of])
	}
	t.Logf("%d inputs of %d keys: %d lost, %d answered twice, %d out of order and %d that are marked, %d dead letters",
		sent,
		4*keyedKeys, sent-len(seen), twice, late, marked, test.count("DEAD"))
	if len(key) != sent || len(seen) != sent || twice+late+test.count("DEAD") > 0 {
		t.Errorf("of %d inputs %d are stored and %d answered", sent, len(key), len(seen))
	}
	return marked
}

// learned checks that what the replicas learned together, from summaries of which none is lost or duplicated, equals
// what one replica learns from the same stream, byte for byte.
func (k *keyed) learned(sent int) {
	t, test := k.t, k.test
	t.Helper()
	blocks := sent / keyedBlock
	together := test.summed(blocks)
	for _, d := range k.replicas {
		d.end(syscall.SIGTERM)
	}
	forget := func(names ...string) {
		for _, name := range names {
			if err := test.js.DeleteStream(within(t, 30*time.Second), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	ours := append(registry.Streams(), leaseStream)
	forget(ours...)
	marks := must(test.js.Stream(within(t, 30*time.Second), summaryStream))(t)
	if err := marks.Purge(within(t, 30*time.Second), jetstream.WithPurgeSubject(progressKeys)); err != nil {
		t.Fatal(err) // promoted would not wait for what the next replica learns
	}
	one := k.start(k.urls(), "train") // learns the existing messages
	fromTheirs := test.promoted(blocks)
	if n := one.metric(`embedd_summaries_total{pipeline="p",result="stored"}`); n != "0" {
		t.Errorf("%s summaries were made once more", n)
	}
	one.end(syscall.SIGTERM)
	forget(append(ours, summaryStream)...)
	k.start(k.urls(), "train")
	alone := test.summed(blocks)
	if !maps.Equal(alone, together) {
		t.Errorf("%d summaries of three replicas are not the %d of one alone", len(together), len(alone))
	}
	own := test.promoted(blocks)
	if !slices.Equal(own, fromTheirs) || len(own) < 2 {
		t.Errorf("from the summaries of three replicas\n%v\nfrom those of one\n%v", fromTheirs, own)
	}
	t.Logf("%d blocks, models %v", blocks, own)
}

// The streams behind the buckets of leases and of summaries, and the hub's stream of the summaries of edges.
const (
	leaseStream   = "KV_EMBEDD_LEASES"
	summaryStream = "KV_EMBEDD_SUMMARIES"
	hubStream     = "EMBEDD_EDGES"
)

// progressKeys has the number of blocks that are learned.
const progressKeys = "$KV.EMBEDD_SUMMARIES.p.*.*.mark"

// summed waits until a number of blocks of the pipeline are learned, and returns the digests of their summaries.
func (c *client) summed(blocks int) map[string]string {
	c.t.Helper()
	var s jetstream.Stream
	for n := uint64(0); n < uint64(blocks); { // no timeout while there is progress
		before := n
		eventually(c.t, says(fmt.Sprintf("more than %d of %d blocks are learned", n, blocks)), func() bool {
			var err error
			if s, err = c.js.Stream(within(c.t, 5*time.Second), summaryStream); err != nil {
				return false
			}
			m, err := s.GetLastMsgForSubject(within(c.t, 5*time.Second), progressKeys)
			var mark struct{ Next uint64 }
			if err == nil && json.Unmarshal(m.Data, &mark) == nil {
				n = mark.Next
			}
			return n > before
		})
	}
	ctx := within(c.t, time.Minute)
	info := must(s.Info(ctx, jetstream.WithSubjectFilter("$KV.EMBEDD_SUMMARIES.p.>")))(c.t)
	out := map[string]string{}
	for subject := range info.State.Subjects {
		token := strings.Split(subject, ".")
		if _, err := strconv.Atoi(token[len(token)-1]); err != nil || len(token) != 6 {
			continue // part of a summary, a claim, or the progress
		}
		out[token[5]] = string(must(s.GetLastMsgForSubject(ctx, subject))(c.t).Data)
	}
	if len(out) != blocks {
		var missing []int
		for n := range blocks {
			if _, there := out[strconv.Itoa(n)]; !there {
				missing = append(missing, n)
			}
		}
		c.t.Errorf("%d blocks are learned, and of %d there is a summary; missing are %v", blocks, len(out), missing)
	}
	return out
}

// promoted waits until a number of blocks are learned, and returns the digests of the promoted models.
func (c *client) promoted(blocks int) (digests []string) {
	c.t.Helper()
	c.summed(blocks)
	store := must(registry.JetStream(within(c.t, time.Minute), c.js))(c.t)
	p := must(registry.New(store, "p", registry.Options{}).Pointer(within(c.t, time.Minute)))(c.t)
	for _, v := range p.Versions {
		digests = append(digests, v.Digest)
	}
	return digests
}
