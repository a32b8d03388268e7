package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// TestPartitionedInOrder partitions servers that partitions and summaries use, under load: from the other servers, from
// the other servers and all clients, and suspended. The replica on the minority side loses its partitions, the others
// answer their keys, and it gets its share when it has reconnected through another server. Within a key nothing is out
// of order except outputs marked as redelivered, nothing is lost or duplicated, and what is learned from summaries
// equals what one replica learns.
func TestPartitionedInOrder(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it, as root: each server has a separate network")
	}
	k := newKeyed(t, summarised, 40*time.Millisecond)
	paused := pauses(t)
	held := func(d *daemon) int { return int(d.value(`embedd_partitions_held{pipeline="p"}`)) }
	// shared reports whether each of some replicas has its share of the eight partitions, and together they have all.
	shared := func(of ...*daemon) bool {
		sum := 0
		for _, d := range of {
			n := held(d)
			if n < 8/len(of) {
				return false
			}
			sum += n
		}
		return sum == 9
	}
	type span struct {
		name     string
		from, to time.Time
	}
	var spans []span
	for _, c := range []struct {
		how        string
		of         string // the leader of which stream
		fail, mend func(*member)
	}{
		{"partitioned from the others", k.streams[0], func(m *member) { m.cut("k") }, func(m *member) { m.mend("k") }},
		{"partitioned from the others", "FEATURES", func(m *member) { m.cut("k") }, func(m *member) { m.mend("k") }},
		{"partitioned from the others", k.streams[2], func(m *member) { m.cut("k") }, func(m *member) { m.mend("k") }},
		{"gone without a word", "REDUCED", func(m *member) { m.cut("k"); m.cut("c") },
			func(m *member) { m.mend("k"); m.mend("c") }},
		{"stopped and continued", "FEATURES", func(m *member) { _ = m.cmd.Process.Signal(syscall.SIGSTOP) },
			func(m *member) { _ = m.cmd.Process.Signal(syscall.SIGCONT) }},
	} {
		eventually(t, says("each replica has its share"), func() bool { return shared(k.replicas...) })
		m := k.leader(k.test.js, c.of)
		name := fmt.Sprintf("server %d, leader of %s, %s", m.n, c.of, c.how)
		n := k.at(k.replicas, m)
		begin := time.Now()
		c.fail(m)
		if n >= 0 {
			cutOff, others := k.replicas[n], []*daemon{k.replicas[(n+1)%3], k.replicas[(n+2)%3]}
			eventually(t, says("the others have its partitions, or it works through another server"), func() bool {
				return shared(others...) || k.at(k.replicas, m) != n && shared(k.replicas...)
			})
			t.Logf("%s: after %.1f s replica %d holds %d partitions, the others %d and %d", name, time.Since(begin).Seconds(), n,
				held(cutOff), held(others[0]), held(others[1]))
		}
		time.Sleep(time.Until(begin.Add(20 * time.Second)))
		c.mend(m)
		k.well()
		spans = append(spans, span{name, begin, time.Now()})
	}
	eventually(t, says("each replica has its share"), func() bool { return shared(k.replicas...) })
	sent := k.load.stop()
	k.answered(sent)
	in, out := k.test.answers("FEATURES"), k.test.answers("REDUCED")
	for _, s := range spans {
		t.Logf("%s: no output for %.1f s, no input for %.1f s; this machine paused for %.1f s", s.name,
			out.silence(s.from, s.to).Seconds(), in.silence(s.from, s.to).Seconds(), paused(s.from, s.to).Seconds())
	}
	k.learned(sent)
}
