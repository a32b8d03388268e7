package stage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestRunAtLowPriority: the function runs on a thread of low priority that exits afterwards, and never on the main
// thread, which Go cannot exit.
func TestRunAtLowPriority(t *testing.T) {
	main := 0
	for range 2_000 {
		onMain := make(chan bool)
		go func() { onMain <- syscall.Gettid() == syscall.Getpid() }()
		if <-onMain {
			main++
		}
		runAtLowPriority(func() {
			if syscall.Gettid() == syscall.Getpid() {
				t.Error("on the main thread")
			}
			// The system call returns 20 minus the niceness.
			if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid()); err != nil || p != 20-niceness {
				t.Errorf("priority %d, %v", p, err)
			}
		})
		if main == 20 {
			break
		}
	}
	t.Logf("%d other goroutines were on the main thread", main)
	awaitThreads(t, 0)
}

// TestLowPriority: one thread has low priority, if configured and once there is a model, for some events, and
// exits with the stage.
func TestLowPriority(t *testing.T) {
	m, err := fit.Fit(t.Context(), &model.Data{X: []float64{1, 2, 4}, N: 3, M: 1, Features: []string{"x"}},
		fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, low := range []bool{false, true} {
		s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Fit: fit.Config{Method: "lda"},
			LowPriority: low})
		if err != nil {
			t.Fatal(err)
		}
		if n := lowPriorityThreads(t); n > 0 {
			t.Errorf("%d threads give way before there is a model", n)
		}
		for range 2 { // the second event is the first with a model
			if err := s.Adopt(&spec.Live{Model: m, Version: "v", Epoch: 1}, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if low {
			awaitThreads(t, 1)
		} else if n := lowPriorityThreads(t); n > 0 {
			t.Errorf("%d threads give way, and none was to", n)
		}
		s.Close()
		awaitThreads(t, 0)
	}
}

// awaitThreads waits until the process has the given number of threads of low priority.
func awaitThreads(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); lowPriorityThreads(t) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d threads give way, want %d", lowPriorityThreads(t), want)
		}
	}
}

// lowPriorityThreads counts the threads of this process with the niceness of learning; it may miss one while others
// end.
func lowPriorityThreads(t *testing.T) (n int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil || len(paths) == 0 {
		t.Skip("no /proc")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 16 && fields[16] == strconv.Itoa(niceness) {
			n++
		}
	}
	return n
}
