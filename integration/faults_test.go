package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// TestReplicasUnderFaults has three replicas with partitions answer on three servers while replicas are replaced in
// turn, killed (-9) or suspended, servers are partitioned from the others or suspended, and all servers are lost at
// once, for the time in EMBEDD_SOAK, with 150 inputs a second. Nothing is lost or duplicated, and outputs are in the
// order of their key. It logs a table of the time from input to output, of inputs that took over a second, and of the
// longest time without an output, for each fault.
func TestReplicasUnderFaults(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=15m runs it for so long, as root: each server has a separate network")
	}
	long, err := time.ParseDuration(os.Getenv("EMBEDD_SOAK"))
	if err != nil {
		long = 3 * time.Minute
	}
	k := newKeyed(t, "", 4*time.Second/150)
	paused := pauses(t)
	random := rand.New(rand.NewPCG(1, 2))
	signal := func(m *member, s syscall.Signal) { _ = m.cmd.Process.Signal(s) }
	const rounds = 5 // in a cycle; a fault is injected in the first ones, as many as its field rounds
	faults := []struct {
		name   string
		rounds int
		inject func(i int)
	}{
		{"all replicas replaced in turn", 5, func(int) { k.replaceAll() }},
		{"a replica killed", 5, func(i int) { k.replace(i, syscall.SIGKILL) }},
		{"a replica suspended for 15 s", 3, func(i int) {
			_ = k.replicas[i].cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(15 * time.Second)
			_ = k.replicas[i].cmd.Process.Signal(syscall.SIGCONT)
		}},
		{"a server partitioned for 15 s", 1, func(i int) {
			k.members[i].cut("k")
			time.Sleep(15 * time.Second)
			k.members[i].mend("k")
		}},
		{"a server suspended for 15 s", 1, func(i int) {
			signal(k.members[i], syscall.SIGSTOP)
			time.Sleep(15 * time.Second)
			signal(k.members[i], syscall.SIGCONT)
		}},
		{"all servers killed", 1, func(int) {
			for _, m := range k.members {
				m.end(syscall.SIGKILL)
			}
			for _, m := range k.members {
				m.start()
			}
		}},
		{"none", 1, func(int) { time.Sleep(15 * time.Second) }},
	}
	spans := make([][]span, len(faults))
	for n, end := 0, time.Now().Add(long); time.Now().Before(end); n++ {
		f, from := n%len(faults), time.Now()
		if n/len(faults)%rounds >= faults[f].rounds {
			continue
		}
		faults[f].inject(random.IntN(3))
		k.well()
		spans[f] = append(spans[f], span{from, time.Now()})
	}
	k.answered(k.load.stop())
	in, out := k.test.answers("FEATURES"), k.test.answers("REDUCED")
	t.Log(delayHeader)
	for f, all := range spans {
		logDelays(t, faults[f].name, all, in, out, paused)
	}
}

// TestRollingReplacements replaces three replicas with partitions in turn, ten times, on three servers, with 150 inputs
// a second: no input takes over a second.
func TestRollingReplacements(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it, as root: each server has a separate network")
	}
	k := newKeyed(t, "", 4*time.Second/150)
	paused := pauses(t)
	k.well()
	var spans []span
	for range 10 {
		from := time.Now()
		k.replaceAll()
		k.well()
		spans = append(spans, span{from, time.Now()})
	}
	k.answered(k.load.stop())
	in, out := k.test.answers("FEATURES"), k.test.answers("REDUCED")
	t.Log(delayHeader)
	if slow := logDelays(t, "all replicas replaced in turn", spans, in, out, paused); slow > 0 {
		t.Errorf("%d inputs took over a second", slow)
	}
}

// span is the time of a fault and the recovery from it.
type span struct{ from, to time.Time }

// replace ends a replica with a signal, and starts another one.
func (k *keyed) replace(i int, s syscall.Signal) {
	k.replicas[i].end(s)
	k.replicas[i] = k.start(k.urls(), "all")
}

func (k *keyed) replaceAll() {
	for i := range k.replicas {
		k.replace(i, syscall.SIGTERM)
	}
}

const delayHeader = "| fault | times | inputs | median | 99th percentile | longest | over a second | no output | " +
	"machine still |"

// logDelays logs the row of a fault, and returns how many inputs that were sent in these times took over a second.
func logDelays(t *testing.T, fault string, spans []span, in, out *answers,
	paused func(from, to time.Time) time.Duration) (slow int) {
	t.Helper()
	sentAt := map[string]time.Time{}
	for i, at := range in.times {
		sentAt[fmt.Sprint("FEATURES:", in.numbers[i])] = at
	}
	var took []time.Duration
	var silence, still time.Duration
	for _, s := range spans {
		silence, still = max(silence, out.silence(s.from, s.to)), max(still, paused(s.from, s.to))
		for i, source := range out.sources {
			if at := sentAt[source]; at.After(s.from) && at.Before(s.to) {
				took = append(took, out.times[i].Sub(at))
			}
		}
	}
	if slices.Sort(took); len(took) == 0 {
		return 0
	}
	fast, _ := slices.BinarySearch(took, time.Second+1)
	t.Logf("| %s | %d | %d | %.2f s | %.2f s | %.1f s | %d | %.1f s | %.1f s |", fault, len(spans), len(took),
		took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds(), took[len(took)-1].Seconds(), len(took)-fast,
		silence.Seconds(), still.Seconds())
	return len(took) - fast
}
