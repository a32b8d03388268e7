package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// Claims are the blocks that one replica summarizes. It rewrites each claim while it works. A claim that has not
// changed for a while, by the reader's clock, belongs to a process that has ended, and another replica takes the
// block.
type Claims struct {
	collection *Collection
	owner      string
	life       time.Duration
	seen       map[uint64]observedClaim // claims of other replicas
}

// observedClaim is another replica's claim when it was first seen at a revision.
type observedClaim struct {
	revision uint64
	since    time.Time
}

// claim is the value of a claim's key.
type claim struct {
	Owner    string `json:"owner"`
	Attempts int    `json:"attempts"` // how many have claimed the block, this one counted
}

// Claims returns those of an owner with a unique name. A claim expires when it was not rewritten for a time.
func (s *Collection) Claims(owner string, life time.Duration) *Claims {
	return &Claims{collection: s, owner: owner, life: life, seen: map[uint64]observedClaim{}}
}

// Claim is a claimed block.
type Claim struct {
	Attempts int // how many have claimed it, this one counted: they were not stopped, they ended

	claims   *Claims
	n        uint64
	stop     context.CancelFunc
	renewal  sync.WaitGroup
	revision uint64
}

func (c *Claims) key(n uint64) string { return c.collection.block(n) + ".claim" }

// TryClaim claims a block; nil if another replica has it. The caller releases it.
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

// write stores the claim and notes its revision.
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

// renew rewrites the claim periodically, which shows that its owner is alive.
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

// Release ends the claim: the summary is stored, or left to another replica.
func (t *Claim) Release(ctx context.Context) error {
	t.stop()
	t.renewal.Wait()
	return t.claims.collection.remove(ctx, t.claims.key(t.n))
}

// Forget drops what was observed of blocks before one.
func (c *Claims) Forget(before uint64) {
	for n := range c.seen {
		if n < before {
			delete(c.seen, n)
		}
	}
}
