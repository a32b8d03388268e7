package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// care finds the message of which processes die while they learn from it. The hot path has answered and acknowledged it
// by then, so nothing counts its deliveries, and the reader would come to it again at each start.
//
// What is counted is starts after which learning did not come to the end of what was there. From the third on the
// process is careful until it has: it learns block by block, notes each before it begins, in the state bucket, and
// waits until all of it is learned. The block in which a process before it died it takes message by message. A message
// that was alone twice when the process died is set aside. Where that does not help, or no message is to blame,
// learning stops and the pipeline goes on answering: it is never a crash loop.
type care struct {
	*pipeline
	note    careNote // as it was found, then as it was written
	legacy  careNote // that an earlier version left in the consumer's metadata
	danger  span     // where a process before this one died
	block   span     // what is learned now
	goal    uint64   // number of the last message that was there when learning began
	settled bool     // learning has come there, and nothing is under way

	aside   atomic.Int64
	stopped atomic.Bool
}

// careNote is the value of the trainer's key in the state bucket.
type careNote struct {
	Created int64 `json:"stream_created,omitempty"` // of the input stream, in nanoseconds

	Starts int      `json:"starts"`          // in a row that did not come to the end
	From   uint64   `json:"from,omitempty"`  // the block that was begun last
	To     uint64   `json:"to,omitempty"`    //
	Alone  uint64   `json:"alone,omitempty"` // the message that was tried alone last
	Tries  int      `json:"tries,omitempty"` // how often
	Aside  []uint64 `json:"aside,omitempty"` // messages that are not learned from, oldest first
	Row    int      `json:"row,omitempty"`   // how many of them were set aside since learning came to the end last
}

// noteTimeout is how long learning waits for the server to take a note.
const noteTimeout = 5 * time.Second

const (
	metaCare  = "embedd_learning" // key of the consumer's metadata under which earlier versions noted it
	careBlock = 256               // messages
	// carelessStarts is how many starts in a row are as any, maxTries how often a message may be alone when the process
	// dies.
	carelessStarts = 2
	maxTries       = 2
	// maxRow is how many messages in a row are set aside, and maxStarts how many starts in a row there are, before
	// learning stops: then it is not the messages.
	maxRow    = 3
	maxStarts = 20
	maxAside  = 64 // that are remembered
)

// newCare counts a start.
func newCare(ctx context.Context, p *pipeline) *care {
	c := &care{pipeline: p}
	p.care.Store(c)
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	input, err := p.JS.Stream(ctx, p.Stream)
	if err == nil {
		c.goal = input.CachedInfo().State.LastSeq
		c.readLegacy(ctx)
		err = c.write(ctx, func(n *careNote) { n.Starts++ })
	}
	if err != nil {
		p.Log.Debug("that learning begins is not noted: it is not known where a process dies that learns", "error", err)
	}
	c.danger = span{c.note.From, c.note.To}
	c.aside.Store(int64(len(c.note.Aside)))
	if c.note.Row >= maxRow || c.note.Starts > maxStarts {
		c.stop()
	}
	return c
}

// stop ends learning for this process. After a start that is not one after a death it is tried again.
func (c *care) stop() {
	c.stopped.Store(true)
	c.turned(fmt.Sprintf("learning is stopped: the process died %d times in a row while it learned, and no single message is the reason (%d were set aside). Answers go on with the model that is live. See what it died of, give it more memory or a smaller training.window, and restart the daemon; then learning begins again",
		c.note.Starts-1, len(c.note.Aside)))
}

// write changes the note.
func (c *care) write(ctx context.Context, change func(*careNote)) error {
	_, err := c.State.Modify(ctx, statestore.TrainingKey(c.Name), func(old []byte) ([]byte, error) {
		var n careNote
		if json.Unmarshal(old, &n) != nil || n.Created != c.Created.UnixNano() {
			n = c.legacy // none, unreadable, or of another stream under the same name
		}
		change(&n)
		n.Created = c.Created.UnixNano()
		c.note = n
		return json.Marshal(n)
	})
	return err
}

