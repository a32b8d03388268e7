package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// TestSuspendedReplica: when the replica that trains is suspended, and so does not release its leases, another one
// trains and answers all keys soon. It needs nothing of the server but that it runs with embedd: EMBEDD_NATS_SERVER
// names the program of another version.
func TestSuspendedReplica(t *testing.T) {
	t.Parallel()
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	config := configFile(t, s.url, `
digits:
  input: {stream: FEATURES, subject: features.*, partitions: 4}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 5}
  training: {block: 32, window: {rows: 3000}, every: {rows: 300, period: none}}`)
	const ttl = 5 * time.Second // a busy machine can renew it
	setLease(t, config, ttl.String())
	if out, _, _ := run(t, "setup", "-c", config); !strings.Contains(out, "store of leases EMBEDD_LEASES is missing") {
		t.Errorf("setup does not say that there are no leases yet:\n%s", out)
	}
	succeed(t, "setup", "-c", config, "--apply")
	succeed(t, "check", "-c", config, "--server", s.url)
	replicas := []*daemon{startDaemon(t, config), startDaemon(t, config)}
	g := digits(t)
	sent := 0
	send := func(messages int) {
		t.Helper()
		for range messages {
			from := sent * 8 % (g.n - 8)
			c.send(fmt.Sprint("features.k", sent%16), g.message(t, from, from+8, true))
			sent++
		}
		c.await("REDUCED", sent)
	}
	send(160)
	trainer := -1
	eventually(t, says("one replica trains"), func() bool {
		for i, d := range replicas {
			if d.holds("digits") {
				trainer = i
			}
		}
		return trainer >= 0
	})
	former, next := replicas[trainer], replicas[1-trainer]
	_ = former.cmd.Process.Signal(syscall.SIGSTOP)
	begin := time.Now()
	eventually(t, says("the other trains"), func() bool { return next.holds("digits") })
	took := time.Since(begin)
	send(64)
	t.Logf("another replica trained after %v, and had answered all keys after %v", took.Round(time.Second/10),
		time.Since(begin).Round(time.Second/10))
	if testsize.Soak() && took > ttl*3/2 {
		t.Errorf("it took %v, more than 1.5 times the lease", took)
	}
	_ = former.cmd.Process.Signal(syscall.SIGCONT)
	send(64)
	once(t, "FEATURES", 1, sent, c.read("REDUCED"))
	for _, d := range replicas {
		d.stop()
	}
}
