package cores

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestIdle(t *testing.T) {
	start := sample{at: time.Unix(100, 0), machine: time.Hour, process: time.Minute}
	after := func(elapsed, machine, process time.Duration) sample {
		return sample{at: start.at.Add(elapsed), machine: start.machine + machine, process: start.process + process}
	}
	for _, c := range []struct {
		name     string
		from, to sample
		limit    float64
		want     float64
	}{
		{"no first sample", sample{}, start, 2, 0},
		{"all idle", start, after(time.Second, 2*time.Second, 0), 2, 2},
		{"other processes use a core", start, after(time.Second, time.Second, 0), 2, 1},
		{"this process uses its quota of a large machine", start, after(time.Second, 60*time.Second, 2*time.Second), 2, 0},
		{"half a core of the quota is left", start, after(2*time.Second, 100*time.Second, 3*time.Second), 2, 0.5},
		{"this process uses its quota of half a core", start, after(time.Second, 60*time.Second, time.Second/2), 0.5, 0},
		{"accounting that goes back", start, after(time.Second, -time.Second, 0), 2, 0},
		{"a clock that goes back", start, after(-time.Second, time.Second, 0), 2, 0},
	} {
		if got := idle(c.from, c.to, c.limit); got != c.want {
			t.Errorf("%s: %v idle cores, want %v", c.name, got, c.want)
		}
	}
}

// TestBusyProcess: a process that uses all its cores has no share of them for background work.
func TestBusyProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("idle cores are measured on Linux alone")
	}
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	var m Meter
	m.Share(1)
	first := m.last.at
	m.share = 1
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(interval) {
		if got := m.Share(1); m.last.at.After(first) && m.last.process > 0 && got < 0.25 {
			return
		}
	}
	t.Errorf("background work may run %v of the time although goroutines of this process use all cores", m.Share(1))
}

// TestShare: background work uses what other work leaves of the cores, but for a tenth of a core and at most a core for
// each thread, and gives way within a second where it leaves none.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		cores   float64
		threads int
	}{{2, 1}, {2, 10}, {8, 1}, {8, 3}, {8, 10}} {
		for _, load := range []float64{0, 0.5, 0.95, 1.2, 1.5, 1.8, 2, 3, 6.5, 9} {
			for _, share := range []float64{0, 1, 8} {
				most := min(c.cores, float64(c.threads))
				for range 10 {
					share = nextShare(share, max(0, c.cores-load-share), most)
				}
				left := c.cores - load - share
				if !(share <= most) || !(share == most || left <= 0.2) || !(share <= 0.1*c.cores || left >= -0.1) {
					t.Errorf("%v: with a load of %v it uses %v cores", c, load, share)
				}
			}
		}
	}
}
