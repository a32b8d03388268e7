package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// member is who holds a lease of a group.
type member struct {
	claim Claim
	seen  time.Time // when it was last renewed, by our clock
}

// WatchMembers tells who is there until ctx is done: the last tokens of the keys of a group, GROUP.NAME, whose leases somebody
// holds, whenever they have changed. Each has to be renewed within so long; mine says which process asks.
func (b *Bucket) WatchMembers(ctx context.Context, group string, life time.Duration, mine Claim, changed func([]string)) {
	there, last := map[string]member{}, []string(nil)
	tick := time.NewTicker(life / 10)
	defer tick.Stop()
	for ctx.Err() == nil {
		w, err := b.kv.Watch(ctx, group+".*")
		if err != nil {
			b.log.Debug("a group of leases cannot be watched; trying again", "group", group, "error", err)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			continue
		}
		for whole, open := false, true; open && ctx.Err() == nil; {
			var entry jetstream.KeyValueEntry
			select {
			case entry, open = <-w.Updates():
				if !open { // the watch has ended, and says nothing of who is there
					break
				}
				if whole = whole || entry == nil; entry != nil {
					updateMember(there, strings.TrimPrefix(entry.Key(), group+"."), entry)
				}
			case <-tick.C:
			case <-ctx.Done():
			}
			// A mark can be missing after the bucket's leader changed, and who died here is known sooner.
			for name, m := range there {
				if time.Since(m.seen) > life*3/2 || hasDied(&m.claim, &mine) {
					delete(there, name)
				}
			}
			var now []string
			for name := range there {
				now = append(now, name)
			}
			if slices.Sort(now); whole && !slices.Equal(now, last) {
				last = now
				changed(slices.Clone(now))
			}
		}
		_ = w.Stop()
		select { // no watch ends sooner than the next begins
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func updateMember(there map[string]member, name string, entry jetstream.KeyValueEntry) {
	c, ok := parseClaim(entry.Value())
	if entry.Operation() != jetstream.KeyValuePut || !ok {
		delete(there, name)
		return
	}
	there[name] = member{c, time.Now()}
}
