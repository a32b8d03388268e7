package report

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// Progress shows how far a long step is: one line that rewrites itself on a terminal, elsewhere a plain line every few
// seconds, so that a log file stays readable. A step that reports nothing for a while is shown again with the seconds
// since its last report. It is safe for concurrent use.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	next     time.Time // the earliest time of the next line
	shown    bool      // the last line of the terminal is a progress line
	silence  time.Duration
	phase    string // the last report, and its time
	reported time.Time
	quit     chan struct{} // ends watch; nil if it does not run
	ended    chan struct{}
}

const (
	terminalPace = 100 * time.Millisecond
	plainPace    = 5 * time.Second
)

// NewProgress shows progress on stderr. The first plain line comes after plainPace, so that short work prints nothing.
func NewProgress(e *cli.Env) *Progress {
	p := &Progress{w: e.Stderr, terminal: cli.IsTerminal(e.Stderr), silence: plainPace}
	if !p.terminal {
		p.next = time.Now().Add(plainPace)
	}
	return p
}

// Show reports that phase is at done, between 0 and 1. A negative done means that the share is unknown.
func (p *Progress) Show(phase string, done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done >= 0 {
		phase = fmt.Sprintf("%s %3.0f %%", phase, 100*min(done, 1))
	}
	p.phase, p.reported = phase, time.Now()
	if p.quit == nil {
		p.quit, p.ended = make(chan struct{}), make(chan struct{})
		go p.watch(p.quit, p.ended, p.silence)
	}
	p.print(phase)
}

// watch shows a step again that reports nothing.
func (p *Progress) watch(quit, ended chan struct{}, silence time.Duration) {
	defer close(ended)
	tick := time.NewTicker(silence / 5)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			p.mu.Lock()
			if since := time.Since(p.reported); since >= silence {
				p.print(fmt.Sprintf("%s, %.0f s in this step", p.phase, since.Seconds()))
			}
			p.mu.Unlock()
		}
	}
}

// print writes a line if the last one is old enough. The caller holds p.mu.
func (p *Progress) print(phase string) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", phase)
		p.next, p.shown = now.Add(terminalPace), true
		return
	}
	fmt.Fprintln(p.w, phase)
	p.next = now.Add(plainPace)
}

// End removes the line. The Progress may be used again.
func (p *Progress) End() {
	p.mu.Lock()
	quit, ended := p.quit, p.ended
	p.quit = nil
	p.mu.Unlock()
	if quit != nil {
		close(quit)
		<-ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
