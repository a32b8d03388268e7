package cli

import (
	"context"
	"io"
)

// Input returns standard input. A read that waits for it ends when ctx is cancelled, so that the first signal ends a
// verb whose sender is silent. The goroutine of that read ends with the process, or when the sender sends.
func (e *Env) Input(ctx context.Context) io.Reader { return &input{ctx: ctx, in: e.Stdin} }

type input struct {
	ctx  context.Context
	in   io.Reader
	held []byte // read, and not returned yet
	err  error  // that follows them
}

func (r *input) Read(p []byte) (int, error) {
	if len(r.held) == 0 && r.err == nil {
		type result struct {
			b   []byte
			err error
		}
		done := make(chan result, 1)
		go func() {
			b := make([]byte, max(len(p), 512)) // p is the caller's once Read returns
			n, err := r.in.Read(b)
			done <- result{b[:n], err}
		}()
		select {
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		case got := <-done:
			r.held, r.err = got.b, got.err
		}
	}
	if len(r.held) == 0 {
		return 0, r.err
	}
	n := copy(p, r.held)
	r.held = r.held[n:]
	return n, nil
}
