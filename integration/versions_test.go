package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/registry"
)

// mixedDuration is how long TestMixedVersions kills replicas.
const mixedDuration = time.Minute

// TestMixedVersions runs an earlier version of the daemon (EMBEDD_OLD_BIN) and this one as replicas of one pipeline and
// kills (-9) them in turn. Every input has exactly one output, and each version reads what the other stored. A version
// whose answers have identities without a key does not answer next to this one.
func TestMixedVersions(t *testing.T) {
	old := os.Getenv("EMBEDD_OLD_BIN")
	if old == "" {
		t.Skip("EMBEDD_OLD_BIN must name the embedd program of an earlier version")
	}
	t.Run("Learning", func(t *testing.T) {
		t.Parallel()
		mixedVersions(t, old, strings.Replace(learning, "every: {rows: 1000", "every: {rows: 1500", 1), true)
	})
	t.Run("ModelFile", func(t *testing.T) {
		t.Parallel()
		mixedVersions(t, old, `
digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: `+packedModel(t, "lda", 5)+`}`, false)
	})
	t.Run("Upgrade", func(t *testing.T) {
		t.Parallel()
		upgradeAndBack(t, old)
	})
	t.Run("Rolling", func(t *testing.T) {
		t.Parallel()
		rollingUpgrade(t, old)
	})
}

// mixedVersions sends messages for mixedDuration to two replicas of different versions, and kills them in turn.
func mixedVersions(t *testing.T, old, pipeline string, learns bool) {
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), pipeline)
	setLease(t, config, "2s")
	names, binaries := []string{"old", "new"}, []string{old, must(embedd())(t)}
	logs := map[string][]*buffer{}
	start := func(i int) *daemon {
		d := launchBinary(t, binaries[i], config)
		logs[names[i]] = append(logs[names[i]], d.log)
		return d
	}
	replicas := []*daemon{start(0), start(1)}
	for _, d := range replicas {
		d.awaitServing()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var history pointerHistory
	if learns {
		history.watch(ctx, c)
	}

	g := digits(t)
	sent, sending := 0, make(chan struct{})
	go func() {
		defer close(sending)
		const rows = 3
		for end := time.Now().Add(mixedDuration); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
			from := sent * rows % g.n
			c.send("features.digits", g.message(t, from, min(from+rows, g.n), true))
			sent++
		}
	}()
	kills := 0
	for end := time.Now().Add(mixedDuration); time.Now().Before(end); kills++ {
		time.Sleep(2*time.Second + rand.N(4*time.Second))
		i := kills % 2
		replicas[i].kill()
		time.Sleep(rand.N(time.Second))
		replicas[i] = start(i)
	}
	<-sending
	last := time.Now()
	c.await("REDUCED", sent)
	c.settled("FEATURES", "digits")
	took := time.Since(last)
	stop()

	out := c.read("REDUCED")
	once(t, "FEATURES", 1, sent, out)
	dead := c.count("DEAD")
	if dead != 0 {
		t.Errorf("%d dead letters, want none", dead)
	}
	lost, doubled := lostAndDoubled(sent, out)
	t.Logf("%d inputs, %d kills, %d lost, %d doubled, %d dead letters; all answered %.1f s after the last input", sent,
		kills, lost, doubled, dead, took.Seconds())
	if learns {
		history.check(t, out)
	}
	for i, d := range replicas {
		d.awaitServing()
		d.end(syscall.SIGTERM)
		checkLogs(t, names[i], logs[names[i]])
	}
}

