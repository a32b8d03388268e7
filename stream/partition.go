package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
)

// A pipeline with partitions keeps order by key: the key is what stands for the wildcards of its subject. The stream
// itself puts each key into a partition, as it stores a message, and says so in two more tokens of the subject: how
// many there are, and which. So what was stored under another number, or before there was any, is told from what
// comes now.

// bindPartitions looks whether the stream keeps the pipeline's partitions, and opens their leases.
func (e *Engine) bindPartitions(ctx context.Context, p *relay) error {
	if err := needs.PartitionServer(p.Conn.ConnectedServerVersion()); err != nil {
		return err
	}
	if f := needs.PartitionFault(&p.Pipeline, &p.Input.CachedInfo().Config); f != nil {
		return f
	}
	bucket, err := e.stores.Leases(ctx, p.Scope)
	if errors.Is(err, lease.ErrOldServer) {
		return fmt.Errorf("input.partitions: %w", err)
	}
	if err != nil {
		return err
	}
	p.seats = bucket
	p.earlier, err = p.former(ctx)
	return err
}

// shares says which member is to hold which partition. Each member has a number for each partition, and the highest
// has it that has not its share yet, of those of the same number. So when one comes or goes, few partitions change
// hands beside those that it has, or had. All members come to the same, in whatever order they know of partitions and
// members.
func shares(parts []needs.Partition, members []string) map[needs.Partition]string {
	out := map[needs.Partition]string{}
	if len(members) == 0 {
		return out
	}
	slices.SortFunc(parts, func(a, b needs.Partition) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Number, b.Number))
	})
	has := map[string]int{} // of the number at hand
	for i, q := range parts {
		if i == 0 || parts[i-1].Of != q.Of {
			clear(has)
		}
		most := (max(q.Of, 1) + len(members) - 1) / len(members)
		best := slices.MaxFunc(members, func(a, b string) int {
			return cmp.Or(-cmp.Compare(has[a]/most, has[b]/most), cmp.Compare(weight(q, a), weight(q, b)), -cmp.Compare(a, b))
		})
		out[q] = best
		has[best]++
	}
	return out
}

// weight is the number of a member for a partition.
func weight(q needs.Partition, member string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(q.String() + " " + member))
	n := h.Sum64() // its last steps mix the low bits alone
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	n = (n ^ n>>29) * 0xbf58476d1ce4e5b9
	return n ^ n>>32
}
