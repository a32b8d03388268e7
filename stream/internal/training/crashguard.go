package training

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// crashGuard finds the message that crashes the process while it is learned, and quarantines it. The hot path has
// acknowledged that message by then, so the reader would learn it again at each start.
//
// It counts consecutive starts that did not reach the end of what was stored. From the third on, messages are learned
// in blocks, and each block is noted in the state bucket before it begins. The block in which a process crashed is
// learned message by message. A message that was alone in two crashes is quarantined. If no single message is the
// reason, learning stops and the pipeline continues to transform.
//
// The trainer and the replicas on standby have separate records: a standby fits nothing, so it reaches the end where a
// trainer crashes.
type crashGuard struct {
	*Path
	isStandby bool
	note      guardNote // as it was read, then as it was written; its guardRecord is the own one

	suspect run    // the block in which an earlier process crashed
	block   run    // that is learned now
	goal    uint64 // sequence number of the last message that was stored when learning began
	isAtEnd bool   // learning has reached it, and nothing is under way

	quarantined atomic.Int64
	isStopped   atomic.Bool
}

// guardNote is the value of the trainer's key in the state bucket.
type guardNote struct {
	Created int64 `json:"stream_created,omitempty"` // of the input stream, in nanoseconds

	// guardRecord is that of the trainer, Standby that of the replicas that read to become it.
	guardRecord
	Standby guardRecord `json:"standby,omitzero"`

	Quarantined []guardMessage `json:"quarantined,omitempty"` // oldest first
}

// guardMessage identifies a message. After an older copy of the stream is restored, a new message has the sequence of
// another one, and a different time.
type guardMessage struct {
	Seq    uint64 `json:"seq"`
	Stored int64  `json:"stored"` // when the message was stored, in nanoseconds
}

// guardRecord is what is known of the starts of processes with one role.
type guardRecord struct {
	Starts int          `json:"starts"`          // consecutive ones that did not reach the end
	Last   string       `json:"last,omitempty"`  // the Instance that started last
	From   uint64       `json:"from,omitempty"`  // the block that began last
	To     uint64       `json:"to,omitempty"`    //
	Single guardMessage `json:"single,omitzero"` // the message that was learned alone last
	Tries  int          `json:"tries,omitempty"` // how often that message was
	InARow int          `json:"row,omitempty"`   // messages quarantined since learning last reached the end
}

// noteTimeout is how long learning waits for the server to store a note.
const noteTimeout = 5 * time.Second

const (
	guardBlock = 256 // messages
	// maxPlainStarts is how many consecutive starts learn without blocks, maxTries how often a message may be alone when
	// the process crashes.
	maxPlainStarts = 2
	maxTries       = 2
	// maxInARow is how many messages are quarantined, and maxStarts how many consecutive starts there are, before
	// learning stops: then the messages are not the reason.
	maxInARow      = 3
	maxStarts      = 20
	maxQuarantined = 64 // that are noted
)

// newCrashGuard reads the note and counts a start, of the trainer or of a standby.
func newCrashGuard(ctx context.Context, p *Path, isStandby bool) *crashGuard {
	c := &crashGuard{Path: p, isStandby: isStandby}
	p.guard.Store(c)
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	input, err := p.JS.Stream(ctx, p.Stream)
	if err == nil {
		c.goal = input.CachedInfo().State.LastSeq
		err = c.write(ctx, func(n *guardNote) { n.Starts, n.Last = n.Starts+1, c.Instance })
	}
	if err != nil {
		p.Log.Debug("the start of learning cannot be recorded; a message that crashes the process would not be identified",
			"error", err)
	}
	c.suspect = run{c.note.From, c.note.To}
	c.quarantined.Store(int64(len(c.note.Quarantined)))
	if c.note.InARow >= maxInARow || c.note.Starts > maxStarts {
		c.stop()
	}
	return c
}

// stop ends learning for this process. The next start after an orderly stop tries again.
func (c *crashGuard) stop() {
	c.isStopped.Store(true)
	c.SetEvent(fmt.Sprintf("learning is stopped: the process crashed %d times in a row while it learned, and no "+
		"single message is the reason (%d are quarantined); the live model continues to answer. Find out why it "+
		"crashed, give it more memory or a smaller training.window, and restart the daemon",
		c.note.Starts-1, len(c.note.Quarantined)))
}

