package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/stream/registry"
)

// TestSharedKilled: one replica trains, three summarise, and one of these is killed (-9) twice a second and replaced,
// while rows arrive. The models are those of a single replica on the same stream, for each method that is fitted from
// moments.
func TestSharedKilled(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	for _, method := range []string{"pca", "lda", "srda", "sle", "pairacc"} {
		t.Run(method, func(t *testing.T) { sharedKilled(t, method) })
	}
}

func sharedKilled(t *testing.T, method string) {
	const passes, rows, block = 12, 32, 10
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	start := func(role string) *daemon {
		path := filepath.Join(t.TempDir(), "embedd.yaml")
		text := fmt.Sprintf(`daemon: {role: %s}
nats: {url: "%s", wait: 30s, lease: 10m}
http: {listen: 127.0.0.1:0}
pipelines:
  p:
    input: {stream: FEATURES, subject: features.p}
    schema: {features: [pixels], label: label}
    output: {subject: reduced.p, dead: dead.p}
    model: {method: %s, dim: 9}
    training: {block: %d, window: {rows: 8000}, every: {rows: 600, period: none}}
`, role, s.ClientURL(), method, block)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return launch(t, path)
	}
	js := must(jetstream.New(c.nc))(t)
	// learned waits until a number of blocks are learned, and returns the digests of the promoted models.
	learned := func(blocks int) (digests []string) {
		t.Helper()
		eventually(t, says(fmt.Sprintf("%d blocks are learned", blocks)), func() bool {
			kv, err := js.Stream(t.Context(), summaryStream)
			if err != nil {
				return false
			}
			m, err := kv.GetLastMsgForSubject(t.Context(), "$KV.EMBEDD_SUMMARIES.p.*.*.mark")
			var mark struct{ Next uint64 }
			return err == nil && json.Unmarshal(m.Data, &mark) == nil && mark.Next == uint64(blocks)
		})
		store := must(registry.JetStream(t.Context(), js))(t)
		p := must(registry.New(store, "p", registry.Options{}).Pointer(t.Context()))(t)
		for _, v := range p.Versions {
			digests = append(digests, v.Digest)
		}
		return digests
	}

	trainer := start("train")
	sums := []*daemon{start("transform"), start("transform"), start("transform")}
	g := digits(t)
	sent, kills, last := 0, 0, time.Now()
	for range passes {
		for from := 0; from < g.n; from += rows {
			c.send("features.p", g.message(t, from, min(from+rows, g.n), true))
			if sent++; time.Since(last) > 500*time.Millisecond {
				sums[kills%3].kill()
				sums[kills%3], last = start("transform"), time.Now()
				kills++
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	blocks := sent / block
	together := learned(blocks)
	t.Logf("%d messages in %d blocks, %d replicas killed: %d models", sent, blocks, kills, len(together))
	if kills < 5 || len(together) < 2 {
		t.Errorf("%d kills, %d models: it shows nothing", kills, len(together))
	}
	for _, d := range append(sums, trainer) {
		d.end(syscall.SIGTERM)
	}
	for _, name := range append(registry.Streams(), leaseStream, summaryStream) {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	start("all")
	if alone := learned(blocks); !slices.Equal(alone, together) {
		t.Errorf("alone\n%v\ntogether\n%v", alone, together)
	}
}
