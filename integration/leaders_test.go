package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// TestLeadersDie kills (-9) the leader of each stream that partitions and summaries use, under load, on three servers
// with three replicas. Within a key nothing is out of order, lost or duplicated; the summaries, and the models that are
// learned from them, have the bytes of a single replica.
func TestLeadersDie(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it, as root: each server has a separate network")
	}
	k := newKeyed(t, summarised, 40*time.Millisecond)
	for _, stream := range k.streams[:4] {
		m := k.leader(k.test.js, stream)
		t.Logf("server %d killed, leader of %s", m.n, stream)
		m.end(syscall.SIGKILL)
		time.Sleep(10 * time.Second)
		m.start()
		k.well()
	}
	sent := k.load.stop()
	if n := k.answered(sent); n > 0 {
		t.Errorf("%d outputs came after a later one of their key", n)
	}
	k.learned(sent)
}
