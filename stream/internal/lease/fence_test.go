package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/registry"
)

// writerVariable makes this program a writer of pointers: it holds the address of a server, and how it writes.
const writerVariable = "EMBEDD_LEASE_WRITER"

func TestMain(m *testing.M) {
	if how := os.Getenv(writerVariable); how != "" {
		url, fenced, _ := strings.Cut(how, " ")
		if err := write(url, fenced == "fenced"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testsize.AtOnce(8)
	natsx.HedgeWait = ample
	os.Exit(m.Run())
}

// write acquires the lease repeatedly, and writes pointers as fast as it can while it believes that it holds it. It
// trusts the last response, whatever its clock says, like a process that was stopped just after its request.
func write(url string, fenced bool) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(ample))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ample)) // by default a busy server ends this process
	if err != nil {
		return err
	}
	ctx := context.Background()
	bucket, err := Open(ctx, js, 1)
	if err != nil {
		return err
	}
	store, err := registry.CreateReplicated(ctx, js, 1)
	if err != nil {
		return err
	}
	pointers, err := js.KeyValue(ctx, registry.Bucket)
	if err != nil {
		return err
	}
	var term atomic.Uint64
	r := registry.New(store, "p", registry.Options{Term: term.Load})
	lease := bucket.Lease(Options{Key: "p", Claim: Claim{Holder: fmt.Sprint(os.Getpid())}, TTL: writerTTL})
	go lease.Run(ctx, func(ctx context.Context, taken uint64) {
		if fenced && taken != 0 {
			sealed, err := r.Seal(ctx, taken, lease.IsHolder)
			if err != nil {
				return
			}
			taken = sealed
		}
		term.Store(taken)
	})
	for n := 0; ; n++ {
		t := term.Load()
		switch {
		case t == 0:
			time.Sleep(5 * time.Millisecond)
		case fenced:
			_ = r.RecordRefusal(ctx, plugin.Outcome{Reason: fmt.Sprint(n)}) // refused where another has the lease
		default:
			_ = unfenced(ctx, pointers, t)
		}
		time.Sleep(time.Millisecond)
	}
}

// unfenced writes a pointer by compare-and-set on whatever is stored, like a process that relies on the lease alone.
func unfenced(ctx context.Context, pointers jetstream.KeyValue, term uint64) error {
	p := registry.Pointer{Format: registry.Format}
	entry, err := pointers.Get(ctx, "p")
	if err == nil {
		if err := json.Unmarshal(entry.Value(), &p); err != nil {
			return err
		}
		p.Replaces = entry.Revision()
	}
	p.Term = term
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if p.Replaces == 0 {
		_, err = pointers.Create(ctx, "p", value)
	} else {
		_, err = pointers.Update(ctx, "p", value, p.Replaces)
	}
	return err
}

// writers are processes that write pointers, and all that was written.
type writers struct {
	*testing.T
	url, how string
	bucket   *Bucket
	running  []*exec.Cmd

	mu       sync.Mutex
	terms    map[uint64]time.Time // when the first pointer of each was seen
	newest   uint64
	pointers int
	old      int // pointers of an older term after a newer one
	lost     int // pointers that replace another than the one before
}

// ample is the timeout of tests for an event that has to happen, generous for a loaded machine.
const ample = 10 * time.Minute

// writerTTL is the TTL of the writers' lease: a request may take a quarter of it, and a busy machine has to renew it.
const writerTTL = 5 * time.Second

