package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// TestEachServerLeads has each of three servers lead all streams in turn, under load. It suspends the trainer, which is
// often the coordinator, replaces a replica, and kills (-9) the server. Each time the others train and own all
// partitions soon, within two durations of a lease after a suspension, three if it was both. Within a key nothing is
// out of order, lost or duplicated. EMBEDD_NATS_SERVER may name a program for each server, separated by commas: of
// several versions.
func TestEachServerLeads(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it, as root: each server has a separate network")
	}
	k := newKeyed(t, "", 40*time.Millisecond)
	paused := pauses(t)
	recovered := func(what string, from time.Time) {
		t.Helper()
		var training, served time.Duration
		state := func() string {
			return "one trains and all partitions are owned " + what + explain(k.test, "p", k.replicas)
		}
		eventually(t, state, func() bool {
			trainers, sum := 0, 0
			for _, d := range k.replicas {
				if d.holds("p") {
					trainers++
				}
				sum += int(d.value(`embedd_partitions_held{pipeline="p"}`))
			}
			if trainers == 1 && training == 0 {
				training = time.Since(from)
			}
			if sum == 9 && served == 0 {
				served = time.Since(from)
			}
			return trainers == 1 && sum == 9
		})
		t.Logf("%s: one trains after %.1f s, all partitions are owned after %.1f s; the machine stood still for %.1f s",
			what, training.Seconds(), served.Seconds(), paused(from, time.Now()).Seconds())
	}
	for _, m := range k.members {
		version := k.versionOf(m)
		for _, stream := range k.streams {
			k.lead(m, stream)
		}
		for i, d := range k.replicas {
			if !d.holds("p") {
				continue
			}
			_ = d.cmd.Process.Signal(syscall.SIGSTOP)
			k.replicas = append(k.replicas[:i:i], k.replicas[i+1:]...)
			recovered(fmt.Sprintf("server %d (%s) leads, the trainer suspended", m.n, version), time.Now())
			_ = d.cmd.Process.Signal(syscall.SIGCONT)
			k.replicas = append(k.replicas, d)
			break
		}
		recovered("it continues", time.Now())
		k.replicas[0].end(syscall.SIGTERM)
		k.replicas = append(k.replicas[1:], k.start(k.urls(), "all"))
		recovered(fmt.Sprintf("server %d (%s) leads, a replica replaced", m.n, version), time.Now())
		m.end(syscall.SIGKILL)
		time.Sleep(10 * time.Second)
		m.start()
		k.well()
		recovered(fmt.Sprintf("server %d (%s) killed and started", m.n, version), time.Now())
	}
	sent := k.load.stop()
	if n := k.answered(sent); n > 0 {
		t.Errorf("%d outputs came after a later one of their key", n)
	}
}

// versionOf is the version of a server.
func (k *keyed) versionOf(m *member) string {
	c := dial(k.t, m.url())
	defer c.nc.Close()
	return c.nc.ConnectedServerVersion()
}

// lead has a server lead a stream.
func (k *keyed) lead(m *member, stream string) {
	k.t.Helper()
	for n := 0; k.leader(k.test.js, stream) != m; n++ {
		body := "" // servers of 2.10 accept no other, and choose any server
		if n%2 == 0 {
			body = fmt.Sprintf(`{"placement":{"preferred":"s%d"}}`, m.n)
		}
		_, err := k.test.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, []byte(body), 5*time.Second)
		if err != nil && !strings.Contains(err.Error(), "timeout") || n > 30 {
			k.t.Fatalf("server %d does not become the leader of %s: %v", m.n, stream, err)
		}
		k.whole(k.test.js, stream)
	}
}
