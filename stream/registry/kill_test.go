package registry

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// childStore, in the environment, makes this program the learner that TestKilled kills: the URL of a server or a
// directory.
const childStore = "EMBEDD_REGISTRY_CHILD"

func TestMain(m *testing.M) {
	if where := os.Getenv(childStore); where != "" {
		fmt.Fprintln(os.Stderr, learn(where))
		os.Exit(1)
	}
	testsize.AtOnce(8)
	os.Exit(m.Run())
}

// learn saves one model after another until it is killed.
func learn(where string) error {
	ctx := context.Background()
	s, err := openChild(ctx, where)
	if err != nil {
		return err
	}
	r := New(s, "digits", Options{Keep: Keep{Versions: 3}})
	if err := r.Sweep(ctx); err != nil {
		return err
	}
	c, err := r.Live(ctx)
	if err != nil {
		return err
	}
	parent := ""
	if c.Live != nil {
		parent = c.Live.Version
	}
	models := []*model.Model{fitted(&testing.T{}, 1, 500), fitted(&testing.T{}, 2, 500)}
	fmt.Println("learning")
	for i := 0; ; i++ {
		one := &plugin.Release{Model: models[i%2], Epoch: 1, Parent: parent, State: []byte("s")}
		if parent, err = r.Save(ctx, one); err != nil {
			return err
		}
		if err := r.Checkpoint(ctx, []byte("later")); err != nil {
			return err
		}
		if err := r.RecordRefusal(ctx, plugin.Outcome{Reason: "a test"}); err != nil {
			return err
		}
		fmt.Println("saved")
	}
}

func openChild(ctx context.Context, where string) (Store, error) {
	if !strings.Contains(where, "://") {
		return Directory(where)
	}
	nc, err := nats.Connect(where, nats.Timeout(natstest.Timeout))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(natstest.Timeout))
	if err != nil {
		return nil, err
	}
	return CreateReplicated(ctx, js, 1)
}

// TestKilled kills a process that saves models 50 times, at a random moment. After each kill the pointer names a model
// that a start can read, all versions that it lists are complete, and the next process continues from there.
func TestKilled(t *testing.T) {
	places := map[string]func(t *testing.T) string{
		"jetstream": func(t *testing.T) string { return natstest.New(t).URL() },
		"directory": func(t *testing.T) string { return filepath.Join(t.TempDir(), "models") },
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			where := place(t)
			s, err := openChild(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			kills := testsize.Of(10, 50)
			rng := rand.New(rand.NewPCG(1, 2))
			saved, claimed, last := 0, 0, 0
			var took time.Duration
			hits := func() bool { return saved >= kills/2 && claimed > 0 } // what the test wants to hit
			for kill := 0; kill < kills || !hits() && kill < 10*kills; kill++ {
				after := time.Minute // the first is killed when it has saved once, which says how long that takes
				if took > 0 {
					after = time.Duration(rng.Int64N(int64(4 * took)))
				}
				n, first := killed(t, where, after)
				if saved += n; n > 0 {
					took = max((took+first)/2, first/2) // it takes longer while the machine is busy
				} else {
					took += took / 4
				}
				r := New(s, "digits", Options{})
				c, err := r.Live(t.Context())
				if err != nil {
					t.Fatalf("kill %d: %v", kill, err)
				}
				if c.Damage != "" {
					t.Errorf("kill %d: %s", kill, c.Damage)
				}
				if c.Live == nil {
					continue
				}
				p, err := r.Pointer(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range p.Versions {
					if _, err := r.get(t.Context(), v); err != nil {
						t.Errorf("kill %d: the pointer lists a model that cannot be read: %v", kill, err)
					}
				}
				if p.Number < last {
					t.Errorf("kill %d: version %d after %d", kill, p.Number, last)
				}
				if last = p.Number; p.Candidate != "" {
					claimed++
				}
			}
			if !hits() {
				t.Errorf("%d models were saved and %d kills left a claim: the test does not hit what it wants", saved,
					claimed)
			}
			r := New(s, "digits", Options{Keep: Keep{Versions: 3}})
			c, err := r.Live(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			save(t, r, 1, c.Live.Version)
			if err := r.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := there(t, s); len(got) != 3 {
				t.Errorf("there are %v", got)
			}
			before := writings(t, s)
			if err := s.tidy(t.Context(), "digits", 0); err != nil {
				t.Fatal(err)
			}
			if n := writings(t, s); n != 3 {
				t.Errorf("the store holds something of %d models, of %d before it was tidied, want 3", n, before)
			}
			live(t, s)
			t.Logf("%d models were left unfinished", before-3)
			t.Logf("%d kills, %d of them in the middle of a save; %d models were saved", kills, claimed, saved)
		})
	}
}

// writings are the models of which a store has bytes or a tombstone.
func writings(t *testing.T, s Store) int {
	t.Helper()
	switch s := s.(type) {
	case *jetStream:
		written, err := natsx.SubjectEnds(t.Context(), s.js, objectStream, chunkPrefix)
		if err != nil {
			t.Fatal(err)
		}
		named, err := natsx.SubjectEnds(t.Context(), s.js, objectStream, metadataPrefix)
		if err != nil {
			t.Fatal(err)
		}
		return max(len(written), len(named))
	case *directory:
		entries, err := s.entries("digits")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), modelEnd) || strings.HasPrefix(e.Name(), durable.Temporary) {
				n++
			}
		}
		return n
	}
	return 0
}

// killed runs a learner and kills it a while after it began, or where that is a minute after its first save. It returns
// how many models it saved, and how long the first took.
func killed(t *testing.T, where string, after time.Duration) (saved int, first time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+where)
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		_ = cmd.Wait()
		t.Fatalf("the learner ended by itself: %s", says.String())
	}
	begin := time.Now()
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for lines.Scan() {
		if saved++; saved == 1 {
			first = time.Since(begin)
		}
		if after == time.Minute {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if says.Len() > 0 {
		t.Fatalf("the learner ended by itself: %s", says.String())
	}
	return saved, first
}
