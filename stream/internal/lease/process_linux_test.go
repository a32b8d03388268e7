package lease

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDead: a running process is not dead and an ended one is, whether or not its number was reused; of other machines,
// and of numbers without a process, nothing is known.
func TestDead(t *testing.T) {
	mine := NewClaim("me", nil)
	if mine.Process == "" {
		t.Skip("this system does not report it")
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	parts := strings.Fields(mine.Process)
	claim := func(pid int, began string) *Claim {
		return &Claim{Process: fmt.Sprintf("%s %s %d %s", parts[0], parts[1], pid, began)}
	}
	child := claim(cmd.Process.Pid, beganAt(cmd.Process.Pid))
	if hasDied(child, &mine) || hasDied(&mine, &mine) {
		t.Error("one that runs is taken for dead")
	}
	if !hasDied(claim(os.Getpid(), "1"), &mine) {
		t.Error("another with the number of one that ended is taken for it")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !hasDied(child, &mine) {
		t.Error("one that ended is not known to be dead")
	}
	elsewhere := &Claim{Process: "another-boot " + strings.Join(strings.Fields(child.Process)[1:], " ")}
	for _, unknown := range []*Claim{{}, elsewhere, {Process: "a b c d"}} {
		if hasDied(unknown, &mine) {
			t.Errorf("%+v is taken for dead", unknown)
		}
	}
}
