package stage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestWorseModelStays shuffles the labels for three windows of rows: later candidates are worse and must not go live
// (Invariant 8), although by every measure of the stage the live model is as bad.
func TestWorseModelStays(t *testing.T) {
	var promoted []spec.Outcome
	s := newStage(t, func(c *spec.Config) {
		c.Observe = func(o spec.Outcome) { promoted = append(promoted, o) }
	})
	r := rand.New(rand.NewPCG(7, 8))
	learnRows(t, s, 1, clouds(r, 1000, 3))
	good, fits := s.Live(), s.Status().Fits
	if good == nil {
		t.Fatal("no model")
	}
	broken := clouds(r, 3000, 3)
	for i := range broken {
		broken[i].class = fmt.Sprintf("c%d", r.IntN(3))
	}
	learnRows(t, s, 100, broken)
	if st := s.Status(); st.Fits < fits+5 || st.Alarms == 0 || !(st.Accuracy <= 0.45) {
		t.Errorf("the test shows nothing: %+v", st)
	}
	if s.Live() != good {
		t.Errorf("after labels that mean nothing %s is live: %s", s.Live().Version, promoted[len(promoted)-1].Reason)
	}
	learnRows(t, s, 1000, clouds(r, 1000, 3))
	if st := s.Status(); !(st.Accuracy >= 0.95) {
		t.Errorf("after labels that mean something again: %+v", st)
	}
}

// TestChange rotates the features: the window is cut, and a model of the new concept goes live soon, in a new epoch,
// for methods that are fitted from moments, for those that need the rows, and for auto.
func TestChange(t *testing.T) {
	for _, method := range []string{"lda", "lfda", fit.Auto} {
		t.Run(method, func(t *testing.T) {
			s := newStage(t, func(c *spec.Config) { c.Fit.Method = method })
			r := rand.New(rand.NewPCG(7, 9))
			learnRows(t, s, 1, clouds(r, 1000, 4))
			before := s.Live()
			turned := clouds(r, 500, 4)
			for i := range turned {
				x := turned[i].x
				turned[i].x = append(append([]float32{}, x[2:]...), x[:2]...)
				turned[i].x[4] *= -1
			}
			learnRows(t, s, 100, turned)
			st := s.Status()
			if st.Alarms == 0 || st.Rows > 520 || st.Live.Epoch == before.Epoch || !(st.Accuracy >= 0.8) {
				t.Errorf("after a turn: %+v, live %+v", st, st.Live)
			}
			if st.Live.Model.Dim() != before.Model.Dim() {
				t.Errorf("%d outputs became %d", before.Model.Dim(), st.Live.Model.Dim())
			}
		})
	}
}

// TestWidth: classes that appear and vanish change the values of outputs, not their number.
func TestWidth(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Fit.Dim = 0; c.Training.Window.Rows = 300 })
	r := rand.New(rand.NewPCG(7, 10))
	learnRows(t, s, 1, clouds(r, 400, 4))
	first := s.Live()
	if first.Model.Dim() != testFeatures {
		t.Fatalf("%d outputs of %d features", first.Model.Dim(), testFeatures)
	}
	for i, classes := range []int{2, 6, 3} {
		rows := clouds(r, 900, classes)
		for k := range rows {
			rows[k].x[k%3] *= float32(i + 2) // another concept each time
		}
		learnRows(t, s, uint64(1000*(i+1)), rows)
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, s)
		if st := s.Status(); st.Live.Model.Dim() != testFeatures || strings.Contains(st.Note, "exceeds") {
			t.Errorf("%d classes: %d outputs: %s", classes, st.Live.Model.Dim(), st.Note)
		}
	}
	wide := newStage(t, func(c *spec.Config) { c.Fit.Dim = 5 })
	learnRows(t, wide, 1, clouds(r, 400, 3))
	if l := wide.Live(); l == nil || l.Model.Dim() != 5 {
		t.Errorf("5 outputs of 3 classes: %+v: %s", l, wide.Status().Note)
	}
}

