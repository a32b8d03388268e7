package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/killpoint"
)

// killable is the program with its kill points.
var killable = sync.OnceValues(func() (string, error) {
	return build("embedd-killable", "github.com/embedd/embedd/cmd/embedd", append([]string{"-tags", "killpoints"},
		raceFlags...))
})

// TestKillPoints ends the daemon at every named place, at the first message or model and at a later message, and starts
// it again: every input has exactly one answer (Invariant 1), and every model that the store names can be read.
func TestKillPoints(t *testing.T) {
	t.Parallel()
	path := must(killable())(t)
	for _, point := range killpoint.All() {
		at := []int{1, 3}
		switch point {
		case killpoint.Claimed, killpoint.Written, killpoint.Pointed:
			at = at[:1] // there are few models
		}
		for _, times := range at {
			t.Run(fmt.Sprintf("%s/%d", point, times), func(t *testing.T) {
				t.Parallel()
				s := startServer(t, nil)
				c := dial(t, s.ClientURL())
				c.streams()
				config := configFile(t, s.ClientURL(), learning)
				setAckWait(t, config, "3s")
				const n = 300
				killed := exec.Command(path, "run", "-c", config)
				killed.Dir = filepath.Dir(config)
				killed.Env = append(os.Environ(), fmt.Sprintf("EMBEDD_KILL_AT=%s:%d", point, times))
				if err := killed.Start(); err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = killed.Wait()
				}()
				defer func() {
					_ = killed.Process.Kill()
					<-done
				}()
				c.send("features.digits", []byte("no Arrow"))
				g := digits(t)
				for i := range n - 1 {
					c.send("features.digits", g.message(t, 5*i%g.n, min(5*i%g.n+5, g.n), true))
				}
				for range times - 1 {
					c.send("features.digits", []byte("no Arrow"))
				}
				select {
				case <-done:
				case <-time.After(ample):
					t.Fatalf("the daemon does not reach %s %d times", point, times)
				}
				d := startDaemon(t, config)
				c.await("REDUCED", n-1)
				c.await("DEAD", times)
				c.settled("FEATURES", "digits")
				all := append(c.read("REDUCED"), c.read("DEAD")...)
				once(t, "FEATURES", 1, n-1+times, all)
				d.stop()
				succeed(t, "model", "ls", "--server", s.ClientURL())
			})
		}
	}
}
