package embedd_test

import (
	"strings"
	"testing"
)

// TestDeployment: the systemd unit and the image run embedd without privileges, and the image has no other program. The
// unit leaves what internal/cores, internal/stage and stream/internal/lease use of the kernel.
func TestDeployment(t *testing.T) {
	unit := readPage(t, "deploy/embedd.service")
	if !strings.Contains(unit, "\nDynamicUser=yes\n") {
		t.Error("deploy/embedd.service does not run as a dynamic user")
	}
	if strings.Contains(unit, "\nProcSubset=pid\n") {
		t.Error("deploy/embedd.service hides /proc/stat and the boot ID of the machine")
	}
	_, last, denies := strings.Cut(unit, "\nSystemCallFilter=~@privileged @resources\n")
	if denies && !strings.Contains(last, "\nSystemCallFilter=setpriority\n") {
		t.Error("deploy/embedd.service denies setpriority, so training would not have a lower priority")
	}
	_, image, _ := strings.Cut(readPage(t, "deploy/Dockerfile"), "\nFROM scratch\n")
	if !strings.Contains(image, "\nUSER 65532:65532\n") {
		t.Error("deploy/Dockerfile does not set an unprivileged user")
	}
	for line := range strings.Lines(image) {
		isProgram := strings.HasPrefix(line, "COPY ") && strings.Contains(line, "bin/") &&
			!strings.Contains(line, "/out/embedd ")
		if isProgram || strings.HasPrefix(line, "RUN ") {
			t.Errorf("the image gets another program: %s", line)
		}
	}
}

// TestStartsNoPrograms: the binary starts no program but nsc, for a context of the nats CLI.
func TestStartsNoPrograms(t *testing.T) {
	eachGoFile(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tools/soak/") ||
			strings.HasPrefix(path, "tools/mutate/") || path == "tools/results/versus.go" ||
			path == "cmd/embedd/config/login.go" && strings.Count(text, "exec.Command") == 1 &&
				strings.Contains(text, `exec.CommandContext(ctx, "nsc", "generate", "profile", `) {
			return
		}
		for _, call := range []string{"exec.Command", "os.StartProcess", "syscall.Exec", "syscall.ForkExec", "plugin.Open"} {
			if strings.Contains(text, call+"(") || strings.Contains(text, call+"Context(") {
				t.Errorf("%s calls %s", path, call)
			}
		}
	})
}