// TestCoordinatesStay refits on more rows of the same concept: within an epoch the outputs do not move.
func TestCoordinatesStay(t *testing.T) {
	s := newStage(t, nil)
	r := rand.New(rand.NewPCG(9, 10))
	learnRows(t, s, 1, clouds(r, 200, 3))
	probe := decode(t, s, clouds(r, 50, 3))
	before, err := s.Transform(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	first := s.Live()
	learnRows(t, s, 100, clouds(r, 2500, 3))
	after, err := s.Transform(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	if after.Live == first {
		t.Fatal("no model was promoted")
	}
	if after.Live.Epoch != before.Live.Epoch {
		t.Skipf("epoch rose to %d: not comparable, and said so", after.Live.Epoch)
	}
	var diff, size float64
	for i, v := range after.Reduced.Y[0] {
		d := float64(v - before.Reduced.Y[0][i])
		diff += d * d
		size += float64(v) * float64(v)
	}
	if r := math.Sqrt(diff / size); !(r <= 0.45) {
		t.Errorf("outputs moved by %.2f of their size within one epoch", r)
	}
}

// recordedStage is a stage whose releases and checkpoints are recorded.
type recordedStage struct {
	*Stage
	live      *spec.Live
	decisions []string
}

func newRecordedStage(t *testing.T, change func(*spec.Config)) *recordedStage {
	w := &recordedStage{}
	w.Stage = newStage(t, func(c *spec.Config) {
		change(c)
		if c.Resume != nil {
			w.live = c.Resume
		}
		c.Store = func(_ context.Context, r *spec.Release) (string, error) {
			w.live = r.Live(r.Model.Digest()[:16], w.live)
			w.decisions = append(w.decisions, fmt.Sprint(r.Model.Digest()[:8], " ", r.Epoch, " ", r.Rows, " ", r.Why))
			return w.live.Version, nil
		}
		c.SettleEpoch = func(_ context.Context, l *spec.Live) error {
			next := *l
			next.State, w.live = w.live.State, &next
			w.decisions = append(w.decisions, fmt.Sprint("epoch ", l.Epoch, " same as ", l.SameAs))
			return nil
		}
		c.Checkpoint = func(_ context.Context, state []byte) error {
			if len(state) > 64<<10 {
				t.Errorf("a checkpoint of %d bytes", len(state))
			}
			w.live.State = state
			return nil
		}
	})
	return w
}

// stored is what a recorded stage has stored: with it another stage continues as after a restart.
type stored struct {
	live      *spec.Live
	decisions []string
}

func (w *recordedStage) stored() stored {
	live := *w.live // the next checkpoint replaces its State
	return stored{&live, slices.Clone(w.decisions)}
}

var restarts = flag.Int("restarts", 8, "restarts at random points of TestReproducible")

// TestReproducible: same rows, order, configuration and seed give the same digests and decisions; also after a restart
// at any point that reads the window again (Invariant 7). The long form has all methods.
func TestReproducible(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(11, 12)), 4000, 3)
	for i := range rows { // overlapping classes that move in the middle
		for j := range rows[i].x {
			rows[i].x[j] /= 2
		}
		if i > 2000 {
			slices.Reverse(rows[i].x)
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
	}
	for _, balance := range []spec.Balance{spec.BalanceNone, spec.BalanceClass} {
		for _, method := range []string{"lda", "pca", "sle", "lfda", "lfda, no alarms", fit.Auto} {
			if !testsize.Long() && (balance == spec.BalanceNone || method != "lda" && method != "lfda, no alarms") {
				continue // they follow the path of the others
			}
			if balance == spec.BalanceNone && method != "lda" && method != "lfda" && *restarts <= 8 {
				continue // the window without balance is the same for all methods
			}
			t.Run(string(balance)+"/"+method, func(t *testing.T) {
				t.Parallel()
				reproduce(t, rows, balance, method, 1000)
			})
		}
	}
	// A twentieth of the rows are outliers, have labels of one to three rows, or are equal: they evict each other from the
	// window, and it is the same after a restart.
	hostile := slices.Clone(rows)
	for i := range hostile {
		if i%60 < 3 {
			hostile[i] = row{slices.Clone(rows[i].x), fmt.Sprint("junk", i/60)}
		} else if i%80 == 7 {
			hostile[i] = row{[]float32{1e9, 0, 0, -1e30, 0, 0}, rows[i].class}
		}
	}
	for _, classes := range []int{1000, 12} { // where there is room for the labels, and where there is none
		if classes == 1000 && !testsize.Long() {
			continue
		}
		t.Run(fmt.Sprint("hostile/", classes), func(t *testing.T) {
			t.Parallel()
			reproduce(t, hostile, spec.BalanceClass, "lda", classes)
		})
	}
}

func reproduce(t *testing.T, rows []row, balance spec.Balance, method string, classes int) {
	stops := []int{600, 1020, 1980, 2060, 3000}
	random := rand.New(rand.NewPCG(uint64(len(method)), uint64(len(balance))))
	for range *restarts / 8 {
		stops = append(stops, 320+20*random.IntN(180))
	}
	switch {
	case *restarts > 8:
	case method == fit.Auto:
		stops = stops[1:2]
	case balance == spec.BalanceNone:
		stops = []int{stops[0], stops[2], stops[5]}
	default:
		stops = []int{stops[1], stops[3], stops[4]}
	}
	compareRestarts(t, rows, stops, func(c *spec.Config) {
		c.Training.Window = spec.Window{Rows: 1500, Balance: balance}
		c.Classes = classes
		c.Training.Every.Rows = 500
		c.Fit.Method, _, c.Training.IgnoreDrift = strings.Cut(method, ", ") // then a suffix has to lead
	})
}

// compareRestarts learns rows without and with a restart at each of the stops, and compares the decisions.
// The stops are multiples of 20, the rows of a message.
func compareRestarts(t *testing.T, rows []row, stops []int, change func(c *spec.Config)) *recordedStage {
	a, b := newRecordedStage(t, change), newRecordedStage(t, change)
	learnRows(t, a.Stage, 1, rows)
	slices.Sort(stops)
	var states []stored // of b at each of the stops
	learned := 0
	for _, stop := range append(slices.Clone(stops), len(rows)) {
		learnRows(t, b.Stage, uint64(learned/20+1), rows[learned:stop])
		states = append(states, b.stored())
		learned = stop
	}
	if fmt.Sprint(a.decisions) != fmt.Sprint(b.decisions) || len(a.decisions) == 0 {
		t.Fatalf("decisions\n%v\nand\n%v", a.decisions, b.decisions)
	}
	for i, stop := range stops {
		c := states[i]
		_, first := ReadFrom(c.live.State)
		first = max(first, 1)
		d := newRecordedStage(t, func(x *spec.Config) { change(x); x.Resume = c.live })
		d.decisions = c.decisions
		learnRows(t, d.Stage, first, rows[(first-1)*20:])
		if x, y := a.Status().Rows, d.Status().Rows; x != y {
			t.Errorf("stopped after %d: %d rows in the window after a restart, %d without", stop, y, x)
		}
		if x, y := strings.Join(a.decisions, "\n"), strings.Join(d.decisions, "\n"); x != y {
			t.Errorf("stopped after %d: without\n%s\nwith\n%s", stop, x, y)
		}
	}
	return a
}

// TestBootstrap: the bootstrap model is a PCA of as many rows without a label as a first model needs rows. Rows with a
// label do not count.
func TestBootstrap(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Until = spec.UntilPCA; c.Training.Every.Rows = 60 })
	r := rand.New(rand.NewPCG(13, 14))
	labelled := clouds(r, 60, 3)
	unlabelled := clouds(r, 60, 3)
	for i := range unlabelled {
		unlabelled[i].class = ""
	}
	learnRows(t, s, 1, labelled[:40])
	learnRows(t, s, 3, unlabelled[:40])
	if live := s.Live(); live != nil {
		t.Fatalf("after 40 labelled and 40 unlabelled rows live is %+v", live)
	}
	learnRows(t, s, 5, unlabelled[40:])
	live := s.Live()
	if live == nil || !live.Bootstrap || live.Model.Method() != "pca" || live.Model.Rows() != 60 {
		t.Fatalf("after 60 unlabelled rows live is %+v", live)
	}
	learnRows(t, s, 10, labelled[40:])
	if l := s.Live(); l.Bootstrap || l.Model.Method() != "lda" || l.Epoch != 2 {
		t.Errorf("after 60 labelled rows live is %s, epoch %d", l.Model.Method(), l.Epoch)
	}
}

