package integration

import (
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
	d = startDaemon(t, config)
	d.end(syscall.SIGHUP)
	if log := d.log.String(); d.cmd.ProcessState.ExitCode() != 0 || !strings.Contains(log, "msg=drained") {
		t.Errorf("after SIGHUP it ended with %d and says\n%s", d.cmd.ProcessState.ExitCode(), log)
	}
}
