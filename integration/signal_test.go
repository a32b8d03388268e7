package integration

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestHangup: SIGHUP makes a daemon read its file again and never ends it. What can change while it runs changes, other
// keys are named, and a file with an error changes nothing. Over twenty-four reloads and a kill every input is answered
// once. SIGTERM drains.
func TestHangup(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	config := configFile(t, s.ClientURL(), learning)
	d := launch(t, config)
	<-d.done
	if log := d.log.String(); strings.Contains(log, "msg=serving") || d.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("without streams it ended with %d and says\n%s", d.cmd.ProcessState.ExitCode(), log)
	}
	c := dial(t, s.ClientURL())
	c.streams()
	// The parent of these tests may have made this process ignore the signal, as nohup does, and the daemon would
	// inherit that: a signal with a handler here is not ignored there.
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGHUP)
	defer signal.Stop(taken)
	d = startDaemon(t, config)
	was := string(must(os.ReadFile(config))(t))
	n := max(batches()/2, 400)
	_, done := feed(t, c, n)
	steps := []struct {
		before, after string // in the file
		log           string
		generation    string
		failed        string
	}{
		{"period: none", "period: none}, gate: {evidence: 5000, more_rows: never",
			"pipelines.digits.training.gate.evidence pipelines.digits.training.gate.more_rows]", "2", "0"},
		{"nats: {", "daemon: {log_level: debug}\nnats: {ack_wait: 11s, ", "[nats.ack_wait]", "3", "0"},
		{"evidence: 5000", "evidence: high", "embedd.yaml:", "3", "1"},
		{"evidence: high", "evidence: 5000", "no key changed that can change while running", "3", "0"},
		{"rows: 3000", "rows: 1500", "pipelines.digits.training.window.rows", "4", "0"},
	}
	for _, step := range steps {
		next := strings.Replace(was, step.before, step.after, 1)
		if next == was {
			t.Fatalf("the file has no %q:\n%s", step.before, was)
		}
		was = next
		write(t, config, was)
		from := len(d.log.String())
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, says("the log has "+step.log), func() bool {
			return strings.Contains(d.log.String()[from:], step.log)
		})
		d.awaitMetric(`embedd_config_generation{pipeline="digits"}`, step.generation)
		d.awaitMetric(`embedd_condition{blocks="nothing",condition="reload",pipeline="digits"}`, step.failed)
	}
	said := succeed(t, "reload", "--server", s.ClientURL())
	if !strings.Contains(said, "generation 4, nothing changed; these need a restart: nats.ack_wait") {
		t.Errorf("embedd reload says %s", said)
	}
	write(t, config, strings.Replace(was, "evidence: 5000", "evidence: high", 1))
	if _, said, code := run(t, "reload", "--server", s.ClientURL()); code != 1 || !strings.Contains(said, "embedd.yaml:") {
		t.Errorf("embedd reload of a wrong file ends with %d and says %s", code, said)
	}
	for i := range 20 {
		if i == 10 {
			d.kill()
			d = startDaemon(t, config)
		}
		generation, _ := strconv.Atoi(d.metric(`embedd_config_generation{pipeline="digits"}`))
		write(t, config, strings.Replace(was, "evidence: 5000", fmt.Sprint("evidence: ", 100+i), 1))
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		d.awaitMetric(`embedd_config_generation{pipeline="digits"}`, fmt.Sprint(generation+1))
	}
	<-done
	c.await("REDUCED", n)
	c.settled("FEATURES", "digits")
	once(t, "FEATURES", 1, n, c.read("REDUCED"))
	d.stop()
	if log := d.log.String(); !strings.Contains(log, "msg=drained") || !strings.Contains(log, "level=DEBUG") {
		t.Errorf("after SIGTERM it says\n%s", log)
	}
}