// TestStoresAPCAAgain: the PCA until a first model that cannot be stored is stored once the store works again, although
// no more rows come. It is fitted once.
func TestStoresAPCAAgain(t *testing.T) {
	t.Parallel()
	var models, phases atomic.Int64
	s := newStage(t, func(c *spec.Config) {
		c.Until, c.Training.Every.Rows = spec.UntilPCA, 60
		c.Fit.Progress = func(string, float64) { phases.Add(1) }
		once := int64(0)
		c.Store = func(context.Context, *spec.Release) (string, error) {
			if models.Add(1) == 1 {
				once = phases.Load()
				return "", errors.New("no connection")
			}
			if n := phases.Load(); once == 0 || n != once {
				t.Errorf("one fit reports %d phases, and at the second attempt there are %d", once, n)
			}
			return "stored", nil
		}
	})
	unlabelled := clouds(rand.New(rand.NewPCG(13, 14)), 60, 3)
	for i := range unlabelled {
		unlabelled[i].class = ""
	}
	learnRows(t, s, 1, unlabelled)
	for end := time.Now().Add(time.Minute); s.Live() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no PCA is live; the store was called %d times", models.Load())
		}
	}
	if l := s.Live(); !l.Bootstrap || models.Load() != 2 {
		t.Errorf("after %d attempts live is %+v", models.Load(), l)
	}
}

