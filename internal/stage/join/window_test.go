package join_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/stage/join"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
)

// TestSameModels compares the window with late labels with that without delay, and the digest of the model that is
// fitted from it: with delays of 0 to 10,000 rows, 1 % of the labels missing, 1 % duplicated, 2 % early and 2 %
// corrected.
func TestSameModels(t *testing.T) {
	const rows, m, perMessage = 30000, 12, 16
	features := make([]string, m)
	for i := range features {
		features[i] = fmt.Sprint("x", i)
	}
	for seed := range uint64(testsize.Of(1, 3)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		x := make([][]float64, rows)
		type sent struct {
			at        float64 // in rows
			row, rank int
			text      string
		}
		var labels []sent
		for i := range x {
			c := rng.IntN(6)
			x[i] = make([]float64, m)
			for k := range x[i] {
				x[i][k] = rng.NormFloat64()
			}
			x[i][c] += 3
			p, at, text := rng.Float64(), float64(i)+10000*rng.Float64(), fmt.Sprint("c", c)
			switch {
			case p < 0.01:
				continue
			case p < 0.03:
				at = float64(i) - 200*rng.Float64()
			case p < 0.05:
				labels = append(labels, sent{at, i, 0, fmt.Sprint("c", rng.IntN(6))})
				labels = append(labels, sent{at + 5000*rng.Float64(), i, 1, text})
				continue
			case p < 0.06:
				labels = append(labels, sent{at + 5000*rng.Float64(), i, 1, text})
			}
			labels = append(labels, sent{at, i, 0, text})
		}
		// learned feeds rows and labels in the order of their times, and returns the result.
		learned := func(at func(sent) float64, bytes int64) (*window.Window, *join.Join[[]float64]) {
			order := slices.Clone(labels)
			slices.SortStableFunc(order, func(a, b sent) int {
				if at(a) != at(b) {
					return map[bool]int{true: -1, false: 1}[at(a) < at(b)]
				}
				return a.rank - b.rank
			})
			w := window.New(window.Config{Features: m, Rows: 2 * rows, Classes: 100, Holdout: 0.2, Balance: true,
				Labelled: true, Moments: true})
			j := join.New[[]float64](join.Limits{Wait: 24 * time.Hour, Bytes: bytes})
			take := func(out []join.Out[[]float64]) {
				for _, o := range out {
					switch o.Kind {
					case join.Give:
						w.Add(window.Row{Position: window.Position(o.Position), Time: o.Time.UnixNano(), Label: o.Text,
							X: o.Payload})
					case join.Correct:
						w.Relabel(window.Position(o.Position), o.Text)
					case join.Withdraw:
						t.Fatal("no key repeats here")
					}
				}
			}
			next := 0
			label := func(until float64) {
				for ; next < len(order) && at(order[next]) <= until; next++ {
					s := order[next]
					take(j.AddLabel(join.Label{Position: join.Position{Created: 2, Seq: uint64(next + 1)},
						Key:  fmt.Sprint(s.row),
						Time: time.Unix(int64(max(0, at(s))/perMessage), 0), Text: s.text}))
				}
			}
			for i := range x {
				label(float64(i) - 0.5)
				take(j.AddRow(join.Row[[]float64]{Position: join.Position{Created: 1, Seq: uint64(1 + i/perMessage),
					Row: i % perMessage},
					Time: time.Unix(int64(i/perMessage), 0), Key: fmt.Sprint(i), Payload: x[i], Size: 9 * m}))
			}
			label(1e9)
			return w, j
		}
		digest := func(w *window.Window) string {
			s, err := w.Newest(t.Context(), w.Len())
			if err != nil {
				t.Fatal(err)
			}
			model, err := fit.FitMoments(context.Background(), s.Moments, features, s.Classes,
				fit.Config{Method: "lda", Dim: 4})
			if err != nil {
				t.Fatal(err)
			}
			return model.Digest()
		}
		undelayed, _ := learned(func(s sent) float64 { return float64(s.row) }, 64<<20)
		delayed, j := learned(func(s sent) float64 { return s.at }, 64<<20)
		a, b := digest(undelayed), digest(delayed)
		t.Logf("seed %d: %d labels, windows of %d and %d rows, digests %.16s and %.16s, %+v", seed, len(labels),
			undelayed.Len(), delayed.Len(), a, b, j.Counts())
		if a != b {
			t.Errorf("seed %d: the model of the delayed run has digest %.16s, of the undelayed %.16s", seed, b, a)
		}
		// A buffer that is too small makes a difference: this test can fail.
		small, j := learned(func(s sent) float64 { return s.at }, 1<<20)
		if c := digest(small); c == a || j.Counts().Expired == 0 {
			t.Errorf("seed %d: with 1 MiB digest %.16s and %d rows expired; want another digest", seed, c,
				j.Counts().Expired)
		}
	}
}
