package integration

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMessageThatCrashesTraining: a message that was answered and acknowledged crashes the daemon whenever training
// learns it. The daemon is started again each time: after a few crashes the message is quarantined, all others are
// learned, and the daemon stays up.
func TestMessageThatCrashesTraining(t *testing.T) {
	t.Parallel()
	path := must(killable())(t)
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	// The window must not be cut: with a schema that is fixed, rows are learned as they come and not in one burst.
	config := configFile(t, s.ClientURL(), strings.NewReplacer("rows: 1000", "rows: 200",
		"[pixels]", "[{column: pixels, size: 64}]").Replace(learning))
	const n, deadly = 60, "41"
	g := digits(t)
	for i := range n {
		c.send("features.digits", g.message(t, i*10, i*10+10, true))
	}
	first := startDaemon(t, config) // it does not crash the daemon
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	eventually(t, says("all rows are learned"), func() bool { return first.learned() == "600" })
	first.kill()
	deaths := 0
	for end := time.Now().Add(ample); ; {
		d := &daemon{t: t, log: &buffer{}, done: make(chan struct{}), dir: filepath.Dir(config)}
		d.cmd = exec.Command(path, "run", "-c", config)
		d.cmd.Dir, d.cmd.Stderr = d.dir, d.log
		d.cmd.Env = append(os.Environ(), "EMBEDD_KILL_AT=learning@"+deadly)
		if err := d.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = d.cmd.Wait()
			close(d.done)
		}()
		t.Cleanup(d.kill)
		if !learnsAll(d, end) {
			if deaths++; time.Now().After(end) || d.cmd.ProcessState.ExitCode() >= 0 {
				t.Fatalf("after %d deaths:\n%s", deaths, d.log)
			}
			continue
		}
		const sentence = "FEATURES:" + deadly + " is quarantined"
		if text := succeed(t, "status", "--wide", "--server", s.ClientURL()); !strings.Contains(text, sentence) {
			t.Errorf("the status says %s", text)
		}
		d.awaitLog(sentence)
		d.awaitMetric(`embedd_quarantined_messages{pipeline="digits"}`, "1")
		c.settled("FEATURES", "digits")
		once(t, "FEATURES", 1, n, c.read("REDUCED"))
		d.stop()
		break
	}
	t.Logf("%d deaths", deaths)
	if deaths > 6 {
		t.Errorf("%d deaths of one message", deaths)
	}
}

// learnsAll waits until all rows except those of one message are learned; false if the daemon crashes first.
func learnsAll(d *daemon, end time.Time) bool {
	for time.Now().Before(end) {
		select {
		case <-d.done:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		if m := listens.FindStringSubmatch(d.log.String()); m != nil {
			if d.http = "http://" + m[1]; d.learned() == "590" {
				return true
			}
		}
	}
	d.t.Fatalf("the daemon neither dies nor learns:\n%s", d.log)
	return false
}

// learned returns how many rows are in the window; "" if the daemon does not respond.
func (d *daemon) learned() string {
	answer, err := http.Get(d.http + "/metrics")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	_, rest, _ := strings.Cut(string(body), `embedd_window_rows{class="all",pipeline="digits"} `)
	rows, _, _ := strings.Cut(rest, "\n")
	return rows
}
