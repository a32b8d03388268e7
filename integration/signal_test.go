package integration

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestHangup: SIGHUP drains, as SIGTERM does.
func TestHangup(t *testing.T) {
	s := startServer(t, nil)
	config := configFile(t, s.ClientURL(), learning)
	d := launch(t, config)
	<-d.done
	if log := d.log.String(); strings.Contains(log, "msg=serving") || d.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("without streams it ended with %d and says\n%s", d.cmd.ProcessState.ExitCode(), log)
	}
	succeed(t, "setup", "--apply", "-c", config)
	// The parent of these tests may have made this process ignore the signal, as nohup does, and the daemon would
	// inherit that: a signal with a handler here is not ignored there.
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGHUP)
	defer signal.Stop(taken)
	d = startDaemon(t, config)
	d.end(syscall.SIGHUP)
	if log := d.log.String(); d.cmd.ProcessState.ExitCode() != 0 || !strings.Contains(log, "msg=drained") {
		t.Errorf("after SIGHUP it ended with %d and says\n%s", d.cmd.ProcessState.ExitCode(), log)
	}
}
