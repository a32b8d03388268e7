package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// binaries is the directory in which the programs under test are built, once for all tests.
var binaries string

// raceFlags build the programs as the tests are built.
var raceFlags []string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "embedd-integration-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binaries = dir
		// Output must not depend on the environment of the shell.
		os.Unsetenv("NATS_URL")
		testsize.AtOnce(12)
		return m.Run()
	}())
}

// embedd is the path of the program, natsServer that of the server, or those of the servers of a cluster, separated by
// commas.
var (
	embedd = sync.OnceValues(func() (string,
		error) {
		return build("embedd", "github.com/embedd/embedd/cmd/embedd", raceFlags)
	})
	natsServer = sync.OnceValues(func() (string,
		error) {
		if path := os.Getenv("EMBEDD_NATS_SERVER"); path != "" {
			return path, nil
		}
		return build("nats-server", "github.com/nats-io/nats-server/v2", nil)
	})
)

// build compiles a program without debugging information, which takes half of the time to link it, or takes it from the
// directory EMBEDD_BIN if it has no flags of its own.
func build(name, pkg string, flags []string) (string, error) {
	if dir := os.Getenv("EMBEDD_BIN"); dir != "" && len(flags) == 0 {
		return filepath.Join(dir, name), nil
	}
	path := filepath.Join(binaries, name)
	args := slices.Concat([]string{"build", "-ldflags=-s -w", "-o", path}, flags, []string{pkg})
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// must is for calls that fail only if the machine does: must(call(...))(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ample is a timeout for events that must happen: only a failing test waits that long, however busy the machine is.
const ample = 10 * time.Minute

// eventually waits until a condition holds. what describes it, with its progress.
func eventually(t testing.TB, what func() string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(ample); ; time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", ample, what())
		}
	}
}

func says(s string) func() string { return func() string { return s } }

// within returns a context that ends with the test, or after a timeout.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