func newWriters(t *testing.T, how string) *writers {
	t.Helper()
	s := natstest.New(t)
	url, js := s.URL(), s.JS
	if _, err := registry.CreateReplicated(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	bucket, err := Open(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &writers{T: t, url: url, how: how, bucket: bucket, terms: map[uint64]time.Time{}}
	kv, err := js.KeyValue(t.Context(), registry.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := kv.Watch(context.Background(), "p", jetstream.IncludeHistory())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watcher.Stop() })
	go w.read(watcher)
	for range 3 {
		w.start()
	}
	t.Cleanup(func() {
		for _, one := range w.running {
			_ = one.Process.Kill()
			_ = one.Wait()
		}
	})
	return w
}

func (w *writers) read(watcher jetstream.KeyWatcher) {
	before := uint64(0)
	for e := range watcher.Updates() {
		var p registry.Pointer
		if e == nil || json.Unmarshal(e.Value(), &p) != nil {
			continue
		}
		w.mu.Lock()
		if _, known := w.terms[p.Term]; !known {
			w.terms[p.Term] = time.Now()
		}
		if p.Term < w.newest {
			w.old++
		}
		if before != 0 && p.Replaces != before {
			w.lost++
		}
		before, w.newest = e.Revision(), max(w.newest, p.Term)
		w.pointers++
		w.mu.Unlock()
	}
}

func (w *writers) start() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+w.url+" "+w.how)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.running = append(w.running, cmd)
}

// seen is the newest term.
func (w *writers) seen() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// takeover does something to the holder and waits for another.
func (w *writers) takeover(do func(*exec.Cmd)) time.Duration {
	w.Helper()
	holder := w.holder()
	before, begin := w.seen(), time.Now()
	do(holder)
	natstest.Await(w, "another replica takes over", func() bool { return w.seen() != before })
	return time.Since(begin)
}

// holder waits until a pointer is stored, and returns the process that the stored claim of the lease names.
func (w *writers) holder() *exec.Cmd {
	w.Helper()
	for end := time.Now().Add(ample); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		e, err := w.bucket.read(w.Context(), "p", writerTTL)
		if err != nil || e.claim == nil || w.seen() == 0 {
			continue
		}
		for _, one := range w.running {
			if e.claim.Holder == fmt.Sprint(one.Process.Pid) {
				return one
			}
		}
	}
	w.Fatal("no process holds the lease and writes")
	return nil
}

func (w *writers) signal(one *exec.Cmd, s syscall.Signal) {
	if err := one.Process.Signal(s); err != nil {
		w.Fatal(err)
	}
}

// stop stops the holder with SIGSTOP until another replica has taken over; then it continues.
func (w *writers) stop() {
	var former *exec.Cmd
	w.takeover(func(one *exec.Cmd) {
		former = one
		w.signal(one, syscall.SIGSTOP)
	})
	w.signal(former, syscall.SIGCONT)
	time.Sleep(writerTTL / 4) // it writes what it was about to
}

// times is how often something is done: few times, and often where the long forms of the tests are asked for.
func times(few, often int) int {
	if testsize.Soak() {
		return often
	}
	return few
}

// TestFence: whatever happens to the holder of the lease, no pointer of an older term follows one of a newer term, and
// each replaces the one before. The control shows that the test can fail.
func TestFence(t *testing.T) {
	t.Parallel()
	w := newWriters(t, "fenced")
	var took []time.Duration
	for range times(1, 50) {
		took = append(took, w.takeover(func(one *exec.Cmd) {
			_ = one.Process.Kill()
			_ = one.Wait()
			w.running = slices.DeleteFunc(w.running, func(other *exec.Cmd) bool { return other == one })
			w.start()
		}))
	}
	for range times(1, 20) {
		w.stop()
	}
	slices.Sort(took)
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d pointers of %d terms; a takeover after a kill took %v in the median, %v at most", w.pointers, len(w.terms),
		took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	if w.old > 0 || w.lost > 0 {
		t.Errorf("%d pointers of an older term, %d lost updates", w.old, w.lost)
	}
}

// TestFenceControl: a process that relies on the lease alone writes after it lost the lease.
func TestFenceControl(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("a control of TestFence that depends on chance; EMBEDD_SOAK=1 runs it")
	}
	t.Parallel()
	w := newWriters(t, "unfenced")
	for range 20 {
		w.stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d pointers of %d terms: %d of an older term", w.pointers, len(w.terms), w.old)
	if w.old == 0 {
		t.Error("without the fence no old pointer was stored: the test proves nothing")
	}
}
