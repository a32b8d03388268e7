package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress shows how far a long step is: one line that rewrites itself on a terminal, a plain line now and then
// elsewhere, so that a log file stays readable. A step that says nothing for long is shown again, with the seconds since
// it last did. It is safe for concurrent use.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	next     time.Time // nothing is shown before
	shown    bool      // the terminal's last line is ours
	silence  time.Duration
	phase    string // what was said last, and when
	said     time.Time
	quit     chan struct{} // ends watch; nil: it does not run
	ended    chan struct{}
}

const (
	terminalPace = 100 * time.Millisecond
	plainPace    = 5 * time.Second
)

// newProgress shows on stderr. The first plain line comes after plainPace, so that short work says nothing.
func newProgress(e *env) *progress {
	p := &progress{w: e.stderr, terminal: isTerminal(e.stderr), silence: plainPace}
	if !p.terminal {
		p.next = time.Now().Add(plainPace)
	}
	return p
}

// show says that phase is at done, which is between 0 and 1; a negative done is not known.
func (p *progress) show(phase string, done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done >= 0 {
		phase = fmt.Sprintf("%s %3.0f %%", phase, 100*min(done, 1))
	}
	p.phase, p.said = phase, time.Now()
	if p.quit == nil {
		p.quit, p.ended = make(chan struct{}), make(chan struct{})
		go p.watch(p.quit, p.ended, p.silence)
	}
	p.print(phase)
}

// watch shows a step again that says nothing.
func (p *progress) watch(quit, ended chan struct{}, silence time.Duration) {
	defer close(ended)
	tick := time.NewTicker(silence / 5)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			p.mu.Lock()
			if since := time.Since(p.said); since >= silence {
				p.print(fmt.Sprintf("%s, %.0f s in this step", p.phase, since.Seconds()))
			}
			p.mu.Unlock()
		}
	}
}

// print writes a line, where it is time for one; p.mu is held.
func (p *progress) print(phase string) {
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

// end takes the line away. The progress may be used again.
func (p *progress) end() {
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
