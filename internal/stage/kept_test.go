package stage

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/plugin/spec"
)

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestStoreWithoutSchema: a store that returns no schema is an error that is logged, and the schema stays unknown.
func TestStoreWithoutSchema(t *testing.T) {
	t.Parallel()
	log := &lockedLog{}
	s := countingStage(t, func(c *spec.Config) {
		c.Logger = logTo(log)
		c.StoreContract = func(context.Context, *arrowio.Contract) (*arrowio.Contract, error) { return nil, nil }
	})
	rows := clouds(rand.New(rand.NewPCG(67, 68)), 100, 2)
	send(t, s, 1, tabular(t, rows, "a", "b"))
	for end := time.Now().Add(time.Minute); log.String() == "" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if want := `level=WARN msg="the schema could not be stored; trying again" error="the store returned no schema"` +
		"\n"; !strings.HasPrefix(log.String(), want) || s.Contract() != nil {
		t.Errorf("the log has %q, the schema is %v", log.String(), s.Contract())
	}
}

// TestKeptMessages: messages are kept up to an eighth of the window's memory while the schema is not known, what
// follows them in the order that it came, and times that labels have reached once.
func TestKeptMessages(t *testing.T) {
	t.Parallel()
	log := &lockedLog{}
	s := countingStage(t, func(c *spec.Config) {
		c.Logger, c.Training.Window.Bytes = logTo(log), 8*3000
		c.Training.Every.Rows, c.Training.Every.Period = 10_000, 0
	})
	l := s.learner
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keepReached(time.Unix(1, 0)) {
		t.Error("a time is kept without rows")
	}
	msg := tabular(t, clouds(rand.New(rand.NewPCG(69, 70)), 20, 2), "a", "b")
	m, err := s.Decode(msg)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for n := 1; n <= 40; n++ {
		before := l.bytes
		l.keep(m, spec.Position{Seq: uint64(n)}, 20)
		if room := before <= trainer.QueueBytes(8*3000) || n == 1; room {
			kept++
		}
		if c := l.counting; len(c.kept) != kept || c.rows != 20*kept || l.dropped != 20*(n-kept) {
			t.Fatalf("message %d: %d are kept of %d rows, %d dropped, want %d", n, len(c.kept), c.rows, l.dropped, kept)
		}
	}
	if kept == 40 || kept < 2 || !strings.Contains(log.String(), "rows are not learned because they arrive faster") {
		t.Errorf("%d of 40 messages are kept, the log has %q", kept, log.String())
	}
	if l.keepLabels(m, spec.Position{Seq: 41}) {
		t.Error("labels are kept beyond the memory")
	}
	l.bytes = 0
	if !l.keepLabels(m, spec.Position{Seq: 42}) || l.counting.labels != 20 || !l.counting.kept[kept].labels ||
		l.bytes != int64(len(l.counting.kept[kept].data)) {
		t.Errorf("%d labels are kept", l.counting.labels)
	}
	for _, at := range []int64{5, 9} {
		if !l.keepReached(time.Unix(at, 0)) || len(l.counting.kept) != kept+2 ||
			!l.counting.kept[kept+1].reached.Equal(time.Unix(at, 0)) {
			t.Errorf("after %d s: %+v", at, l.counting.kept[kept+1])
		}
	}
}