// readLegacy reads the note of an earlier version.
func (c *care) readLegacy(ctx context.Context) {
	consumer, err := c.JS.Consumer(ctx, c.Stream, c.whole.durable)
	if err == nil {
		_ = json.Unmarshal([]byte(consumer.CachedInfo().Config.Metadata[metaCare]), &c.legacy) // unreadable is none
	}
}

// insist writes the note before something begins of which the process may die.
func (c *care) insist(ctx context.Context, change func(*careNote)) {
	for attempt := 0; attempt < patience; attempt++ {
		err := c.write(ctx, change)
		if err == nil {
			return
		}
		if attempt == patience-1 {
			c.Log.Warn("what is learned next cannot be written down before it begins", "error", err)
		}
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

// may tells whether a message may be learned from now, once what came before it is learned where that has to be known.
func (c *care) may(ctx context.Context, seq uint64, created time.Time) bool {
	switch {
	case c.stopped.Load():
		return false
	case !created.Equal(c.Created):
		return true // of another stream, or under other numbers
	case slices.Contains(c.note.Aside, seq):
		c.skipped(seq)
		return false
	case c.note.Starts <= carelessStarts || c.settled || seq > c.goal:
		return true
	case c.block.first <= seq && seq <= c.block.last:
		return true
	}
	if c.Running.Wait(ctx) != nil {
		return false
	}
	if c.danger.first <= seq && seq <= c.danger.last {
		return c.alone(ctx, seq)
	}
	c.block = span{seq, seq + careBlock - 1}
	if seq < c.danger.first {
		c.block.last = min(c.block.last, c.danger.first-1)
	}
	c.insist(ctx, func(n *careNote) { n.From, n.To = c.block.first, c.block.last })
	return true
}

// alone learns from one message with nothing else under way, or sets it aside.
func (c *care) alone(ctx context.Context, seq uint64) bool {
	c.block = span{seq, seq}
	if c.note.Alone != seq || c.note.Tries < maxTries {
		c.insist(ctx, func(n *careNote) {
			if n.Alone != seq {
				n.Alone, n.Tries = seq, 0
			}
			n.From, n.To = seq, seq
			n.Tries++
		})
		return true
	}
	c.insist(ctx, func(n *careNote) {
		n.Aside = append(n.Aside, seq)
		n.Aside = n.Aside[max(0, len(n.Aside)-maxAside):]
		n.From, n.To, n.Alone, n.Tries = 0, 0, 0, 0
		n.Row++
	})
	c.aside.Store(int64(len(c.note.Aside)))
	c.skipped(seq)
	if c.note.Row >= maxRow {
		c.stop()
	}
	return false
}

// skipped tells that a message is not learned from.
func (c *care) skipped(seq uint64) {
	c.turned(fmt.Sprintf("message %s:%d is set aside: the process died each time that it learned from it, %d times with nothing else under way. It is answered and not learned from; 'nats stream get %s %d' shows it",
		c.Stream, seq, maxTries, c.Stream, seq))
}

// settle notes that learning has come to the end of what was there, and has nothing under way.
func (c *care) settle(ctx context.Context, atEnd bool) {
	if c.settled || c.stopped.Load() || !atEnd || c.Running.Status().Fitting {
		return
	}
	if err := c.write(ctx, (*careNote).end); err != nil {
		c.Log.Debug("that learning came to the end is not noted", "error", err)
		return
	}
	c.settled = true
}

// end notes that the process ends because it was told to.
func (c *care) end(ctx context.Context) {
	if c.settled {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := c.write(ctx, (*careNote).end); err != nil {
		c.Log.Debug("that learning ends is not noted", "error", err)
	}
}

func (n *careNote) end() { *n = careNote{Aside: n.Aside} }
