package trainer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestLandmarksTakeMemoryOfTheWindow: landmarks are held six times, in float64. A fit needs twice that besides its
// matrices, and the window has the rest.
func TestLandmarksTakeMemoryOfTheWindow(t *testing.T) {
	const landmarks, features = 100, 1000
	held := int64(6 * 8 * landmarks * features)
	need := 12*8*landmarks*landmarks + 2*held
	c := &spec.Config{Spec: arrowio.Spec{Label: "label"}, Fit: fit.Config{Method: "lda", Landmarks: landmarks},
		Training: spec.Training{Window: spec.Window{Rows: 1000, Bytes: need}}, Classes: 10}
	p := newPlan(c)
	if p.setLimit(features); p.limit != "" {
		t.Errorf("%d bytes are enough: %s", need, p.limit)
	}
	if w, _ := p.windowConfig(features); w.Bytes != need-need/8-held {
		t.Errorf("the window has %d bytes of %d, want %d", w.Bytes, need, need-need/8-held)
	}
	c.Training.Window.Bytes--
	if p.setLimit(features); !strings.Contains(p.limit, "configure fewer landmarks") {
		t.Errorf("with %d bytes: %q", need-1, p.limit)
	}
	for mib, limited := range map[int64]bool{10: true, 11: false} { // the error says 11
		c.Training.Window.Bytes = mib << 20
		p := newPlan(c)
		if p.setLimit(features); (p.limit != "") != limited || limited && !strings.Contains(p.limit, "raise it to 11 MiB") {
			t.Errorf("with %d MiB: %q", mib, p.limit)
		}
	}
}

// TestPublishedModelsSayWhereTheyAreFrom: a release and the note of its model have the rows that it was fitted on, the
// model that it replaces, and the version of the store. A model that cannot be stored does not go live.
func TestPublishedModelsSayWhereTheyAreFrom(t *testing.T) {
	var released *spec.Release
	var refused error
	c := &spec.Config{Spec: arrowio.Spec{Label: "label"}, Fit: fit.Config{Method: "lda", Dim: 1},
		Training: spec.Training{Every: spec.Every{Rows: 100}, Window: spec.Window{Rows: 1000, Bytes: 1 << 30,
			Balance: spec.BalanceClass}, Holdout: 0.2, Gate: spec.Gate{Evidence: 1000}, Align: spec.AlignRigid},
		Classes: 10, Logger: slog.New(slog.DiscardHandler), Clock: time.Now,
		Source: map[string]string{"stream": "FEATURES", "created": "once"},
		Store: func(_ context.Context, r *spec.Release) (string, error) {
			released = r
			return "v" + r.Door, refused
		}}
	l, live := newTrainer([]string{"x", "y"}, c)
	r, created := rand.New(rand.NewPCG(71, 72)), time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for seq := uint64(11); seq <= 26; seq++ {
		e := &Event{}
		for row := range 20 {
			e.Rows = append(e.Rows, window.Row{Position: window.Position{Created: created.UnixNano(), Seq: seq, Row: row},
				MessageRows: 20, Label: []string{"a", "b"}[row%2], Time: int64(seq) * 1e9,
				X: []float64{float64(row%2) + r.NormFloat64()/3, r.NormFloat64()}})
		}
		l.Learn(t.Context(), e)
	}
	if live() == nil {
		t.Fatal("no first model")
	}
	first := *live()
	first.Version, first.Epochs, first.WasReset = "before", 7, true
	l.host.Live = func() *spec.Live { return &first }
	last := window.Position{Created: created.UnixNano(), Seq: 25}
	s := &window.Suffix{First: window.Position{Created: created.UnixNano(), Seq: 13}, Last: last, Rows: 240}
	o := &spec.Outcome{Candidate: 0.75, Previous: math.NaN(), Door: "better"}
	if err := l.publish(t.Context(), beginEpoch(first.Model, 3), s, o, false); err != nil {
		t.Fatal(err)
	}
	if released.Parent != "before" || !released.AfterReset || released.First != 13 || released.Last != 25 ||
		released.Rows != 240 || released.Score != 0.75 || released.NewEpoch {
		t.Errorf("released %+v", released)
	}
	if o.Live.Version != "vbetter" || o.Live.Epochs != 7 || o.Live.Seen != 25 || o.Live.Score != 0.75 || !o.Promoted {
		t.Errorf("live %+v", o.Live)
	}
	if n := o.Live.Model.Note(); n.Version != "vbetter" || n.Epoch != 3 || n.Source["first"] != "11" ||
		n.Source["last"] != "25" || n.Source["stream"] != "FEATURES" ||
		n.Source["created"] != "2026-01-02T03:04:05.0000006Z" {
		t.Errorf("note %+v", n)
	}
	if c.Source["created"] != "once" {
		t.Error("the configuration has changed")
	}
	s.Last.Created++ // the stream was created again
	if err := l.publish(t.Context(), beginEpoch(first.Model, 9), s, o, false); err != nil ||
		o.Live.Model.Note().Source["first"] != "0" || o.Live.Epochs != 9 {
		t.Errorf("%v: %+v, note %+v", err, o.Live, o.Live.Model.Note())
	}
	for _, k := range []struct {
		source, want string
		created      int64
	}{{"once", "once", 0}, {"", "", 1}} {
		c.Source["created"], s.Last.Created = k.source, k.created
		if err := l.publish(t.Context(), beginEpoch(first.Model, 9), s, o, false); err != nil ||
			o.Live.Model.Note().Source["created"] != k.want {
			t.Errorf("%v: the note of a stream of %q, rows of %d: %+v", err, k.source, k.created, o.Live.Model.Note())
		}
	}
	refused = errors.New("full")
	was := o.Live
	if err := l.publish(t.Context(), beginEpoch(first.Model, 9), s, o, false); err == nil || o.Live != was {
		t.Errorf("%v, live %+v", err, o.Live)
	}
}
