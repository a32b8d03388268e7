package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// Claims are the blocks that one replica makes. Whoever claims a block writes the claim anew while it works, so one that
// has stood still for a while is of a process that is gone: another takes it. It is by the own clock of who looks that it
// has stood still.
type Claims struct {
	collection *Collection
	owner      string
	life       time.Duration
	seen       map[uint64]observedClaim // claims of others
}

// observedClaim is a claim as it was first seen.
type observedClaim struct {
	revision uint64
	since    time.Time
}

// claim is what the key of a claim holds.
type claim struct {
	Owner    string `json:"owner"`
	Attempts int    `json:"attempts"` // how many have claimed the block, this one counted
}

// Claims are those of an owner, whose name nobody else has. A claim ends when it was not written for its life.
func (s *Collection) Claims(owner string, life time.Duration) *Claims {
	return &Claims{collection: s, owner: owner, life: life, seen: map[uint64]observedClaim{}}
}

// Claim is a block that is claimed.
type Claim struct {
	Attempts int // how many have claimed it, this one counted: they were not stopped, they ended

	claims   *Claims
	n        uint64
	stop     context.CancelFunc
	renewal  sync.WaitGroup
	revision uint64
}

func (c *Claims) key(n uint64) string { return c.collection.block(n) + ".claim" }

// TryClaim claims a block; nil where another has it. Who takes it ends it.
func (c *Claims) TryClaim(ctx context.Context, n uint64) (*Claim, error) {
	there, err := c.collection.get(ctx, c.key(n))
	if err != nil {
		return nil, err
	}
	mine := claim{Owner: c.owner, Attempts: 1}
	revision := uint64(0)
	if there != nil {
		var other claim
		_ = json.Unmarshal(there.Data, &other) // what is no claim ends as one
		last, known := c.seen[n]
		if !known || last.revision != there.Sequence {
			c.seen[n] = observedClaim{there.Sequence, time.Now()}
			return nil, nil
		}
		if time.Since(last.since) < c.life {
			return nil, nil
		}
		mine.Attempts, revision = other.Attempts+1, there.Sequence
	}
	delete(c.seen, n)
	taken := &Claim{Attempts: mine.Attempts, claims: c, n: n}
	if err := taken.write(ctx, mine, revision); err != nil {
		if errors.Is(err, natsx.ErrConflict) {
			err = nil
		}
		return nil, err
	}
	keep, stop := context.WithCancel(ctx)
	taken.stop = stop
	taken.renewal.Go(func() { taken.renew(keep, mine) })
	return taken, nil
}

// write sets the claim, and reads at which revision it is now.
func (t *Claim) write(ctx context.Context, mine claim, revision uint64) error {
	value, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	at, err := t.claims.collection.put(ctx, t.claims.key(t.n), value, revision)
	if err == nil {
		t.revision = at
	}
	return err
}

// renew writes the claim again and again, so that others see that its owner lives.
func (t *Claim) renew(ctx context.Context, mine claim) {
	every := time.NewTicker(t.claims.life / 4)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if errors.Is(t.write(ctx, mine, t.revision), natsx.ErrConflict) {
				return // another thinks that we are gone; both make the same bytes
			}
		case <-ctx.Done():
			return
		}
	}
}

// Release gives the block up: made, or left to whoever comes next.
func (t *Claim) Release(ctx context.Context) error {
	t.stop()
	t.renewal.Wait()
	return t.claims.collection.remove(ctx, t.claims.key(t.n))
}

// Forget leaves out what was seen of blocks before one.
func (c *Claims) Forget(before uint64) {
	for n := range c.seen {
		if n < before {
			delete(c.seen, n)
		}
	}
}
