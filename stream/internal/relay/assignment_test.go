package relay

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
	"github.com/nats-io/nats.go"
)

// TestAssign: every member gets its share of the partitions, all compute the same assignment, and few partitions move
// when a member joins.
func TestAssign(t *testing.T) {
	p := spec.Pipeline{Name: "p", Stream: "in", Subject: "in.*", Partitions: 8}
	random := rand.New(rand.NewPCG(1, 2))
	var members []string
	for n := range 12 {
		parts, before := needs.Partitions(&p), assign(needs.Partitions(&p), members)
		members = append(members, nats.NewInbox())
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		is := assign(parts, members)
		random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		if !maps.Equal(is, assign(needs.Partitions(&p), members)) {
			t.Fatalf("%d members compute different shares", n+1)
		}
		has, moved := map[string]int{}, 0
		for q, who := range is {
			if q.Of > 0 {
				has[who]++
			}
			if n > 0 && before[q] != who {
				moved++
			}
		}
		for _, m := range members {
			if has[m] > (8+n)/(n+1) {
				t.Errorf("of %d members one has %d partitions of 8", n+1, has[m])
			}
		}
		t.Logf("member %d: %d of 9 change hands", n+1, moved)
	}
}
