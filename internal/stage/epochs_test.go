package stage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// overlapping are rows of six classes that overlap, in 24 features. From the given row on, all features are in reverse
// order.
func overlapping(seed uint64, n, reversedFrom int, far float32) []row {
	r := rand.New(rand.NewPCG(seed, 1))
	means := make([][]float32, 6)
	for c := range means {
		means[c] = make([]float32, 24)
		for j := range 8 {
			means[c][j] = far * float32(r.NormFloat64())
		}
	}
	rows := make([]row, n)
	for i := range rows {
		c := r.IntN(len(means))
		x := make([]float32, 24)
		for j := range x {
			x[j] = means[c][j] + float32(r.NormFloat64())
		}
		if i >= reversedFrom {
			slices.Reverse(x)
		}
		rows[i] = row{x, fmt.Sprintf("c%d", c)}
	}
	return rows
}

func ofOverlapping(c *spec.Config) {
	c.Training.Window.Rows, c.Training.Every.Rows, c.Fit.Dim = 5000, 150, 5
}

// fittedOn is a model of rows, in the coordinates of another one if there is one.
func fittedOn(t *testing.T, rows []row, live *model.Model) *model.Model {
	t.Helper()
	d := &model.Data{N: len(rows), M: 24, Features: features(24), Classes: []string{"c0", "c1", "c2", "c3", "c4", "c5"}}
	for _, r := range rows {
		for _, v := range r.x {
			d.X = append(d.X, float64(v))
		}
		d.Y = append(d.Y, slices.Index(d.Classes, r.class))
	}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "lda", Dim: 5})
	if err == nil && live != nil {
		m, _, err = model.Align(t.Context(), m, live, model.DenseRows(d.X, d.N, d.M), model.AlignRigid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func features(n int) (names []string) {
	for j := range n {
		names = append(names, fmt.Sprintf("x[%d]", j))
	}
	return names
}

// undecidedEpoch is a live model of epoch 2 whose comparison with the first model of epoch 1 is undecided.
func undecidedEpoch(before, m *model.Model) *spec.Live {
	return &spec.Live{Model: m.WithNote(model.Note{Version: "b", Epoch: 2}), Version: "b", Epoch: 2, Epochs: 2,
		Undecided: 1, Before: before.WithNote(model.Note{Version: "a", Epoch: 1})}
}

// TestUndecidedEpoch: more rows decide whether an epoch is comparable with the one before. If it is, both are recorded
// as one, and outputs say so; the model, its digest and the number of the epoch stay. If it is not, it stays separate.
// A restart before or after that decides alike.
func TestUndecidedEpoch(t *testing.T) {
	rows := overlapping(1, 3200, 3200, 1.5)
	before := fittedOn(t, overlapping(1, 8000, 8000, 1.5)[3200:5600], nil)
	next := fittedOn(t, overlapping(1, 8000, 8000, 1.5)[5600:], before)
	other := fittedOn(t, overlapping(2, 2000, 2000, 1.5), nil)
	for _, c := range []struct {
		before *model.Model
		sameAs int
	}{{before, 1}, {other, 0}} {
		live := undecidedEpoch(c.before, next)
		w := compareRestarts(t, rows, []int{1000, 3100}, func(c *spec.Config) {
			ofOverlapping(c)
			if c.Resume == nil {
				c.Resume = live
			}
		})
		if !strings.HasPrefix(w.decisions[0], fmt.Sprint("epoch 2 same as ", c.sameAs)) {
			t.Fatalf("the decisions are\n%s", strings.Join(w.decisions, "\n"))
		}
		l := w.Live()
		if l.Epoch > 2 { // a further model
			continue
		}
		if l.SameAs != c.sameAs || l.Undecided != 0 || l.Before != nil || int(l.Model.Note().SameAs) != c.sameAs ||
			l.First().Note().Epoch != uint64(2-c.sameAs) {
			t.Errorf("live is %+v", l)
		}
		same := slices.Contains(l.Metadata(), wire.Pair{Key: wire.HeaderSameAs, Value: "1"})
		if same != (c.sameAs == 1) {
			t.Errorf("outputs say %v", l.Metadata())
		}
	}
}

// TestSettledAtAChange: the rows before a change decide whether two epochs are comparable, since they leave the window,
// and those after it do not: there both models are wrong. If they do not say, the epochs stay separate.
func TestSettledAtAChange(t *testing.T) {
	all := overlapping(1, 8000, 8000, 1.5)
	before := fittedOn(t, all[3200:5600], nil)
	next := fittedOn(t, all[5600:], before)
	other := fittedOn(t, overlapping(2, 2000, 2000, 1.5), nil)
	never := math.Inf(1)
	for _, c := range []struct {
		before       *model.Model
		rows, sameAs int
	}{{before, 1200, 1}, {other, 1200, 0}, {before, 150, 0}} {
		s := newStage(t, func(to *spec.Config) {
			ofOverlapping(to)
			to.Resume = undecidedEpoch(c.before, next)
			to.Training.Gate = spec.Gate{Evidence: never, MoreRows: never, NewClass: never, Following: never}
		})
		learnRows(t, s, 1, overlapping(1, c.rows+600, c.rows, 1.5))
		if l := s.Live(); s.Status().Alarms == 0 || l.SameAs != c.sameAs || l.Undecided != 0 || l.Before != nil {
			t.Errorf("%d alarms, live is %+v", s.Status().Alarms, l)
		}
	}
}

// TestUndecidedSwap: a model begins an epoch for now where the rows do not say whether it is comparable with the live
// one.
func TestUndecidedSwap(t *testing.T) {
	for seed := range uint64(20) {
		w := newRecordedStage(t, ofOverlapping)
		learnRows(t, w.Stage, 1, overlapping(seed, 1900, 1900, 0.8))
		if l := w.Live(); l.Undecided == 0 {
			continue
		} else if l.Undecided >= l.Epoch || l.Before == nil || l.SameAs != 0 || w.live.Undecided != l.Undecided ||
			w.live.Before.Digest() != l.Before.Digest() {
			t.Errorf("live is %+v, stored %+v", l, w.live)
		}
		return
	}
	t.Error("no epoch of 20 streams was undecided")
}

// TestSettleLater: an answer that cannot be stored is looked for again at the next checkpoint, and nothing says before
// that the epochs are one.
func TestSettleLater(t *testing.T) {
	before := fittedOn(t, overlapping(1, 8000, 8000, 1.5)[3200:5600], nil)
	live := undecidedEpoch(before, fittedOn(t, overlapping(1, 8000, 8000, 1.5)[5600:], before))
	calls := 0
	var s *Stage
	s = newStage(t, func(c *spec.Config) {
		ofOverlapping(c)
		c.Resume = live
		c.SettleEpoch = func(_ context.Context, l *spec.Live) error {
			if live := s.Live(); live.SameAs != 0 || live.Undecided != 1 || l.SameAs != 1 {
				t.Errorf("live is %+v while %+v is stored", live, l)
			}
			if calls++; calls == 1 {
				return errors.New("a test")
			}
			return nil
		}
	})
	learnRows(t, s, 1, overlapping(1, 5800, 5800, 1.5))
	if calls != 2 {
		t.Errorf("after %d calls live is %+v", calls, s.Live())
	}
}

// TestSettledElsewhere: a stage on standby keeps its model when the trainer records that two epochs are one.
func TestSettledElsewhere(t *testing.T) {
	before := fittedOn(t, overlapping(1, 8000, 8000, 1.5)[3200:5600], nil)
	undecided := undecidedEpoch(before, fittedOn(t, overlapping(1, 8000, 8000, 1.5)[5600:], before))
	standby := newRecordedStage(t, func(c *spec.Config) { ofOverlapping(c); c.Standby = true })
	if err := standby.Adopt(undecided, false); err != nil {
		t.Fatal(err)
	}
	learnRows(t, standby.Stage, 1, overlapping(1, 1000, 1000, 1.5))
	rate := standby.Status().Accuracy
	settled := *undecided
	settled.SameAs, settled.Undecided, settled.Before, settled.Origin = 1, 0, nil, undecided.Before
	if err := standby.Adopt(&settled, false); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, standby.Stage)
	if l := standby.Live(); l.SameAs != 1 || !(standby.Status().Accuracy == rate) || !(rate > 0.5) {
		t.Errorf("live is %+v, its accuracy %g, which was %g", l, standby.Status().Accuracy, rate)
	}
}

// TestVarianceIsNoAccuracy: without labels no model is right or wrong about a row, however much less of the variance it
// keeps than when it was promoted. With labels the same rows show a drop.
func TestVarianceIsNoAccuracy(t *testing.T) {
	m, never := fittedOn(t, overlapping(1, 2000, 2000, 4), nil), math.Inf(1)
	for label, want := range map[string]bool{"": false, "label": true} {
		s := newStage(t, func(c *spec.Config) {
			ofOverlapping(c)
			c.Spec.Label, c.Fit.Method, c.Training.IgnoreDrift = label, "pca", true
			c.Training.Gate = spec.Gate{Evidence: never, MoreRows: never, NewClass: never, Following: never}
			c.Resume = &spec.Live{Model: m.WithNote(model.Note{Version: "a", Epoch: 1}), Version: "a", Epoch: 1, Epochs: 1,
				Score: 0.99}
		})
		learnRows(t, s, 1, overlapping(1, 1200, 0, 4))
		status := s.Status()
		dropped := slices.ContainsFunc(status.Unusual, func(u spec.Unusual) bool { return u.Kind == spec.UnusualAccuracy })
		if !(status.Accuracy < 0.89) || dropped != want {
			t.Errorf("label %q: accuracy %v: %+v", label, status.Accuracy, status.Unusual)
		}
	}
}