// setLease sets the duration of the trainer's lease in a configuration file, so that a replica takes over soon.
func setLease(t testing.TB, config, ttl string) {
	t.Helper()
	text := string(must(os.ReadFile(config))(t))
	text = strings.Replace(text, "wait: 30s", "wait: 30s, lease: "+ttl, 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lostAndDoubled counts inputs without an output, and outputs after the first of their input.
func lostAndDoubled(inputs int, out []stored) (lost, doubled int) {
	n := map[string]int{}
	for _, m := range out {
		n[m.header.Get(wire.HeaderSource)]++
	}
	return inputs - len(n), len(out) - len(n)
}

// pointerHistory records how the pointer to the live model changes.
type pointerHistory struct {
	mu     sync.Mutex
	epochs map[string]int // of each version
	live   []string       // each live version, in order
	faults []string
}

// watch reads the pointer until the context ends.
func (h *pointerHistory) watch(ctx context.Context, c *client) {
	c.t.Helper()
	store := must(registry.JetStream(ctx, c.js))(c.t)
	models := registry.New(store, "digits", registry.Options{})
	h.epochs = map[string]int{}
	go func() {
		var was *registry.Pointer
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			p, err := models.Pointer(ctx)
			if err != nil {
				continue
			}
			h.note(was, p)
			was = p
		}
	}()
}

func (h *pointerHistory) note(was, p *registry.Pointer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Damage() != "" {
		h.faults = append(h.faults, p.Damage())
	}
	for _, v := range p.Versions {
		if e, known := h.epochs[v.Name]; known && e != v.Epoch {
			h.faults = append(h.faults, fmt.Sprintf("version %s was of epoch %d and is of epoch %d", v.Name, e, v.Epoch))
		}
		h.epochs[v.Name] = v.Epoch
	}
	if was != nil && (p.Number < was.Number || p.Epochs < was.Epochs || p.Term < was.Term ||
		h.epochs[p.Live] < h.epochs[was.Live]) {
		h.faults = append(h.faults, fmt.Sprintf("the pointer went back: %d versions, %d epochs, term %d, live %q of epoch "+
			"%d after %d versions, %d epochs, term %d, live %q of epoch %d", p.Number, p.Epochs, p.Term, p.Live,
			h.epochs[p.Live], was.Number, was.Epochs, was.Term, was.Live, h.epochs[was.Live]))
	}
	if p.Live != "" && (len(h.live) == 0 || h.live[len(h.live)-1] != p.Live) {
		if slices.Contains(h.live, p.Live) {
			h.faults = append(h.faults, "version "+p.Live+" is live for the second time")
		}
		h.live = append(h.live, p.Live)
	}
}

// check compares the outputs with the history: each names a version with the epoch that it has in the pointer.
func (h *pointerHistory) check(t testing.TB, out []stored) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.faults {
		t.Error(f)
	}
	if len(h.live) < 2 {
		t.Errorf("%d models were live, want more: the test shows nothing", len(h.live))
	}
	used := map[string]int{}
	for _, m := range out {
		version, epoch := m.header.Get(wire.HeaderModel), m.header.Get(wire.HeaderEpoch)
		if e, known := h.epochs[version]; !known || fmt.Sprint(e) != epoch {
			t.Errorf("%s was transformed by version %s of epoch %s, which the pointer did not have",
				m.header.Get(wire.HeaderSource), version, epoch)
			return
		}
		used[version]++
	}
	epochs := map[int]bool{}
	for _, e := range h.epochs {
		epochs[e] = true
	}
	t.Logf("%d versions of %d epochs, %d were live, %d transformed messages", len(h.epochs), len(epochs), len(h.live),
		len(used))
}

var logLine = regexp.MustCompile(`level=(\w+) msg=("[^"]*"|\S+)`)

// checkLogs fails the test on an error in the logs of a version, and logs what the version warned of. That a fit is not
// stored because another replica trains is none: the old version takes leases of this one.
func checkLogs(t testing.TB, version string, logs []*buffer) {
	t.Helper()
	n := map[string]int{}
	for _, log := range logs {
		for line := range strings.Lines(log.String()) {
			m := logLine.FindStringSubmatch(line)
			switch {
			case m == nil && strings.Contains(line, "panic"):
				t.Errorf("%s version: %s", version, line)
			case m == nil:
			case m[1] == "ERROR" && !strings.Contains(line, registry.ErrFenced.Error()):
				t.Errorf("%s version: %s", version, line)
			default:
				n[m[1]+" "+m[2]]++
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(n)) {
		t.Logf("%s version: %d x %s", version, n[k], k)
	}
}

// upgradeAndBack runs the old version, this one and the old one again, one at a time: each continues with the model,
// the window and the epoch of the one before.
func upgradeAndBack(t *testing.T, old string) {
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), strings.Replace(learning, "every: {rows: 1000", "every: {rows: 500", 1))
	g := digits(t)
	sent := 0
	send := func(from, to int, labelled bool) {
		t.Helper()
		for ; from < to; from += 10 {
			c.send("features.digits", g.message(t, from, min(from+10, to), labelled))
			sent++
		}
		c.await("REDUCED", sent)
	}
	var was *registry.Pointer
	names := []string{"old", "new", "old"}
	for i, binary := range []string{old, must(embedd())(t), old} {
		d := launchBinary(t, binary, config)
		d.awaitServing()
		models := registry.New(must(registry.JetStream(t.Context(), c.js))(t), "digits", registry.Options{})
		if i > 0 {
			send(0, 10, false)
			if m := c.last("REDUCED").header; m.Get(wire.HeaderModel) != was.Live ||
				m.Get(wire.HeaderEpoch) != fmt.Sprint(was.Epochs) {
				t.Errorf("run %d transforms with %s of epoch %s, want %s of epoch %d", i, m.Get(wire.HeaderModel),
					m.Get(wire.HeaderEpoch), was.Live, was.Epochs)
			}
		}
		send(i*500, (i+1)*500, true)
		var p *registry.Pointer
		eventually(t, says("a model is live"), func() bool {
			var err error
			p, err = models.Pointer(t.Context())
			return err == nil && p.Live != ""
		})
		want := fmt.Sprint((i + 1) * 500)
		eventually(t, says(want+" rows are in the window"), func() bool {
			return d.metric(`embedd_window_rows{class="all",pipeline="digits"}`) == want
		})
		if p.Damage() != "" {
			t.Errorf("run %d: %s", i, p.Damage())
		}
		if was != nil && (p.Epochs < was.Epochs || p.Number < was.Number) {
			t.Errorf("run %d has %d versions of %d epochs, want no fewer than the %d of %d before it", i, p.Number,
				p.Epochs, was.Number, was.Epochs)
		}
		contract := storedContract(c, "digits")
		if i > 0 && contract == "" {
			t.Errorf("after run %d no contract is stored", i)
		}
		t.Logf("run %d: live %s, epoch %d, %d versions, contract %s", i, p.Live, p.Epochs, p.Number, contract)
		d.stop()
		checkLogs(t, names[i], []*buffer{d.log})
		was = must(models.Pointer(t.Context()))(t)
	}
	c.settled("FEATURES", "digits")
	once(t, "FEATURES", 1, sent, c.read("REDUCED"))
	if dead := c.count("DEAD"); dead != 0 {
		t.Errorf("%d dead letters, want none", dead)
	}
}

