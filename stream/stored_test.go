package stream_test

import (
	"slices"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
)

// TestContractOutlivesTheProcess: the contract that a first model was fitted under is stored, also where models are
// not. After a restart, messages of another schema are dead letters even where they are the first and the most.
func TestContractOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	for name, until := range map[string]plugin.Until{"h": plugin.UntilHold, "p": plugin.UntilPCA} {
		t.Run(string(until), func(t *testing.T) {
			t.Parallel()
			s := s.For(t)
			p := contractPipeline(name)
			p.Models.None, p.Stage.Until = true, until
			makeStreams(s, p)
			r := startReplica(t, s.Connect(), p)
			publishShapes(s, p, good(30)...)
			awaitOutcomes(s, p, 30)
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			in, err := s.JS.Stream(t.Context(), p.Stream)
			if err == nil {
				err = in.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			odd := slices.Repeat([]string{"another list length"}, 60)
			publishShapes(s, p, append(odd, good(30)...)...)
			startReplica(t, s.Connect(), p)
			want := map[int]string{}
			for seq := range 60 {
				want[31+seq] = string(wire.SchemaChanged)
			}
			for seq := range 30 {
				want[91+seq] = "out"
			}
			wantOutcomes(t, awaitOutcomes(s, p, 120), want)
			if _, err := s.JS.KeyValue(t.Context(), "EMBEDD_STATE"); err != nil {
				t.Errorf("the bucket of contracts: %v", err)
			}
		})
	}
}