func TestUnsupervisedWithoutLabels(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Spec.Label = ""; c.Fit.Method = "pca" })
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(15, 16)), 240, 3))
	if l := s.Live(); l == nil || l.Model.Method() != "pca" || len(l.Model.Classes()) != 0 {
		t.Fatalf("live is %+v", l)
	}
	if share := s.Status().LabelledShare; !math.IsNaN(share) {
		t.Errorf("a share of %g of the rows has a label, and there is no column of labels", share)
	}
}

// The dimension that auto chose at the first fit stays, although it chooses again from more rows, among which are those
// of other classes.
func TestDimensionStays(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Fit = fit.Config{Method: fit.Auto, Dim: fit.AutoDim} })
	r := rand.New(rand.NewPCG(31, 32))
	learnRows(t, s, 1, clouds(r, 120, 4))
	first := s.Live()
	if first == nil || first.Model.Params()["auto"] != "method and dim" || first.Model.Method() == fit.Auto {
		t.Fatalf("live is %+v: %s", first, s.Status().Note)
	}
	for i := range 3 {
		rows := clouds(r, 800, 6) // more classes, with other means each time
		for k := range rows {
			rows[k].x[(k+i)%6] += 9
		}
		learnRows(t, s, uint64(100*(i+1)), rows)
	}
	last := s.Live()
	if s.Status().Fits < 3 || last.Version == first.Version {
		t.Fatalf("%d fits, version %s then %s: %+v", s.Status().Fits, first.Version, last.Version, s.Status())
	}
	if n := inspect(s).Schedule.ChosenFrom; n < 400 {
		t.Errorf("auto chose from %d rows, and not again from more", n)
	}
	if last.Model.Dim() != first.Model.Dim() {
		t.Errorf("dim %d became %d", first.Model.Dim(), last.Model.Dim())
	}
}

func TestAutoWithoutLabelsIsPCA(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Spec.Label = ""; c.Fit = fit.Config{Method: fit.Auto, Dim: fit.AutoDim} })
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(33, 34)), 120, 3))
	if l := s.Live(); l == nil || l.Model.Method() != "pca" || l.Model.Dim() != 2 {
		t.Fatalf("live is %+v: %s", l, s.Status().Note)
	}
}

