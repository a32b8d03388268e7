package stage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/plugin/spec"
)

// TestOneRowStopsNothing: a class with one outlier among good rows does not stop later fits, and the status describes
// the row.
func TestOneRowStopsNothing(t *testing.T) {
	magnitudes := []float32{1e4, 3e38}
	if testsize.Long() {
		magnitudes = append(magnitudes, 1e6, 1e9, 1e19)
	}
	for _, far := range magnitudes {
		for _, class := range []string{"once", "c0"} {
			t.Run(fmt.Sprint(far, " ", class), func(t *testing.T) {
				failed := 0
				s := newStage(t, func(c *spec.Config) {
					c.Observe = func(o spec.Outcome) {
						if o.Err != nil {
							failed++
						}
					}
				})
				r := rand.New(rand.NewPCG(71, 72))
				rows := clouds(r, 1500, 3)
				for i := 7; i < 700; i += 70 { // more than one, since a fifth is held out
					rows[i].x, rows[i].class = append([]float32{far}, rows[i].x[1:]...), class
					if class == "once" {
						rows[i].class += fmt.Sprint(i)
					}
				}
				learnRows(t, s, 1, rows)
				st := s.Status()
				if failed > 0 || !(st.Accuracy >= 0.99) {
					t.Errorf("%d fits failed, accuracy %.3f: %+v", failed, st.Accuracy, st)
				}
				limited := 0
				if class == "c0" {
					limited = 2 // the rows in the window; those of one row each are of no class that enters fits
				}
				if want := fmt.Sprintf("of in.a: feature x[0] is %.4g, and its limits are within", far); st.Outliers > 0 ||
					st.LimitedRows != limited || !strings.Contains(st.LastOutlier, want) {
					t.Errorf("the status says %q, %d rows set aside and %d limited, not %q", st.LastOutlier, st.Outliers,
						st.LimitedRows, want)
				}
				if of := st.OutlierClasses; class == "c0" && (len(of) != 1 || of[0].Class != class || of[0].Limited != 2) {
					t.Errorf("by class the status says %+v", of)
				}
			})
		}
	}
}

// TestJunkLabels: random labels of one to three rows each, before and among the classes, exclude no class.
func TestJunkLabels(t *testing.T) {
	for _, each := range []int{1, 2, 3} {
		for _, labels := range []int{1000, 10000} {
			for _, when := range []string{"before", "among"} {
				if labels > 1000 && (each == 2 || when == "among") {
					continue
				}
				if !testsize.Long() && (each == 2 || labels > 1000 || (each == 1) != (when == "before")) {
					continue
				}
				t.Run(fmt.Sprint(labels, " of ", each, " rows ", when), func(t *testing.T) {
					s := newStage(t, func(c *spec.Config) { c.Training.Window.Rows = 2000; c.Fit.Dim = 0 })
					r := rand.New(rand.NewPCG(73, 74))
					real := clouds(r, 3000, 3)
					junk := clouds(r, labels*each, 3)
					for i := range junk {
						junk[i].class = fmt.Sprint("junk", i/each)
					}
					var rows []row
					if when == "before" {
						rows = append(junk, real...)
					} else {
						for i := range max(len(junk), len(real)) {
							if i < len(junk) {
								rows = append(rows, junk[i])
							}
							rows = append(rows, real[i%len(real)])
						}
					}
					learnRows(t, s, 1, rows)
					st := s.Status()
					if st.Live == nil {
						t.Fatalf("no model: %+v", st)
					}
					if n := len(st.Live.Model.Classes()); n != 3 || st.Live.Model.Dim() != testFeatures ||
						st.Largest < 300 {
						t.Errorf("%d classes, %d outputs, largest %d", n, st.Live.Model.Dim(), st.Largest)
					}
				})
			}
		}
	}
}

// TestQuota: one subject, or one key, that sends most rows of a class with wrong features has no more than its share of
// the class, and the model still classifies well.
func TestQuota(t *testing.T) {
	for _, by := range []spec.QuotaBy{spec.QuotaNone, spec.QuotaSubject, spec.QuotaKey} {
		s := newStage(t, func(c *spec.Config) {
			c.Training.Window.Rows, c.Training.Quota, c.Spec.Key = 900, spec.Quota{By: by, Share: 0.2}, "id"
			c.Training.IgnoreDrift = true
		})
		r := rand.New(rand.NewPCG(91, 92))
		for seq := range uint64(210) {
			rows, subject := clouds(r, 12, 3), fmt.Sprint("in.", seq%7)
			if seq%3 > 0 { // two in three messages
				subject = "in.bad"
				for i := range rows {
					rows[i].class = "c0"
				}
			}
			keys := make([]string, len(rows))
			for i := range keys {
				keys[i] = subject
			}
			m, err := s.Decode(keyedMessage(t, rows, keys, false))
			if err != nil {
				t.Fatal(err)
			}
			at := spec.Position{Seq: seq + 1, Time: time.Unix(int64(seq), 0), Source: subject}
			if err := s.Learn(m, at); err != nil {
				t.Fatal(err)
			}
			waitIdle(t, s)
		}
		bad, all := 0, 0
		inspect(s).Window.All(func(r *window.Row) bool {
			bad, all = bad+b2i(r.Label == "c0" && r.Source == "in.bad"), all+b2i(r.Label == "c0")
			return true
		})
		if by == spec.QuotaNone {
			if bad < all/2 {
				t.Errorf("the test shows nothing: %d of %d rows are bad", bad, all)
			}
		} else if st := s.Status(); bad > 80 || all < 280 || st.OverQuota == 0 {
			t.Errorf("by %s: %d of %d rows are of who floods, %d were capped", by, bad, all, st.OverQuota)
		}
	}
}

