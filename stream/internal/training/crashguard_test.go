package training

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// life is a process that learns the messages 1 to n in order and crashes on those that are deadly. It returns which it
// learned, and whether it reached the end.
func life(t *testing.T, p *Path, n uint64, deadly func(seq uint64, nth int) bool) (learned []uint64, c *crashGuard,
	lives bool) {
	t.Helper()
	c = newCrashGuard(t.Context(), p, false)
	for seq := uint64(1); seq <= n; seq++ {
		if !c.allows(t.Context(), numbered(seq), p.Created) {
			continue
		}
		learned = append(learned, seq)
		if deadly(seq, len(learned)) {
			return learned, c, false
		}
	}
	if err := p.Running.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.markCaughtUp(t.Context(), true)
	return learned, c, true
}

// TestCrashesWhileLearning: whatever crashes a process that learns, after some crashes it does not any more. When
// messages are the reason, they are quarantined and all others are learned; otherwise learning stops.
func TestCrashesWhileLearning(t *testing.T) {
	t.Parallel()
	const n = 1000
	draw := rand.New(rand.NewPCG(7, 11)) // of one of the cases alone
	for name, c := range map[string]struct {
		deadly func(seq uint64, nth int) bool
		deaths int // at most
		aside  []uint64
		stops  bool
	}{
		"nothing":              {func(uint64, int) bool { return false }, 0, nil, false},
		"a message":            {func(seq uint64, _ int) bool { return seq == 700 }, 5, []uint64{700}, false},
		"the first":            {func(seq uint64, _ int) bool { return seq == 1 }, 5, []uint64{1}, false},
		"the last":             {func(seq uint64, _ int) bool { return seq == n }, 5, []uint64{n}, false},
		"two of them":          {func(seq uint64, _ int) bool { return seq == 9 || seq == 10 }, 8, []uint64{9, 10}, false},
		"two that are apart":   {func(seq uint64, _ int) bool { return seq == 9 || seq == 900 }, 10, []uint64{9, 900}, false},
		"whatever comes fifth": {func(_ uint64, nth int) bool { return nth == 5 }, 12, nil, true},
		"all that come":        {func(uint64, int) bool { return true }, 12, nil, true},
		"one and then another": {func(seq uint64, nth int) bool { return nth >= 20+draw.IntN(60) }, maxStarts, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.publish(n)
			p := s.open()
			for deaths := 0; ; deaths++ {
				learned, care, lives := life(t, p, n, c.deadly)
				if !lives {
					if deaths > c.deaths {
						t.Fatalf("%d deaths", deaths+1)
					}
					continue
				}
				t.Logf("%d deaths", deaths)
				if care.isStopped.Load() != c.stops || c.stops && len(learned) > 5 {
					t.Errorf("stopped %t after %d messages", care.isStopped.Load(), len(learned))
				}
				var status spec.Status
				p.Report(&status)
				if c.stops {
					if !status.TrainingStopped || !strings.Contains(status.InputEvent, "restart the daemon") {
						t.Errorf("the status says %+v", status)
					}
					// After an orderly stop it tries again.
					care.close(t.Context())
					if learned, care, _ := life(t, p, n, c.deadly); len(learned) == 0 || care.isStopped.Load() {
						t.Error("learning does not begin again")
					}
					return
				}
				if !slices.Equal(sequencesOf(care.note.Quarantined), c.aside) || len(learned) != n-len(c.aside) ||
					status.Quarantined != len(c.aside) {
					t.Errorf("%d are learned, set aside are %v, want %v", len(learned), care.note.Quarantined, c.aside)
				}
				if len(c.aside) > 0 && !strings.Contains(status.InputEvent, fmt.Sprintf("in:%d is "+
					"quarantined", c.aside[len(c.aside)-1])) {
					t.Errorf("the status says %q", status.InputEvent)
				}
				// A later start knows it, and is not careful.
				if learned, care, _ := life(t, p, n, c.deadly); len(learned) != n-len(c.aside) || care.note.Starts > 1 {
					t.Errorf("the next learns %d, %+v", len(learned), care.note)
				}
				return
			}
		})
	}
}

// TestStandbyKeepsTheRecord: a standby, which fits nothing and so reaches the end, does not remove the record of the
// trainers that crash before they do, and skips what they have quarantined.
func TestStandbyKeepsTheRecord(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.publish(10)
	trainer, standby := s.open(), s.open()
	isDeadly := func(seq uint64, _ int) bool { return seq == 7 }
	for deaths := 1; ; deaths++ {
		_, c, lives := life(t, trainer, 10, isDeadly)
		if lives {
			break
		}
		if c.note.Starts != deaths || deaths > 5 {
			t.Fatalf("after %d deaths %d starts are counted", deaths, c.note.Starts)
		}
		c = newCrashGuard(t.Context(), standby, true)
		if c.note.Starts != 1 {
			t.Fatalf("the standby has %d starts", c.note.Starts)
		}
		c.markCaughtUp(t.Context(), true)
	}
	if c := newCrashGuard(t.Context(), standby, true); c.allows(t.Context(), numbered(7), standby.Created) {
		t.Error("the standby learns the message that crashes the trainer")
	}
}

