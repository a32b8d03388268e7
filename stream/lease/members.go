package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// member is the holder of a lease of a group.
type member struct {
	claim Claim
	seen  time.Time // when it was last renewed, by this clock
}

// WatchMembers calls changed with the members of a group, at first and whenever they change, until ctx is done. A
// member is the last token of a key GROUP.NAME whose lease is held and was renewed within ttl. own is the claim of
// this process.
func (b *Bucket) WatchMembers(ctx context.Context, group string, ttl time.Duration, own Claim, changed func([]string)) {
	there, last := map[string]member{}, []string(nil)
	tick := time.NewTicker(ttl / 10)
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
				if !open { // the watch has ended, so the members are not known
					break
				}
				if whole = whole || entry == nil; entry != nil {
					updateMember(there, strings.TrimPrefix(entry.Key(), group+"."), entry)
				}
			case <-tick.C:
			case <-ctx.Done():
			}
			// A delete marker can be missing after the bucket's leader changed, and a crash on this machine is known sooner.
			for name, m := range there {
				if time.Since(m.seen) > ttl*3/2 || hasDied(&m.claim, &own) {
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