func TestPeriod(t *testing.T) {
	s := newStage(t, func(c *spec.Config) {
		c.Training.Every = spec.Every{Rows: 1000,
			Period: 50 * time.Millisecond}
		c.Fit.Dim = 1
	})
	rows := clouds(rand.New(rand.NewPCG(17, 18)), 8, 2)
	if err := s.Learn(decode(t, s, rows), spec.Position{Seq: 1, Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	// 4 + 4 rows and then none: after the period there is still a model.
	select {
	case <-s.Ready():
	case <-time.After(3 * time.Minute):
		t.Fatalf("no model: %+v", s.Status())
	}
}

// TestAdopt: a pinned model stays whatever the evidence, a model with other features or outputs is rejected, and
// training continues from an adopted one.
func TestAdopt(t *testing.T) {
	s := newStage(t, nil)
	r := rand.New(rand.NewPCG(21, 23))
	learnRows(t, s, 1, clouds(r, 1000, 3))
	good := s.Live()
	noise := clouds(r, 300, 3)
	for i := range noise {
		noise[i].class = fmt.Sprintf("c%d", r.IntN(3))
	}
	bad, err := fit.Fit(t.Context(), dataOf(noise), fit.Config{Method: "lda", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		method string
		dim    int
		rename bool
	}{{"lda", 1, false}, {"lda", 2, true}} {
		d := dataOf(noise)
		if x.rename {
			d.Features[0] = "other"
		}
		m, err := fit.Fit(t.Context(), d, fit.Config{Method: x.method, Dim: x.dim})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Adopt(&spec.Live{Model: m, Version: "v", Epoch: good.Epoch}, true); err == nil {
			t.Errorf("%+v was adopted", x)
		}
	}
	if err := s.Adopt(&spec.Live{Model: bad, Version: "bad", Epoch: 9}, true); err != nil {
		t.Fatal(err)
	}
	learnRows(t, s, 100, clouds(r, 1000, 3))
	if st := s.Status(); st.Live.Version != "bad" || !st.Pinned {
		t.Errorf("pinned, and live is %+v", st.Live)
	}
	if err := s.Adopt(&spec.Live{Model: bad, Version: "bad", Epoch: 9}, false); err != nil {
		t.Fatal(err)
	}
	learnRows(t, s, 200, clouds(r, 1000, 3))
	if st := s.Status(); st.Live.Version == "bad" || st.Pinned || !(st.Accuracy >= 0.9) {
		t.Errorf("after unpinning: %+v, live %+v", st, st.Live)
	}
	s.Close()
	if err := s.Adopt(good, false); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestReset: a live model that was reset answers until a first model replaces it, with the configured number of outputs
// and in a new epoch: at once where the window is full, else when it is full again after a restart.
func TestReset(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(31, 32)), 400, 3)
	var saved []*spec.Release
	store := func(_ context.Context, r *spec.Release) (string, error) {
		saved = append(saved, r)
		return fmt.Sprintf("v%d", len(saved)), nil
	}
	at := func(dim int, resume *spec.Live) *Stage {
		return newStage(t, func(c *spec.Config) { c.Fit.Dim, c.Resume, c.Store = dim, resume, store })
	}
	a := at(2, nil)
	learnRows(t, a, 1, rows[:200])
	live := *a.Live()
	live.State = saved[len(saved)-1].State

	b := at(1, &live)
	learnRows(t, b, 1, rows)
	if l := b.Live(); l.Model.Dim() != 2 || l.Epoch != live.Epoch {
		t.Fatalf("with another configured dimension live is %+v with %d outputs", l, l.Model.Dim())
	}
	reset := *b.Live()
	reset.WasReset = true
	if err := b.Adopt(&reset, false); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, b)
	if l := b.Live(); l.Model.Dim() != 1 || l.Epoch != live.Epoch+1 || l.WasReset {
		t.Errorf("after the reset live is %+v with %d outputs", l, l.Model.Dim())
	}
	if r := saved[len(saved)-1]; !r.AfterReset || !r.NewEpoch || r.Parent != reset.Version || r.Door != "first" {
		t.Errorf("it was stored as %+v", r)
	}

	live.WasReset = true
	c := at(1, &live)
	if l := c.Live(); l.Version != live.Version {
		t.Errorf("after a restart live is %+v", l)
	}
	learnRows(t, c, 1, rows[:20*int(live.Seen)])
	if l := c.Live(); l.Version != live.Version {
		t.Errorf("while the window is read again live is %+v", l)
	}
	learnRows(t, c, live.Seen+1, rows[20*int(live.Seen):200])
	if l := c.Live(); l.Model.Dim() != 1 || l.Epoch != live.Epoch+1 {
		t.Errorf("after the window was read again live is %+v with %d outputs", l, l.Model.Dim())
	}
	if err := c.Adopt(&spec.Live{Model: live.Model, Version: "back", Epoch: live.Epoch}, false); err != nil {
		t.Errorf("a model of another epoch and dimension: %v", err)
	}
}

func TestClassLimit(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Classes, c.Contract = 3, testContract(t) })
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(23, 24)), 50, 5))
	if st := s.Status(); st.Classes != 3 || st.Rows < 20 || st.OverClassLimit < 15 {
		t.Errorf("%d classes, %d rows in the window", st.Classes, st.Rows)
	}
}

