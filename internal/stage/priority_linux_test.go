package stage

import (
	"os"
	"os/exec"
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
	main, want := 0, learningNiceness(t)
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
			if n := nicenessOf(t, syscall.Gettid()); n != want {
				t.Errorf("niceness %d, want %d", n, want)
			}
		})
		if main == 20 {
			break
		}
	}
	t.Logf("%d other goroutines were on the main thread", main)
	awaitThreads(t, 0)
}

// lowest is the largest niceness that Linux has.
const lowest = 19

// nicenessOf is the niceness of a thread; that of the main thread is the niceness of the process.
func nicenessOf(t *testing.T, thread int) int {
	t.Helper()
	p, err := syscall.Getpriority(syscall.PRIO_PROCESS, thread)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - p
}

// learningNiceness is that of a thread that learns. It skips the test where no thread can give way to the others.
func learningNiceness(t *testing.T) int {
	t.Helper()
	process := nicenessOf(t, syscall.Getpid())
	if process == lowest {
		t.Skip("the process has the lowest priority that there is")
	}
	return min(process+2, lowest)
}

// TestLowPriorityOfANiceProcess: learning gives way also in a process that gives way to others itself.
func TestLowPriorityOfANiceProcess(t *testing.T) {
	out, err := exec.Command("nice", "-n", "3", os.Args[0], "-test.run", "^(TestRunAtLowPriority|TestLowPriority)$").
		CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLowPriority: one thread has low priority, if configured and once there is a model, for some events, and
// exits with the stage.
func TestLowPriority(t *testing.T) {
	learningNiceness(t)
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
	for end := time.Now().Add(3 * time.Minute); lowPriorityThreads(t) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d threads give way, want %d", lowPriorityThreads(t), want)
		}
	}
}

// lowPriorityThreads counts the threads of this process with the niceness of learning; it may miss one while others
// end.
func lowPriorityThreads(t *testing.T) (n int) {
	t.Helper()
	want := learningNiceness(t)
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
		if fields := strings.Fields(rest); len(fields) > 16 && fields[16] == strconv.Itoa(want) {
			n++
		}
	}
	return n
}
