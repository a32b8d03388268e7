package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
)

// Claims are the claims of one replica on the blocks that it summarises. They save work, and guarantee nothing. A claim
// is rewritten while its owner works. A claim expires if it has not changed for some time by the reader's clock, and
// another replica takes the block.
type Claims struct {
	collection *Collection
	owner      string
	ttl        time.Duration
	others     map[uint64]observedClaim // by block
}

// observedClaim is when another replica's claim was first seen at a revision.
type observedClaim struct {
	revision uint64
	since    time.Time
}

// claim is the value of a claim's key.
type claim struct {
	Owner    string `json:"owner"`
	Attempts int    `json:"attempts"` // replicas that have claimed the block, this one included: the others crashed
}

// releaseTimeout is how long the end of a process waits for the server to delete a claim; after that it expires.
const releaseTimeout = 2 * time.Second

// Claims returns the claims of an owner with a unique name. A claim expires when it was not rewritten for a time.
func (s *Collection) Claims(owner string, ttl time.Duration) *Claims {
	return &Claims{collection: s, owner: owner, ttl: ttl, others: map[uint64]observedClaim{}}
}

// Forget drops what was observed of blocks before one.
func (c *Claims) Forget(before uint64) {
	maps.DeleteFunc(c.others, func(n uint64, _ observedClaim) bool { return n < before })
}

// Work claims a block and runs work while it renews the claim. It returns false when another replica has the block.
// Work gets how many replicas have claimed the block, this one included: the others crashed.
func (c *Claims) Work(ctx context.Context, n uint64, work func(attempts int) error) (isClaimed bool, err error) {
	key := c.collection.block(n) + ".claim"
	stored, err := c.collection.get(ctx, key)
	if err != nil {
		return false, err
	}
	mine, revision := claim{c.owner, 1}, uint64(0)
	if stored != nil {
		last := c.others[n]
		if last.revision != stored.Sequence {
			c.others[n] = observedClaim{stored.Sequence, time.Now()}
			return false, nil
		}
		if time.Since(last.since) < c.ttl {
			return false, nil
		}
		var expired claim
		_ = json.Unmarshal(stored.Data, &expired) // a value that is no claim counts as an expired one
		mine.Attempts, revision = expired.Attempts+1, stored.Sequence
	}
	revision, err = c.collection.putJSON(ctx, key, mine, ifAt(revision))
	if err != nil {
		if errors.Is(err, natsx.ErrConflict) {
			err = nil
		}
		return false, err
	}
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for natsx.Sleep(renewing, c.ttl/4) {
			now, err := c.collection.putJSON(renewing, key, mine, ifAt(revision))
			if errors.Is(err, natsx.ErrConflict) {
				return // another replica took this one for crashed; both make the same bytes
			}
			if err == nil {
				revision = now
			}
		}
	})
	err = work(mine.Attempts)
	stop()
	renewal.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return true, errors.Join(err, c.collection.remove(ctx, key))
}
