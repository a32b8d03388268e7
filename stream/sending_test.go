package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/internal/summaries"
)

// sends is a pipeline of an edge that takes its input before it has a model.
func sends(domain string) Pipeline {
	p := blockPipeline()
	p.Role, p.Models.Hub, p.Edges, p.Stage.Until = RoleTransform, "hub", []string{domain}, plugin.UntilSkip
	p.Stage.Spec.Sizes = map[string]int{"x": 4} // there may be no hub that decides on the schema
	return p
}

// TestEdgeCannotSend: an edge that cannot send answers its input nevertheless, reports why it does not send, and
// sends once it can. Here another stream has the subjects; a full disk has the same effect.
func TestEdgeCannotSend(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	berlin.make(jetstream.StreamConfig{Name: "other", Subjects: []string{"$KV.EMBEDD_EDGE.>"}})
	f.blocks("berlin", 2)
	r := berlin.replica(sends("berlin"))
	said := func() (text string) {
		if all := r.Status(); len(all) > 0 {
			text = all[0].InputEvent
		}
		return text
	}
	berlin.acknowledged("p@berlin")
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
	berlin.until("the stream of what is sent is recreated", func() bool {
		_, err := berlin.js.Stream(t.Context(), summaries.EdgeStream)
		return err == nil
	})
	berlin.stored(summaries.EdgeStream, summaries.EdgeSubjects("p")[0], 2)
}

// TestEdgeTooSmall: a summary that is larger than the edge's stream is not sent in parts that would remove each other;
// the status reports it, and it is sent once there is room.
func TestEdgeTooSmall(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	f.blocks("berlin", 2)
	p := sends("berlin")
	p.EdgeBytes = 1000
	berlin.planned(p, summaries.EdgeStream, true)
	before := berlin.state(summaries.EdgeStream).LastSeq
	r := berlin.replica(p)
	berlin.until("the status says that there is no room", func() bool {
		all := r.Status()
		return len(all) > 0 && strings.Contains(all[0].InputEvent, "set nats.edge_bytes to 1 MiB or more")
	})
	if n := berlin.state(summaries.EdgeStream).LastSeq; n != before {
		t.Errorf("the stream of what was sent has had %d messages", n-before)
	}
	p.EdgeBytes = 64 << 20
	berlin.planned(p, summaries.EdgeStream, true)
	berlin.stored(summaries.EdgeStream, summaries.EdgeSubjects("p")[0], 2)
}

// TestEdgeSendsOnce: what was sent is not sent again where the stream has lost the notice of it, as where another
// pipeline's push it out.
func TestEdgeSendsOnce(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	notices := summaries.EdgeSubjects("p")[0]
	f.blocks("berlin", 2)
	f.summing("berlin", sends("berlin"))
	berlin.stored(summaries.EdgeStream, notices, 2)
	bucket, err := berlin.js.Stream(t.Context(), summaries.Stream)
	if err != nil {
		t.Fatal(err)
	}
	berlin.until("what was sent is kept", func() bool {
		m, err := bucket.GetLastMsgForSubject(t.Context(), "$KV."+summaries.BucketName+".p.sent")
		return err == nil && strings.Contains(string(m.Data), fmt.Sprintf(`"last":%d,`, 2*sharedBlock))
	})
	stream, err := berlin.js.Stream(t.Context(), summaries.EdgeStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.blocks("berlin", 4)
	var got []uint64
	for _, m := range berlin.stored(summaries.EdgeStream, notices, 2) {
		var n summaries.Notice
		if err := json.Unmarshal(m.Data, &n); err != nil {
			t.Fatal(err)
		}
		got = append(got, n.Last)
	}
	if want := []uint64{3 * sharedBlock, 4 * sharedBlock}; !slices.Equal(got, want) {
		t.Errorf("summaries up to the messages %v were sent, of %v", got, want)
	}
}

// TestEdgeGoesOnUnnamed: so it is where its domain is not among those that the hub takes.
func TestEdgeGoesOnUnnamed(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	f.blocks("berlin", 1)
	r := berlin.replica(sends("rome"))
	berlin.acknowledged("p@berlin")
	berlin.until("the status says that the domain is not named", func() bool {
		all := r.Status()
		return len(all) > 0 && strings.Contains(all[0].InputEvent, `the JetStream domain of this server is "berlin"`)
	})
}

// examined are the findings of a check at a site about edges.
func (s *site) examined(p Pipeline) (faults, all string) {
	s.Helper()
	found, err := admin.Diagnose(s.Context(), admin.Options{Conn: s.js.Conn(), Pipelines: []Pipeline{p}})
	if err != nil {
		s.Fatal(err)
	}
	for _, one := range found {
		if one.Check == "edges" && one.Level == admin.LevelFault {
			faults += one.Text + "\n"
		}
		all += fmt.Sprintf("%s %s: %s\n", one.Level, one.Check, one.Text)
	}
	return faults, all
}

// TestCheckOfEdges: check reports at an edge that its domain is not named, and at the hub which edge it does not read.
func TestCheckOfEdges(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	berlin := f.edges["berlin"]
	hub := blockPipeline()
	hub.Role, hub.Edges = RoleTrain, []string{"berlin"}
	f.hub.planned(hub, summaries.HubStream, true)
	berlin.planned(sends("berlin"), summaries.EdgeStream, true)
	for _, one := range []struct {
		at     *site
		named  string
		faults string
	}{
		{berlin, "berlin", ""}, {berlin, "rome", `the JetStream domain of this server is "berlin"`},
		{f.hub, "berlin", ""}, {f.hub, "rome", "does not take the summaries of rome"},
	} {
		p := sends(one.named)
		if one.at == f.hub {
			p = hub
			p.Edges = []string{one.named}
		}
		faults, all := one.at.examined(p)
		if (faults == "") != (one.faults == "") || !strings.Contains(faults, one.faults) {
			t.Errorf("with nats.edges %s the faults are %q, want %q; all:\n%s", one.named, faults, one.faults, all)
		}
	}
}

// TestBytesOfEdges: setup changes how many bytes of summaries are kept, and a daemon does not.
func TestBytesOfEdges(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	hub := blockPipeline()
	hub.Role, hub.Edges = RoleTrain, []string{"berlin"}
	for name, one := range map[string]struct {
		at *site
		p  Pipeline
	}{summaries.EdgeStream: {f.edges["berlin"], sends("berlin")}, summaries.HubStream: {f.hub, hub}} {
		kept := func() int64 {
			s, err := one.at.js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return s.CachedInfo().Config.MaxBytes
		}
		one.at.planned(one.p, name, true)
		one.p.EdgeBytes = 64 << 20
		if _, all := one.at.examined(one.p); !strings.Contains(all, "note edges: stream "+name+" keeps 1.0 GiB") {
			t.Errorf("check says %s", all)
		}
		r := one.at.replica(one.p)
		one.at.until("it is open", func() bool { return len(r.Status()) > 0 })
		r.end()
		if plan := one.at.planned(one.p, name, false); kept() != 1<<30 || plan.Exists || !plan.Outdated {
			t.Errorf("%s keeps %d bytes once a daemon ran, and the plan is %+v", name, kept(), plan)
		}
		if plan := one.at.planned(one.p, name, true); kept() != 64<<20 || !plan.Exists || plan.Outdated {
			t.Errorf("%s keeps %d bytes once setup has changed it, and the plan is %+v", name, kept(), plan)
		}
	}
}