func TestRefit(t *testing.T) {
	s := newStage(t, func(c *spec.Config) { c.Training.Every = spec.Every{Rows: 1000} })
	r := rand.New(rand.NewPCG(35, 36))
	wantFew := func(figures string) {
		t.Helper()
		if err := s.Refit(); !errors.Is(err, spec.ErrFewRows) || !strings.Contains(err.Error(), figures) {
			t.Errorf("want %q, got %v", figures, err)
		}
	}
	wantFew("0 labelled rows of 0 classes")
	learnRows(t, s, 1, clouds(r, 3, 2))
	wantFew("3 labelled rows of 2 classes")
	learnRows(t, s, 2, clouds(r, 40, 3))
	if s.Live() != nil {
		t.Fatal("the policy did not wait; the test shows nothing")
	}
	for fits := 1; fits <= 2; fits++ { // the second time without a new row
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, s)
		if st := s.Status(); st.Live == nil || st.Fits != fits {
			t.Errorf("after refit %d: %+v", fits, st)
		}
	}
	fixed := newStage(t, func(c *spec.Config) { *c = spec.Config{Spec: c.Spec, Fixed: s.Live().Model} })
	if err := fixed.Refit(); !errors.Is(err, spec.ErrFixed) {
		t.Errorf("with a fixed model: %v", err)
	}
	s.Close()
	if err := s.Refit(); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRefitWhileFitting: a request during a fit is served after it, once.
func TestRefitWhileFitting(t *testing.T) {
	began, release := make(chan struct{}, 3), make(chan struct{})
	s := newStage(t, func(c *spec.Config) {
		c.Store = func(_ context.Context, r *spec.Release) (string, error) {
			began <- struct{}{}
			<-release
			return r.Model.Digest(), nil
		}
	})
	rows := clouds(rand.New(rand.NewPCG(37, 38)), 100, 3)
	if err := s.Learn(decode(t, s, rows), spec.Position{}); err != nil {
		t.Fatal(err)
	}
	<-began
	before := s.Status().Fits
	for range 3 {
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	waitIdle(t, s)
	if n := s.Status().Fits - before; n != 1 {
		t.Errorf("%d fits, want one for all that asked", n)
	}
}

func TestStoreFailureKeepsTheLiveModel(t *testing.T) {
	fail := errors.New("disk full")
	s := newStage(t, func(c *spec.Config) {
		c.Store = func(context.Context, *spec.Release) (string, error) { return "", fail }
	})
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(25, 26)), 100, 3))
	if s.Live() != nil {
		t.Error("a model that was not stored is live")
	}
	if st := s.Status(); !strings.Contains(st.Note, "disk full") {
		t.Errorf("status says %q", st.Note)
	}
}

// TestPanicEndsTheFitAlone: after a panic in the fitting goroutine (lda) or in its pool (sle-ovr) the live model still
// transforms messages, and the next fit succeeds.
func TestPanicEndsTheFitAlone(t *testing.T) {
	for method, phase := range map[string]string{"lda": "fit", "sle-ovr": "views"} {
		var broken atomic.Bool
		var fits []spec.Outcome
		var log bytes.Buffer
		s := newStage(t, func(c *spec.Config) {
			c.Fit.Method = method
			c.Fit.Progress = func(p string, _ float64) {
				if p == phase && broken.Load() {
					panic("out of luck")
				}
			}
			c.Training.Holdout = 0.2
			c.Observe = func(f spec.Outcome) { fits = append(fits, f) }
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		rows := clouds(rand.New(rand.NewPCG(31, 32)), 300, 3)
		learnRows(t, s, 1, rows[:100])
		live := s.Live()
		broken.Store(true)
		learnRows(t, s, 6, rows[100:200])
		if len(fits) != 2 || live == nil || s.Live() != live {
			t.Fatalf("%s: %d fits, live is %+v", method, len(fits), s.Live())
		}
		var p model.Panic
		if err := fits[1].Err; !errors.As(err, &p) || !strings.Contains(err.Error(), method+": panicked: out of luck") {
			t.Errorf("%s: the fit says %v", method, err)
		}
		if text := log.String(); !strings.Contains(text, "out of luck") ||
			!strings.Contains(text, "TestPanicEndsTheFitAlone") {
			t.Errorf("%s: the log does not show where it was: %s", method, text)
		}
		if _, err := s.Transform(t.Context(), decode(t, s, rows)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		broken.Store(false)
		learnRows(t, s, 11, rows[200:])
		before := s.Status().Fits
		learnRows(t, s, 20, rows)
		failed := slices.ContainsFunc(fits[2:], func(o spec.Outcome) bool { return o.Err != nil })
		if failed || s.Status().Fits == before {
			t.Errorf("%s: fits keep failing: %+v", method, fits[2:])
		}
	}
}

// TestStoresARequestedModelAgain: a first model that was requested before it was due is stored once the store works
// again, although no more rows come.
func TestStoresARequestedModelAgain(t *testing.T) {
	t.Parallel()
	var models atomic.Int64
	s := newStage(t, func(c *spec.Config) {
		c.Store = func(context.Context, *spec.Release) (string, error) {
			switch models.Add(1) {
			case 1:
				return "", errors.New("no connection")
			case 2:
				panic("no connection")
			}
			return "stored", nil
		}
	})
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(45, 46)), 60, 3))
	if models.Load() != 0 {
		t.Fatal("the policy did not wait; the test shows nothing")
	}
	if err := s.Refit(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); s.Live() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no model is live; the store was called %d times", models.Load())
		}
	}
}