// TestStamps: timestamps a year ahead, of one or many messages, and a clock that is set back neither trigger fits by
// time nor empty a window by age, and have the same effect after a restart.
func TestStamps(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		name  string
		stamp func(i int) time.Duration // the offset of the server's clock at message i of 200
	}{
		{"one message", func(i int) time.Duration { return []time.Duration{0, year}[b2i(i == 60)] }},
		{"the first message", func(i int) time.Duration { return []time.Duration{0, year}[b2i(i == 0)] }},
		{"fifty messages", func(i int) time.Duration { return []time.Duration{0, year}[b2i(i >= 60 && i < 110)] }},
		{"from one on", func(i int) time.Duration { return []time.Duration{0, year}[b2i(i >= 60)] }},
		{"all", func(int) time.Duration { return year }},
		{"now and then", func(i int) time.Duration { return []time.Duration{0, year}[b2i(i%7 == 3 && i > 20)] }},
		{"set back for a while", func(i int) time.Duration {
			return []time.Duration{0, -2 * time.Hour}[b2i(i >= 60 && i < 80)]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
			begin := now
			var mu sync.Mutex
			config := func(x *spec.Config) {
				x.Clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
				x.Training.Window = spec.Window{Rows: 5000, Age: time.Hour}
				x.Training.Every = spec.Every{Rows: 1 << 30, Period: 20 * time.Minute}
			}
			rows := clouds(rand.New(rand.NewPCG(81, 82)), 4000, 3)
			run := func(s *Stage, from, to int) {
				for i := from; i < to; i++ { // a message of 20 rows a minute
					mu.Lock()
					now = begin.Add(time.Duration(i) * time.Minute)
					at := spec.Position{Seq: uint64(i + 1), Time: now.Add(c.stamp(i) - time.Second)}
					mu.Unlock()
					if err := s.Learn(decode(t, s, rows[20*i:20*i+20]), at); err != nil {
						t.Fatal(err)
					}
					waitIdle(t, s)
					// The window has the rows of an hour; if time stopped for some of it, more or fewer.
					slack := []int{100, 450}[b2i(c.name == "set back for a while")]
					if n := s.Status().Rows; i > 65 && (n < 1200-slack || n > 1200+slack) {
						t.Fatalf("after message %d the window has %d rows", i, n)
					}
				}
			}
			a := newRecordedStage(t, config)
			run(a.Stage, 0, 190) // a checkpoint is saved every 2,500 rows, so that one of them knows all stamps
			before, rowTime := a.stored(), a.learner.rowTime
			run(a.Stage, 190, 200)
			if n := inspect(a.Stage).Schedule.Now.Sub(begin); n < 195*time.Minute || n > 205*time.Minute {
				t.Errorf("after 200 minutes learning counts %v", n)
			}
			if st := a.Status(); (st.Clock != "") != (c.stamp(199) > 0) {
				t.Errorf("the status says %q", st.Clock)
			}
			now = now.Add(2 * year) // after the restart the timestamps are no longer ahead of the clock
			first, state := uint64(0), before.live.State
			if _, first = ReadFrom(state); first == 0 {
				t.Fatal("no checkpoint")
			}
			d := newRecordedStage(t, func(x *spec.Config) { config(x); x.Resume = before.live })
			for i := int(first) - 1; i < 190; i++ {
				at := spec.Position{Seq: uint64(i + 1), Time: begin.Add(time.Duration(i)*time.Minute + c.stamp(i) - time.Second)}
				if err := d.Learn(decode(t, d.Stage, rows[20*i:20*i+20]), at); err != nil {
					t.Fatal(err)
				}
				waitIdle(t, d.Stage)
			}
			// A single stamp after the last checkpoint that is no longer ahead of the clock could be a silence.
			if x, y := d.learner.rowTime, rowTime; c.name != "now and then" && x.Newest != y.Newest {
				t.Errorf("after a restart stamps are read as %+v, before as %+v", x, y)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
