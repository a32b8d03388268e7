package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/registry"
)

// notice publishes a notice at an edge that no replica there would publish.
func (f *hubAndEdges) notice(domain string, n summaries.Notice, digest string, bytes int) {
	f.Helper()
	text := fmt.Sprintf(`{"created":%d,"first":%d,"last":%d,"settings":%q,"digest":%q,"bytes":%d}`, n.Created, n.First,
		n.Last,
		n.Settings, digest, bytes)
	if _, err := f.edges[domain].js.Publish(f.Context(), summaries.EdgeSubjects("p")[0], []byte(text)); err != nil {
		f.Fatal(err)
	}
}

// learned waits until the given number of summaries of an edge is learned, with all their rows, and none is pending.
func (g *trainer) learned(f *hubAndEdges, domain string, blocks int) {
	f.Helper()
	progress := ""
	f.hub.eventually(func() any { return fmt.Sprintf("%d blocks are learned; %s", blocks, progress) }, func() bool {
		if len(g.Status()) == 0 {
			return false
		}
		s := g.Status()[0].Stage
		progress = fmt.Sprintf("%g summaries are learned, %g doubled, %g refused; %d rows were seen, %d "+
			"wait", g.came(domain, "learned"),
			g.came(domain, "duplicate"), g.came(domain, "rejected"), s.Received, s.Backlog)
		return g.came(domain, "learned") >= float64(blocks) && g.running[0].blocks.Waiting() != "" &&
			s.Backlog == 0 && !s.Fitting
	})
	if n := g.came(domain, "learned"); n != float64(blocks) {
		f.Errorf("of %d blocks of %s %g are learned", blocks, domain, n)
	}
}

// TestInvalidNotices: a notice that is invalid, empty, of another stream, or of messages that never existed is refused,
// and what the edge sends afterwards is learned. If the stream of the hub is recreated, it has all summaries once more:
// none is counted as learned twice, and a trainer that fills its window again reads them. If models were lost, the
// epochs continue.
func TestInvalidNotices(t *testing.T) {
	t.Parallel()
	f := newHubAndEdges(t, "berlin")
	f.blocks("berlin", 2)
	edge := f.sums("berlin")
	g := f.trainAs(nats.UserInfo("test", ""), "berlin") // which may recreate the stream of the hub
	g.learned(f, "berlin", 2)

	edge.end() // it would send between these
	sum := sha256.Sum256(nil)
	digest, settings := hex.EncodeToString(sum[:]), g.running[0].Running.Settings()
	later := time.Now().Add(100 * 24 * time.Hour).UnixNano()
	f.notice("berlin", summaries.Notice{Created: 1, First: 1, Last: 2, Settings: settings}, digest, 0)
	f.notice("berlin", summaries.Notice{Created: later, First: 1, Last: 8, Settings: "others"}, digest, 5)
	f.notice("berlin", summaries.Notice{Created: later, First: 1, Last: math.MaxUint64, Settings: settings}, digest, 5)
	f.notice("berlin", summaries.Notice{Created: later, First: 9, Last: 16, Settings: settings}, digest, 5)
	f.blocks("berlin", 6)
	f.sums("berlin")
	// The last notice is of another stream than that of the edge, which so sends all once more.
	g.learned(f, "berlin", 6)
	if refused, doubled := g.came("berlin", "rejected"), g.came("berlin", "duplicate"); refused != 4 || doubled != 2 {
		t.Errorf("%g notices are refused, of 4, and %g summaries came twice, of 2", refused, doubled)
	}

	if err := f.hub.js.DeleteStream(t.Context(), summaries.HubStream); err != nil {
		t.Fatal(err)
	}
	f.hub.until("all comes again", func() bool { return g.came("berlin", "duplicate") == 2+8 })
	f.blocks("berlin", 8)
	g.learned(f, "berlin", 8)
	if n := g.Status()[0].Stage.Received; n != 8*sharedBlock*sharedRows {
		t.Errorf("%d rows are learned, of %d", n, 8*sharedBlock*sharedRows)
	}
	f.hub.until("a model is live", func() bool { return g.live() != "" })
	g.end()

	for _, stream := range registry.Streams() {
		if err := f.hub.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	g = f.train("berlin")
	g.learned(f, "berlin", 8)
	f.hub.until("a model is live", func() bool { return g.live() != "" })
	if s := g.Status()[0]; s.Stage.Received != 8*sharedBlock*sharedRows || !strings.Contains(s.Store, "none is used "+
		"twice") {
		t.Errorf("a trainer that starts again has learned %d rows, of %d, and reports of its models %q", s.Stage.Received,
			8*sharedBlock*sharedRows, s.Store)
	}
}
