package memory

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// TestMemory: the memory limit is the sum of the pipelines' limits, limits.memory takes precedence, and it is never all
// that the container allows.
func TestMemory(t *testing.T) {
	const mib = 1 << 20
	fixed := config.Pipeline{Limits: config.Limits{InFlight: 256 * mib, Labels: 64 * mib}}
	fixed.Model.File = "a.embedd"
	learns := fixed
	learns.Model.File = ""
	learns.Training.Window.Bytes = 1024 * mib
	late := learns
	late.Input.Labels = "labels.a"
	huge := learns
	huge.Limits.InFlight, huge.Training.Window.Bytes = math.MaxInt64/2, math.MaxInt64/8
	for _, c := range []struct {
		what      string
		asked     int64
		pipelines []config.Pipeline
		container int64
		want      int64
	}{
		{"a fixed model", 0, []config.Pipeline{fixed}, math.MaxInt64, (128 + 320) * mib},
		{"one that learns", 0, []config.Pipeline{learns}, math.MaxInt64, (128 + 320 + 2560) * mib},
		{"late labels", 0, []config.Pipeline{late}, math.MaxInt64, (128 + 320 + 2560 + 80) * mib},
		{"two", 0, []config.Pipeline{fixed, fixed}, math.MaxInt64, (128 + 640) * mib},
		{"a small container", 0, []config.Pipeline{learns}, 1000 * mib, 900 * mib},
		{"asked", 300 * mib, []config.Pipeline{learns}, 200 * mib, 300 * mib},
	} {
		if got := demandOf(&config.Config{Memory: c.asked, Pipelines: c.pipelines}, math.MaxInt64,
			c.container); got != c.want {
			t.Errorf("%s: %d MiB, want %d", c.what, got/mib, c.want/mib)
		}
	}
	for held, want := range map[int64]int64{0: 128 + 320, mib: 128 + 320,
		9 * mib: 128 + 320 + 40, 100 * mib: 128 + 320 + 240} {
		if got := demandOf(&config.Config{Pipelines: []config.Pipeline{learns}}, held, math.MaxInt64); got != want*mib {
			t.Errorf("a window of %d bytes: %d MiB, want %d", held, got/mib, want)
		}
	}
	many := &config.Config{Pipelines: []config.Pipeline{huge, huge, huge, huge, huge, huge}}
	if got := demandOf(many, math.MaxInt64, math.MaxInt64); got < math.MaxInt64/8 {
		t.Errorf("limits beyond all memory give %d", got)
	}
}

// TestGarbagePace: the environment variables take precedence.
func TestGarbagePace(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(77)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	debug.SetMemoryLimit(limit - 1)
	c := &config.Config{Memory: 3 << 30}
	t.Setenv("GOGC", "77")
	t.Setenv("GOMEMLIMIT", "1TiB")
	if got := Limit(c); got != limit-1 {
		t.Errorf("a limit of %d in place of the environment's", got)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if got := Limit(c); got != c.Memory {
		t.Errorf("a limit of %d, want %d", got, c.Memory)
	}
	if got := debug.SetGCPercent(percent); got != gcPercent {
		t.Errorf("garbage may be %d hundredths, want %d", got, gcPercent)
	}
}

// TestFreeMemory: memory that the process, or its container, already uses is not free.
func TestFreeMemory(t *testing.T) {
	const mib = 1 << 20
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	rows := make([]byte, 64*mib)
	debug.SetMemoryLimit(80 * mib)
	if free := Free(); free > 16*mib {
		t.Errorf("%d bytes free of 80 MiB, of which rows hold %d", free, len(rows))
	}
	runtime.KeepAlive(rows)
	for _, files := range []map[string]string{
		{"memory.current": "3000\n", "memory.stat": "anon 2000\ninactive_file 900\n"},
		{"memory/memory.usage_in_bytes": "3000\n", "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 900\n"},
	} {
		root := t.TempDir()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if held := containerUse(root); held != 2100 {
			t.Errorf("the container holds %d, want 2100", held)
		}
	}
	if held := containerUse(t.TempDir()); held != 0 {
		t.Errorf("a container that says nothing holds %d", held)
	}
}

// TestSeldom: a value is read again once it is too old.
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := int64(0)
		get := cached(10*time.Second, func() int64 { reads++; return reads })
		for second := range int64(25) {
			if got := get(); got != second/10+1 {
				t.Errorf("after %d s it is value %d", second, got)
			}
			time.Sleep(time.Second)
		}
	})
}
