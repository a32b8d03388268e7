package stream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
)

// TestTakeoversPromoteAlike: replicas that end again and again, so that training moves between them, store
// the versions that one replica stores which sees the same stream alone.
func TestTakeoversPromoteAlike(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pipeline := func(name string) Pipeline {
		return Pipeline{Name: name, Stream: "in", Subject: "in.x", Output: "out." + name, Dead: "out.dead" + name,
			Lease: lease.MinTTL, Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
				Fit: fit.Config{Method: "lda"}, Training: plugin.Training{Window: plugin.Window{Rows: 2000},
					Every: plugin.Every{Rows: 400}}}}
	}
	s.replica(pipeline("alone"))
	random := rand.New(rand.NewPCG(31, 32))
	replicas := []*runner{s.replica(pipeline("p")), s.replica(pipeline("p"))}
	const messages = 480
	for sent := 0; sent < messages; {
		for range min(20+random.IntN(80), messages-sent) {
			s.store("in.x", drifting(random, sent/160))
			sent++
		}
		s.until("one trains", func() bool { return len(holders(replicas)) == 1 })
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond) // some rows are learned, or all
		trainer := replicas[0]
		if hold := holders(replicas); len(hold) > 0 {
			trainer = hold[0]
		}
		trainer.end()
		if replicas[0] == trainer {
			replicas = replicas[1:]
		} else {
			replicas = replicas[:1]
		}
		replicas = append(replicas, s.replica(pipeline("p")))
	}
	history := func(name string) string {
		store, err := registry.JetStream(s.Context(), s.js)
		if err != nil {
			t.Fatal(err)
		}
		p, err := registry.New(store, name, registry.Options{}).Pointer(s.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range p.Versions {
			out = append(out, fmt.Sprint(v.Digest, " epoch ", v.Epoch))
		}
		return strings.Join(out, "\n")
	}
	want := history("alone")
	if strings.Count(want, "\n") < 3 {
		t.Fatalf("the test shows nothing: alone it stored\n%s", want)
	}
	deadline := time.Now().Add(20 * time.Second)
	for history("p") != want && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if got := history("p"); got != want {
		t.Errorf("alone it stored\n%s\nwith takeovers\n%s", want, got)
	}
}