// TestFormerTrainerKeepsTheRecord: a former trainer whose reader ends in order, or which reaches the end, removes its
// own start from the record, and not the crashes of the replica that has become the trainer.
func TestFormerTrainerKeepsTheRecord(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.publish(10)
	former, next := s.open(), s.open()
	former.Instance, next.Instance = "former", "next"
	for name, end := range map[string]func(*crashGuard){
		"its reader ends":    func(c *crashGuard) { c.close(t.Context()) },
		"it reaches the end": func(c *crashGuard) { c.markCaughtUp(t.Context(), true) },
	} {
		c := newCrashGuard(t.Context(), former, false)
		if _, _, lives := life(t, next, 10, func(seq uint64, _ int) bool { return seq == 7 }); lives {
			t.Fatal("the new trainer did not crash")
		}
		end(c)
		c = newCrashGuard(t.Context(), next, false)
		if c.note.Starts != 2 {
			t.Errorf("%s: %d starts are counted after one crash, want 2", name, c.note.Starts)
		}
		if c.close(t.Context()); c.note.guardRecord != (guardRecord{}) {
			t.Errorf("%s: the new trainer leaves %+v", name, c.note.guardRecord)
		}
	}
}

// TestQuarantineOfARecreatedStream: quarantined sequence numbers are those of one stream.
func TestQuarantineOfARecreatedStream(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.publish(10)
	p := s.open()
	for range 6 {
		life(t, p, 10, func(seq uint64, _ int) bool { return seq == 3 })
	}
	c := newCrashGuard(t.Context(), p, false)
	if c.allows(t.Context(), numbered(3), p.Created) ||
		!c.allows(t.Context(), numbered(3), p.Created.Add(time.Second)) {
		t.Error("the message of the stream that is there is learned, or that of another is not")
	}
	if err := s.JS.DeleteStream(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	s.Stream(jetstream.StreamConfig{Name: "in", Storage: jetstream.MemoryStorage}) // without the files of the deleted one
	s.publish(10)
	p = s.open()
	if learned, _, _ := life(t, p, 10, func(uint64, int) bool { return false }); len(learned) != 10 {
		t.Errorf("of a stream that was recreated %v are learned", learned)
	}
}

// TestQuarantineOfARestoredStream: after an older copy of the stream was restored, another message with a quarantined
// sequence number is learned, and so is one with that of a message that was alone at two crashes.
func TestQuarantineOfARestoredStream(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.publish(10)
	isDeadly := func(seq uint64, _ int) bool { return seq == 3 }
	other := numbered(3)
	other.Time = other.Time.Add(time.Second)
	p := s.open()
	for _, state := range []guardNote{
		{guardRecord: guardRecord{Tries: maxTries}},
		{Quarantined: make([]guardMessage, 1)},
	} {
		for n := 0; ; n++ {
			_, c, _ := life(t, p, 10, isDeadly)
			if c.note.Tries == state.Tries && len(c.note.Quarantined) == len(state.Quarantined) {
				break
			}
			if n == 6 {
				t.Fatalf("no start ends with %+v", state)
			}
		}
		if c := newCrashGuard(t.Context(), p, false); !c.allows(t.Context(), other, p.Created) {
			t.Errorf("after %+v another message of the same sequence number is not learned", state)
		}
	}
}

// numbered is a message of the input stream.
func numbered(seq uint64) *scope.Message {
	return &scope.Message{Origin: wire.Origin{Seq: seq}, Time: time.Unix(int64(seq), 0)}
}

func sequencesOf(messages []guardMessage) (sequences []uint64) {
	for _, m := range messages {
		sequences = append(sequences, m.Seq)
	}
	return sequences
}

// server is a NATS server with an input stream.
type server struct{ *natstest.Server }

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{natstest.New(t)}
	s.Stream(jetstream.StreamConfig{Name: "in"})
	return s
}

// publish publishes n messages to the input.
func (s *server) publish(n int) {
	s.Helper()
	for range n {
		s.Publish(nats.NewMsg("in.x"))
	}
}

// open is the learning path of a pipeline that does not run.
func (s *server) open() *Path {
	s.Helper()
	input, err := s.JS.Stream(s.Context(), "in")
	if err != nil {
		s.Fatal(err)
	}
	state, err := statestore.Open(s.Context(), s.JS, 1)
	if err != nil {
		s.Fatal(err)
	}
	running, err := stage.New(plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Until: plugin.UntilSkip})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(running.Close)
	return New(&scope.Scope{Pipeline: spec.Pipeline{Name: "p", Stream: "in", Subject: "in.x"}, JS: s.JS, Input: input,
		Created: input.CachedInfo().Created, State: state, Running: running, Log: slog.New(slog.DiscardHandler)}, nil,
		Hooks{})
}