// rollingUpgrade replaces three replicas of a pipeline with partitions by those of this version, one after another, by
// a stop or a kill, under load. Each time everything is answered soon after, and in the end each input once, in the
// order of its key.
func rollingUpgrade(t *testing.T, old string) {
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.stream("FEATURES", func(s *jetstream.StreamConfig) {
		s.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "features.*",
			Destination: "features.{{wildcard(1)}}.8.{{partition(8,1)}}"}
	}, "features.>")
	c.stream("REDUCED", nil, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	config := configFile(t, s.ClientURL(), `
digits:
  input: {stream: FEATURES, subject: features.*, partitions: 8}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 5}
  training: {window: {rows: 3000}, every: {rows: 500, period: none}, until_ready: pca}`)
	setLease(t, config, "2s")
	var replicas []*daemon
	for range 3 {
		replicas = append(replicas, launchBinary(t, old, config))
	}
	for _, d := range replicas {
		d.awaitServing()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var history pointerHistory
	history.watch(ctx, c)
	const keys = 20
	var sent atomic.Int64
	var wg sync.WaitGroup
	g := digits(t)
	sender := dial(t, s.ClientURL())
	wg.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			n := int(sent.Load())
			from := n * 3 % (g.n - 3)
			sender.send(fmt.Sprint("features.k", n%keys), g.message(t, from, from+3, true))
			sent.Add(1)
		}
	})
	defer wg.Wait()
	defer stop()
	answered := func() time.Duration {
		begin := time.Now()
		c.await("REDUCED", int(sent.Load()))
		return time.Since(begin).Round(100 * time.Millisecond)
	}
	eventually(t, says("the old version answers"), func() bool { return c.count("REDUCED") > 100 })
	for i, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		replicas[i].end(how)
		replicas[i] = launchBinary(t, must(embedd())(t), config)
		replicas[i].awaitServing()
		t.Logf("all is answered %v after replica %d was replaced (%v)", answered(), i, how)
		time.Sleep(2 * time.Second)
		replicas[i].kill() // this version is killed next to the old one too
		replicas[i] = launchBinary(t, must(embedd())(t), config)
		replicas[i].awaitServing()
		t.Logf("all is answered %v after it was killed", answered())
		time.Sleep(2 * time.Second)
	}
	stop()
	wg.Wait()
	answered()
	out := c.read("REDUCED")
	n := int(sent.Load())
	once(t, "FEATURES", 1, n, out)
	last, late := map[int]int{}, 0
	for _, m := range out {
		_, text, _ := strings.Cut(m.header.Get(wire.HeaderSource), ":")
		seq := must(strconv.Atoi(text))(t)
		if seq <= last[seq%keys] {
			late++
		}
		last[seq%keys] = seq
	}
	if dead := c.count("DEAD"); dead+late != 0 {
		t.Errorf("%d dead letters and %d outputs out of order, want none", dead, late)
	}
	t.Logf("%d inputs", n)
	history.check(t, out)
	for _, d := range replicas {
		d.stop()
	}
}

// storedContract is the schema contract of a pipeline as it is stored; "" while there is none.
func storedContract(c *client, pipeline string) string {
	c.t.Helper()
	ctx := within(c.t, ample)
	state, err := c.js.KeyValue(ctx, "EMBEDD_STATE")
	if err != nil {
		return ""
	}
	e, err := state.Get(ctx, pipeline+".contract")
	if err != nil {
		return ""
	}
	return string(e.Value())
}
