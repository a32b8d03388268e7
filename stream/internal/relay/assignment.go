package relay

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/embedd/embedd/stream/internal/needs"
)

// assign assigns each partition to a member, with rendezvous hashing: each member has a weight for each partition, and
// the member with the highest weight gets it that has not its share yet, among partitions of the same number. So few
// partitions move when a member joins or leaves. All members compute the same assignment, in whatever order they know
// the partitions and members.
func assign(partitions []needs.Partition, members []string) map[needs.Partition]string {
	out := map[needs.Partition]string{}
	if len(members) == 0 {
		return out
	}
	slices.SortFunc(partitions, func(a, b needs.Partition) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Number, b.Number))
	})
	assigned := map[string]int{} // among partitions of the present number
	for i, q := range partitions {
		if i == 0 || partitions[i-1].Of != q.Of {
			clear(assigned)
		}
		share := (max(q.Of, 1) + len(members) - 1) / len(members)
		best := slices.MaxFunc(members, func(a, b string) int {
			return cmp.Or(-cmp.Compare(assigned[a]/share, assigned[b]/share), cmp.Compare(weight(q, a), weight(q, b)),
				-cmp.Compare(a, b))
		})
		out[q] = best
		assigned[best]++
	}
	return out
}

// weight is a hash of a partition and a member.
func weight(q needs.Partition, member string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(q.String() + " " + member))
	n := h.Sum64() // its last steps mix the low bits only
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	n = (n ^ n>>29) * 0xbf58476d1ce4e5b9
	return n ^ n>>32
}