// TestLearnersLeaveACore: training leaves a core to the answers, if there are two, and follows the configuration.
func TestLearnersLeaveACore(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for cores, want := range map[int]int{1: 1, 2: 1, 8: 7} {
		runtime.GOMAXPROCS(cores)
		if got := learningGoroutines(0); got != want {
			t.Errorf("%d cores: %d goroutines learn, want %d", cores, got, want)
		}
	}
	if got := learningGoroutines(3); got != 3 {
		t.Errorf("3 workers asked: %d", got)
	}
}

// TestStoresAgainWithoutRows: a schema and a first model that cannot be stored are stored once the store works again,
// although no more rows come: inputs may wait for the model.
func TestStoresAgainWithoutRows(t *testing.T) {
	t.Parallel()
	var schemas, models atomic.Int64
	var works atomic.Bool // the store of models
	s := countingStage(t, func(c *spec.Config) {
		c.Training.Every.Period = 0 // nothing is due by the time
		c.StoreContract = func(_ context.Context, counted *arrowio.Contract) (*arrowio.Contract, error) {
			if schemas.Add(1) == 1 {
				return nil, errors.New("no connection")
			}
			return counted, nil
		}
		c.Store = func(context.Context, *spec.Release) (string, error) {
			if models.Add(1); !works.Load() {
				return "", errors.New("no connection")
			}
			return "stored", nil
		}
	})
	rows := clouds(rand.New(rand.NewPCG(43, 44)), 200, 2)
	for i := 0; i < len(rows); i += 20 {
		send(t, s, uint64(1+i/20), tabular(t, rows[i:i+20], "a", "b"))
	}
	await := func(what string, isDone func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !isDone(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s; the schema was stored %d times, the model %d times", what, schemas.Load(), models.Load())
			}
		}
	}
	await("the rows are not learned", func() bool { return s.Contract() != nil && s.Status().Rows == len(rows) })
	if schemas.Load() != 2 || models.Load() == 0 || s.Live() != nil {
		t.Errorf("the schema was stored %d times, the model %d times", schemas.Load(), models.Load())
	}
	works.Store(true)
	await("no model is live", func() bool { return s.Live() != nil })
}

// TestFullQueue: rows beyond an eighth of the window's memory are not learned, and the first of them are logged.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := &spec.Config{Logger: logTo(&log)}
	c.Training.Window.Bytes = 8 * 3 * (9*6 + rowOverhead + 3)
	l := &learner{config: c, mu: logMutex{log: c.Logger}, stage: &Stage{}, wake: make(chan struct{}, 1)}
	l.stage.contract.Store(testContract(t))
	event := func(rows, fixes int) *trainer.Event {
		e := &trainer.Event{Fixes: make([]trainer.Fix, fixes)}
		for range rows {
			e.Rows = append(e.Rows, window.Row{Label: "ab", Source: "c"})
		}
		return e
	}
	for _, step := range []struct{ rows, fixes, queued, waiting, dropped int }{
		{0, 0, 0, 0, 0}, {2, 0, 1, 2, 0}, {1, 0, 2, 3, 0}, {1, 0, 2, 3, 1}, {2, 3, 2, 3, 6},
	} {
		l.mu.Lock()
		l.enqueue(event(step.rows, step.fixes))
		l.mu.Unlock()
		if len(l.queue) != step.queued || l.waiting != step.waiting || l.dropped != step.dropped ||
			l.bytes != int64(step.waiting*(9*6+rowOverhead+3)) {
			t.Errorf("%+v: %d events of %d rows in %d bytes, %d dropped", step, len(l.queue), l.waiting, l.bytes, l.dropped)
		}
	}
	want := `level=WARN msg="rows are not learned because they arrive faster than they can be learned" rows=1 fix="send ` +
		`fewer labelled rows, raise training.window.bytes, or wait while Status.Backlog is high"` + "\n"
	if log.String() != want {
		t.Errorf("the log has %q", log.String())
	}
}

