package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/registry"
)

// withDim is a pipeline of contractPipeline whose configuration has a number of outputs and a seed.
func withDim(p stream.Pipeline, dim, seed int) stream.Pipeline {
	p.Stage.Fit.Dim = dim
	p.Settings = []stream.Setting{
		{Key: "model.dim", Value: fmt.Sprint(dim), Effect: stream.EffectModelReset, IsLearning: true},
		{Key: "model.seed", Value: fmt.Sprint(seed), IsLearning: true},
		{Key: "output.column", Value: fmt.Sprint("c", seed)},
	}
	return p
}

// changesOf are the changes that a replica reports.
func (r *replica) changesOf() string {
	var texts []string
	for _, c := range r.pipeline().Changes {
		texts = append(texts, fmt.Sprintf("%s %s %s %s", c.Key, c.Was, c.Now, c.Effect))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// TestModelReset: both replicas answer with the live model until the first one of the next epoch exists, follow that,
// and answer every input. During a rolling update each replica reports what is true for it.
func TestModelReset(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	before := withDim(p, 2, 1)
	first := startReplica(t, s.Connect(), before)
	natstest.Await(t, "it is the trainer", func() bool { return first.pipeline().IsTrainer })
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)

	// The second replica has the next configuration, and the first one is the trainer.
	after := withDim(p, 1, 2)
	second := startReplica(t, s.Connect(), after)
	natstest.Await(t, "it has the model", func() bool { return second.live() == first.live() })
	natstest.Await(t, "it reports what the trainer has", func() bool {
		return second.changesOf() == "model.dim 2 1 model reset; model.seed 1 2 trainer; output.column c1 c2 applied"
	})
	if text := first.changesOf(); text != "" {
		t.Errorf("the trainer reports %s", text)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "it applies its configuration as the trainer", func() bool {
		return second.changesOf() == "model.dim 2 1 model reset; model.seed 1 2 applied; output.column c1 c2 applied"
	})
	first = startReplica(t, s.Connect(), after)
	natstest.Await(t, "the other replica reports the same", func() bool {
		return first.changesOf() == "model.dim 2 1 model reset"
	})

	plan, err := admin.PlanModelReset(t.Context(), s.JS, after)
	if err != nil {
		t.Fatal(err)
	}
	old := second.pipeline().Stage.Live
	if len(plan.Changes) != 1 || plan.Changes[0].Key != "model.dim" || plan.Live.Name != old.Version ||
		plan.Epoch != old.Epoch+1 {
		t.Errorf("the plan is %+v", plan)
	}
	if err := plan.Apply(t.Context(), s.JS); err != nil {
		t.Fatal(err)
	}
	publishShapes(s, p, good(10)...)
	for _, r := range []*replica{first, second} {
		natstest.Await(t, "it has the first model of the next epoch", func() bool {
			l := r.pipeline().Stage.Live
			return l != nil && l.Epoch == old.Epoch+1 && l.Model.Dim() == 1
		})
		natstest.Await(t, "it reports no open change", func() bool { return !strings.Contains(r.changesOf(), "reset") })
	}
	publishShapes(s, p, good(10)...)
	want := map[int]string{}
	for seq := 1; seq <= 50; seq++ {
		want[seq] = "out"
	}
	wantOutcomes(t, awaitOutcomes(s, p, 50), want)
	for _, r := range []*replica{first, second} {
		if strings.Contains(r.Log.String(), "waiting_for_model") {
			t.Errorf("it did not answer:\n%s", r.Log)
		}
		natstest.Await(t, "it is ready", func() bool { return r.pipeline().Ready })
	}
}

// TestModelResetOfBusyPipeline: a reset puts into effect what it says also if the next model goes live at once, and
// where models are in a directory.
func TestModelResetOfBusyPipeline(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	nc := s.Connect()
	stored, core := contractPipeline("p"), contractPipeline("c")
	makeStreams(s, stored)
	core.Stream, core.Models.Directory = "", t.TempDir()
	for _, p := range []stream.Pipeline{stored, core} {
		withDim := func(dim string) stream.Pipeline {
			p := p
			p.Settings = []stream.Setting{{Key: "model.dim", Value: dim, Effect: stream.EffectModelReset,
				IsLearning: true}}
			return p
		}
		var r *replica
		start := func(dim string) {
			r = startReplica(t, s.Connect(), withDim(dim))
			if p.Stream == "" {
				s.AwaitSubscriber(p.Subject)
			}
		}
		awaitEpoch := func(epoch int) {
			t.Helper()
			natstest.Await(t, "a model of the epoch is live", func() bool {
				if err := nc.Publish(p.Subject, shapeOf(s, "good").write(s, drawRows(1, 50, 4))); err != nil {
					t.Fatal(err)
				}
				l := r.pipeline().Stage.Live
				return l != nil && l.Epoch == epoch && !l.WasReset
			})
		}
		start("2")
		awaitEpoch(1)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		start("auto")
		const open = "model.dim 2 auto model reset"
		natstest.Await(t, "it reports the change", func() bool { return r.changesOf() == open })
		plan, err := admin.PlanModelReset(t.Context(), s.JS, withDim("auto"))
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Apply(t.Context(), s.JS); err != nil {
			t.Fatal(err)
		}
		awaitEpoch(2)
		natstest.Await(t, "the change is in effect", func() bool { return r.changesOf() == "model.dim 2 auto applied" })
	}
}

// TestModelResetWithoutReplica: a reset while no replica runs is applied by the next start, and the version of before
// can be chosen until then. Pinned and fixed models are refused.
func TestModelResetWithoutReplica(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	p := contractPipeline("p")
	makeStreams(s, p)
	before, after := withDim(p, 2, 1), withDim(p, 1, 1)
	r := startReplica(t, s.Connect(), before)
	publishShapes(s, p, good(30)...)
	awaitOutcomes(s, p, 30)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	reset := func(p stream.Pipeline) error {
		plan, err := admin.PlanModelReset(t.Context(), s.JS, p)
		if err != nil {
			return err
		}
		return plan.Apply(t.Context(), s.JS)
	}
	store, err := registry.JetStream(t.Context(), s.JS)
	if err != nil {
		t.Fatal(err)
	}
	models := registry.New(store, p.Name, registry.Options{})
	pinned, err := models.Pin(t.Context(), registry.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if err := reset(after); !errors.Is(err, registry.ErrPinned) {
		t.Errorf("a reset while a model is pinned: %v", err)
	}
	if _, err := models.Unpin(t.Context(), registry.Request{}); err != nil {
		t.Fatal(err)
	}
	fixed := after
	if fixed.Stage.Fixed, err = models.Model(t.Context(), pinned.Live); err != nil {
		t.Fatal(err)
	}
	if err := reset(fixed); !errors.Is(err, admin.ErrModelElsewhere) {
		t.Errorf("a reset of a model file: %v", err)
	}
	if err := reset(after); err != nil {
		t.Fatal(err)
	}
	r = startReplica(t, s.Connect(), after)
	if l := r.pipeline().Stage.Live; l == nil || l.Version != pinned.Live {
		t.Errorf("after the start live is %+v", l)
	}
	publishShapes(s, p, good(10)...)
	natstest.Await(t, "the first model of the next epoch is live", func() bool {
		l := r.pipeline().Stage.Live
		return l != nil && l.Epoch == 2 && l.Model.Dim() == 1
	})
	awaitOutcomes(s, p, 40)
	natstest.Await(t, "the change is in effect", func() bool { return r.changesOf() == "model.dim 2 1 applied" })
	if err := reset(before); err != nil {
		t.Fatal(err)
	}
	if _, err := models.Rollback(t.Context(), registry.Request{Version: pinned.Live}); err == nil {
		natstest.Await(t, "the former version is live again", func() bool { return r.live() == pinned.Live })
	} else if !errors.Is(err, registry.ErrDim) { // the next model was faster
		t.Error(err)
	}
}
