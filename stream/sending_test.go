package stream

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/summaries"
)

// sends is a pipeline of an edge that takes its input before it has a model.
func sends(domain string) Pipeline {
	p := blocks()
	p.Role, p.Models.Hub, p.Edges, p.Stage.Until = RoleTransform, "hub", []string{domain}, plugin.UntilSkip
	return p
}

// TestEdgeGoesOnUnsent: an edge that cannot send takes its input all the same, and says why it sends nothing; it sends once
// it can. Here another stream has the subjects, as a disk may have no room.
func TestEdgeGoesOnUnsent(t *testing.T) {
	t.Parallel()
	f := newSpokes(t, "berlin")
	berlin := f.edges["berlin"]
	berlin.make(jetstream.StreamConfig{Name: "other", Subjects: []string{"$KV.EMBEDD_EDGE.>"}})
	f.blocks("berlin", 2)
	r := berlin.replica(sends("berlin"))
	said := func() (text string) {
		if all := r.Status(); len(all) > 0 {
			text = all[0].Learning
		}
		return text
	}
	berlin.acknowledged("p")
	berlin.eventually(func() any { return said() }, func() bool {
		return strings.Contains(said(), "no summary of the input is sent to the hub") && strings.Contains(said(), "overlap")
	})
	if err := berlin.js.DeleteStream(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	berlin.eventually(func() any { return said() }, func() bool {
		return strings.Contains(said(), "summaries of the input are sent to the hub again")
	})
	berlin.stored(summaries.EdgeStream, summaries.EdgeSubjects("p")[0], 2)
	if err := berlin.js.DeleteStream(t.Context(), summaries.EdgeStream); err != nil {
		t.Fatal(err)
	}
	berlin.until("the stream of what is sent is made anew", func() bool {
		_, err := berlin.js.Stream(t.Context(), summaries.EdgeStream)
		return err == nil
	})
	berlin.stored(summaries.EdgeStream, summaries.EdgeSubjects("p")[0], 2)
}

// TestEdgeGoesOnUnnamed: so it is where its domain is not among those that the hub takes.
func TestEdgeGoesOnUnnamed(t *testing.T) {
	t.Parallel()
	f := newSpokes(t, "berlin")
	berlin := f.edges["berlin"]
	f.blocks("berlin", 1)
	r := berlin.replica(sends("rome"))
	berlin.acknowledged("p")
	berlin.until("the status says that the domain is not named", func() bool {
		all := r.Status()
		return len(all) > 0 && strings.Contains(all[0].Learning, `the JetStream domain of this server is "berlin"`)
	})
}