// TestPanicsOfTheHost: a panic of StoreContract, Store or Observe is logged, and learning continues.
func TestPanicsOfTheHost(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var stores, outcomes int
	s := newStage(t, func(c *spec.Config) {
		c.Logger = logTo(&log)
		now, schemas := time.Unix(1000, 0), 0
		c.Clock = func() time.Time { now = now.Add(time.Minute); return now }
		c.StoreContract = func(_ context.Context, c *arrowio.Contract) (*arrowio.Contract, error) {
			if schemas++; schemas == 1 {
				panic("no schema")
			}
			return c, nil
		}
		c.Store = func(context.Context, *spec.Release) (string, error) {
			if stores++; stores == 1 {
				panic("no store")
			}
			return "v", nil
		}
		c.Observe = func(o spec.Outcome) { outcomes++; panic("no observer") }
	})
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(7, 8)), 600, 3))
	if s.Live() == nil || stores < 2 || outcomes < 2 {
		t.Errorf("live %v after %d stores and %d outcomes", s.Live(), stores, outcomes)
	}
	s.Close()
	for _, want := range []string{"Config.StoreContract panicked: no schema", `panic="no store"`,
		`panic="no observer"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, &log)
		}
	}
}

// TestPanicOfAnEvent: an event that panics is logged and reported, and does not end the goroutine that handles it.
func TestPanicOfAnEvent(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var outcomes []spec.Outcome
	s := newStage(t, func(c *spec.Config) {
		c.Logger = logTo(&log)
		c.Observe = func(o spec.Outcome) { outcomes = append(outcomes, o) }
	})
	s.learner.close() // its worker reads the trainer too
	s.learner.handle(t.Context(), &trainer.Event{Adopt: &spec.Live{}, Rows: make([]window.Row, 3)})
	if len(outcomes) != 1 || outcomes[0].Rows != 3 || outcomes[0].Promoted || outcomes[0].Err == nil ||
		outcomes[0].Reason != "learning from a message panicked" ||
		!math.IsNaN(outcomes[0].Candidate) || !math.IsNaN(outcomes[0].Previous) ||
		!strings.HasPrefix(outcomes[0].Err.Error(), "learning from a message panicked: ") {
		t.Errorf("outcomes %+v", outcomes)
	}
	s.learner.trainer = nil
	if s.learner.advance(newPace(t.Context(), func() bool { return false })); len(outcomes) != 2 {
		t.Errorf("after the time: outcomes %+v", outcomes)
	}
	if !strings.HasPrefix(log.String(), `level=ERROR msg="learning from a message panicked; please report it" panic="`) ||
		!strings.Contains(log.String(), ` stack="goroutine`) {
		t.Errorf("the log has %q", log.String())
	}
}

// asking is a logger that asks a stage for its status.
type asking struct {
	slog.Handler
	ask func()
}

func (a asking) Handle(context.Context, slog.Record) error {
	a.ask()
	return nil
}

// TestLoggerMayAsk: the host's logger is called without the lock of the learner, so that it may block, or ask the
// stage.
func TestLoggerMayAsk(t *testing.T) {
	var s *Stage
	asked := 0
	s = newStage(t, func(c *spec.Config) {
		c.Logger = slog.New(asking{slog.NewTextHandler(&bytes.Buffer{}, nil), func() {
			if asked++; !s.learner.mu.TryLock() {
				t.Error("the learner is locked")
				return
			}
			s.learner.mu.Unlock()
		}})
	})
	rows := clouds(rand.New(rand.NewPCG(3, 4)), 4, 2)
	ahead := spec.Position{Seq: 1, Time: time.Now().Add(time.Hour)}
	if err := s.Learn(decode(t, s, rows), ahead); err != nil || asked == 0 {
		t.Errorf("%d messages are logged about a timestamp ahead of the clock, %v", asked, err)
	}
}
