package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/embedd/embedd/plugin/spec"
)

// TestFirstModelAfterALapse: a first model that could not be stored, since this process was not the trainer for a
// moment, is fitted when it is again, without further rows: the rest of the input may wait for the model.
func TestFirstModelAfterALapse(t *testing.T) {
	t.Parallel()
	var isTrainer atomic.Bool
	s := newStage(t, func(c *spec.Config) {
		c.Store = func(context.Context, *spec.Release) (string, error) {
			if !isTrainer.Load() {
				return "", errors.New("another replica trains the pipeline")
			}
			return "v1", nil
		}
	})
	learnRows(t, s, 1, clouds(rand.New(rand.NewPCG(1, 2)), 900, 3))
	if s.Live() != nil || s.Status().Fits == 0 {
		t.Fatalf("after fits that could not be stored: %+v", s.Status())
	}
	isTrainer.Store(true)
	s.Standby(false)
	if waitIdle(t, s); s.Live() == nil {
		t.Error("no model was fitted when the stage was to fit again")
	}
}

// TestTakeoversDecideAlike: stages that take training over from each other at random points promote the models that one
// stage does, with the same digests, whatever they have learned on standby.
func TestTakeoversDecideAlike(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(21, 22)), 4000, 3)
	for i := range rows {
		for j := range rows[i].x {
			rows[i].x[j] /= 2
		}
		if i > 2000 {
			slices.Reverse(rows[i].x)
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
	}
	for _, method := range []string{"lda", "lfda"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			change := func(c *spec.Config) {
				c.Training.Window = spec.Window{Rows: 1500, Balance: spec.BalanceClass}
				c.Training.Every.Rows, c.Fit.Method = 500, method
			}
			one := newRecordedStage(t, change)
			learnRows(t, one.Stage, 1, rows)
			random := rand.New(rand.NewPCG(23, 24))
			active := newRecordedStage(t, change)
			begin, from := 0, 0 // rows: of the turn, and from which the window is learned again
			for turn := 1; begin < len(rows); turn++ {
				end := min(begin+20*(1+random.IntN(40)), len(rows))
				if turn == 1 {
					end = 600 // while features are counted, no other stage continues
				}
				learnRows(t, active.Stage, uint64(from/20+1), rows[from:end])
				if end == len(rows) {
					break
				}
				// The next one has learned some of the rows on standby, and the models that it has heard of.
				next := newRecordedStage(t, func(c *spec.Config) { change(c); c.Standby = true })
				if n := 20 * random.IntN(end/20+1); turn%3 > 0 {
					learnRows(t, next.Stage, 1, rows[:n])
				}
				if err := next.Adopt(active.live, false); err != nil {
					t.Fatal(err)
				}
				_, first := ReadFrom(active.live.State)
				learnRows(t, next.Stage, uint64(end/20), rows[end-20:end])
				next.live, next.decisions = active.live, active.decisions
				if !next.TakeOver(active.live) || next.TakeOver(active.live) {
					t.Fatal("a stage takes over once, from standby")
				}
				active.Standby(true)
				active, begin, from = next, end, int(first-1)*20
			}
			if x, y := strings.Join(one.decisions, "\n"), strings.Join(active.decisions, "\n"); x != y || x == "" {
				t.Errorf("without takeovers\n%s\nwith\n%s", x, y)
			}
			if x, y := one.Status(), active.Status(); x.Rows != y.Rows || fmt.Sprint(x.Evidence) != fmt.Sprint(y.Evidence) {
				t.Errorf("without takeovers %d rows and evidence %g, with %d and %g", x.Rows, x.Evidence, y.Rows, y.Evidence)
			}
		})
	}
}

// TestOlderCopyAfterAChange: after an older copy of the stream was restored, rows have positions of a stream that was
// created when the copy was noticed, and after a restart those of the copy. Then all are before the last change.
func TestOlderCopyAfterAChange(t *testing.T) {
	t.Parallel()
	learn := func(s *Stage, created int64, rows []row) {
		for i := 0; i < len(rows); i += 20 {
			at := spec.Position{Created: time.Unix(created, 0), Seq: uint64(1 + i/20), Time: time.Unix(created+int64(i), 0)}
			if err := s.Learn(decode(t, s, rows[i:i+20]), at); err != nil {
				t.Fatal(err)
			}
			waitIdle(t, s)
		}
	}
	rows := clouds(rand.New(rand.NewPCG(7, 9)), 1500, 4)
	turned := rows[1000:]
	for i := range turned {
		x := turned[i].x
		turned[i].x = append(append([]float32{}, x[2:]...), x[:2]...)
		turned[i].x[4] *= -1
	}
	before := newRecordedStage(t, func(*spec.Config) {})
	learn(before.Stage, 2000, rows)
	if s := before.Status(); s.Alarms == 0 || s.Live.Epoch == 1 {
		t.Fatalf("after a change: %+v", s)
	}
	after := newRecordedStage(t, func(c *spec.Config) { c.Resume, c.Training.IgnoreDrift = before.live, true })
	learn(after.Stage, 1000, turned)
	if n := after.Status().Rows; n != len(turned) {
		t.Errorf("the window has %d of %d rows", n, len(turned))
	}
}