// write changes the note.
func (c *crashGuard) write(ctx context.Context, change func(*guardNote)) error {
	_, err := c.State.Modify(ctx, statestore.TrainingKey(c.Name), func(old []byte) ([]byte, error) {
		var n guardNote
		if json.Unmarshal(old, &n) != nil || n.Created != c.Created.UnixNano() {
			n = guardNote{} // none, unreadable, or of another stream under the same name
		}
		if c.isStandby {
			n.guardRecord, n.Standby = n.Standby, n.guardRecord
		}
		change(&n)
		n.Created = c.Created.UnixNano()
		c.note = n
		if c.isStandby {
			n.guardRecord, n.Standby = n.Standby, n.guardRecord
		}
		return json.Marshal(n)
	})
	return err
}

// writeFirst writes the note before something begins that may crash the process.
func (c *crashGuard) writeFirst(ctx context.Context, change func(*guardNote)) {
	for attempt := 0; attempt < maxQuietFailures; attempt++ {
		err := c.write(ctx, change)
		if err == nil {
			return
		}
		if attempt == maxQuietFailures-1 {
			c.Log.Warn("the next messages cannot be recorded before they are learned; one that crashes the process would "+
				"not be identified", "error", err)
		}
		if !natsx.Backoff(ctx, attempt) {
			return
		}
	}
}

// allows reports whether a message may be learned now. When it has to be known which message crashes the process, it
// waits until the earlier ones are learned.
func (c *crashGuard) allows(ctx context.Context, m *scope.Message, created time.Time) bool {
	seq := m.Origin.Seq
	id := guardMessage{seq, m.Time.UnixNano()}
	switch {
	case c.isStopped.Load():
		return false
	case !created.Equal(c.Created):
		return true // of another stream, or under other numbers
	case slices.Contains(c.note.Quarantined, id):
		c.reportQuarantined(seq)
		return false
	case c.note.Starts <= maxPlainStarts || c.isAtEnd || seq > c.goal:
		return true
	case c.block.first <= seq && seq <= c.block.last:
		return true
	}
	if c.Running.Wait(ctx) != nil {
		return false
	}
	if c.suspect.first <= seq && seq <= c.suspect.last {
		return c.tryAlone(ctx, id)
	}
	c.block = run{seq, seq + guardBlock - 1}
	if seq < c.suspect.first {
		c.block.last = min(c.block.last, c.suspect.first-1)
	}
	c.writeFirst(ctx, func(n *guardNote) { n.From, n.To = c.block.first, c.block.last })
	return true
}

// tryAlone lets one message be learned with nothing else under way, or quarantines it.
func (c *crashGuard) tryAlone(ctx context.Context, id guardMessage) bool {
	seq := id.Seq
	c.block = run{seq, seq}
	if c.note.Single != id || c.note.Tries < maxTries {
		c.writeFirst(ctx, func(n *guardNote) {
			if n.Single != id {
				n.Single, n.Tries = id, 0
			}
			n.From, n.To = seq, seq
			n.Tries++
		})
		return true
	}
	c.writeFirst(ctx, func(n *guardNote) {
		n.Quarantined = append(n.Quarantined, id)
		n.Quarantined = n.Quarantined[max(0, len(n.Quarantined)-maxQuarantined):]
		n.From, n.To, n.Single, n.Tries = 0, 0, guardMessage{}, 0
		n.InARow++
	})
	c.quarantined.Store(int64(len(c.note.Quarantined)))
	c.reportQuarantined(seq)
	if c.note.InARow >= maxInARow {
		c.stop()
	}
	return false
}

// reportQuarantined reports a message that is not learned.
func (c *crashGuard) reportQuarantined(seq uint64) {
	c.SetEvent(fmt.Sprintf("message %s:%d is quarantined: the process crashed each time it learned it, %d times "+
		"with no other message; it is answered and not learned; 'nats stream get %s %d' shows it",
		c.Stream, seq, maxTries, c.Stream, seq))
}

// markCaughtUp notes that learning has reached the end of what was stored, and has nothing under way.
func (c *crashGuard) markCaughtUp(ctx context.Context, isAtEnd bool) {
	if c.isAtEnd || c.isStopped.Load() || !isAtEnd || c.Running.Status().Fitting {
		return
	}
	c.isAtEnd = c.reset(ctx)
}

// reset notes that learning is in order: the counts of crashes begin again, and quarantined messages stay. If another
// replica has started since then, the record is about that one, except for the start of this one.
func (c *crashGuard) reset(ctx context.Context) bool {
	err := c.write(ctx, func(n *guardNote) {
		if n.Last == c.Instance {
			n.guardRecord = guardRecord{}
		} else {
			n.Starts = max(n.Starts-1, 0)
		}
	})
	if err != nil {
		c.Log.Debug("it cannot be recorded that learning did not crash", "error", err)
	}
	return err == nil
}

// close notes that the process stops in order.
func (c *crashGuard) close(ctx context.Context) {
	if c.isAtEnd {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	c.reset(ctx)
}
