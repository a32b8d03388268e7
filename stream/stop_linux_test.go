package stream

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/plugin"
)

// TestStopWhileTheStoreHangs: if the store of models does not respond, a stop waits for it no longer than the drain
// timeout, and reports it.
func TestStopWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	log := &lines{}
	p := holdingPipeline()
	dir, err := os.MkdirTemp("", "embedd-hangs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what was left to itself may still write there
		s.until("the directory is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	p.Stage.Until, p.Models.Directory = plugin.UntilSkip, dir
	e, err := New(Options{Conn: s.dial().Conn(), Pipelines: []Pipeline{p}, Logger: slog.New(slog.NewTextHandler(log,
		nil)), Wait: ample})
	if err != nil {
		t.Fatal(err)
	}
	e.drainTimeout = 300 * time.Millisecond
	open := make(chan struct{})
	e.options.Opened = func() { close(open) }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	<-open
	// Another process that holds the lock of the pointer and is stopped.
	path := filepath.Join(p.Models.Directory, "p", "lock")
	lock, err := os.Create(path)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	s.send(300)
	s.acknowledged("p") // no input keeps the stop waiting
	s.until("the first model waits for the lock", func() bool { return opened(t, path) > 1 })
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(ample):
		t.Fatal("the stop waits for the store")
	}
	if log.with("a write to the model store has not completed") == nil {
		t.Error("it is not reported that the stop did not wait for the store")
	}
	lock.Close()
	s.until("learning ends once the store lets it go", func() bool { return opened(t, path) == 0 })
}

// opened is how often this process has a file open.
func opened(t *testing.T, path string) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", f.Name())); err == nil && to == path {
			n++
		}
	}
	return n
}
