package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program that can be stopped, killed and started again. Its output goes to one file.
type process struct {
	path string
	args []string
	log  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.path, err)
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}

func (p *process) signal(s syscall.Signal) {
	if cmd, _ := p.now(); cmd != nil {
		_ = cmd.Process.Signal(s)
	}
}

func (p *process) now() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.done
}

// stop asks the process to end, and kills it after a timeout.
func (p *process) stop(most time.Duration) {
	_, done := p.now()
	if done == nil {
		return
	}
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(most):
		p.kill()
	}
}

// kill ends it with SIGKILL.
func (p *process) kill() {
	_, done := p.now()
	p.signal(syscall.SIGKILL)
	<-done
}

// ended reports whether it has ended by itself, and how.
func (p *process) ended() (string, bool) {
	cmd, done := p.now()
	select {
	case <-done:
		return cmd.ProcessState.String(), true
	default:
		return "", false
	}
}

// usage returns its current and maximum resident memory, in MiB, and its open files.
func (p *process) usage() (resident, most float64, files int) {
	cmd, _ := p.now()
	dir := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	status, _ := os.ReadFile(dir + "status")
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f", &kib); n == 1 {
			resident = kib / 1024
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %f", &kib); n == 1 {
			most = kib / 1024
		}
	}
	open, _ := os.ReadDir(dir + "fd")
	return resident, most, len(open)
}
