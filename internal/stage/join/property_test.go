package join

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// window is the result of a host: each row that it received and that was not removed, with its last label.
type window map[Position]string

func (w window) take(t *testing.T, out []Out[int]) {
	for _, o := range out {
		_, has := w[o.Position]
		switch {
		case has != (o.Kind != Give):
			t.Fatalf("row %v: %v, and whether the host has it: %v", o.Position, o.Kind, has)
		case o.Kind == Withdraw:
			delete(w, o.Position)
		default:
			w[o.Position] = o.Text
		}
		if o.Kind == Give && o.Payload != int(o.Position.Seq)*1000+o.Position.Row {
			t.Fatalf("row %v comes with the payload of %d", o.Position, o.Payload)
		}
	}
}

// event is a row or a label on its way; due says when it arrives.
type event struct {
	row   *Row[int]
	label *Label
	due   float64
}

// run feeds events in the order of their arrival.
func run(t *testing.T, l Limits, events []event) (window, *Join[int]) {
	t.Helper()
	slices.SortStableFunc(events, func(a, b event) int {
		switch {
		case a.due < b.due:
			return -1
		case a.due > b.due:
			return 1
		}
		return 0
	})
	j, w := New[int](l), window{}
	for _, e := range events {
		if e.row != nil {
			w.take(t, j.AddRow(*e.row))
		} else {
			w.take(t, j.AddLabel(*e.label))
		}
		if j.Bytes() > l.Bytes {
			t.Fatalf("%d bytes are held, and %d are allowed", j.Bytes(), l.Bytes)
		}
	}
	return w, j
}

// TestDelayed compares the windows with delayed labels with those without delay: delays of 0 to 10,000 rows, so labels
// are out of order, 1 % missing, 1 % duplicated, 2 % early, 2 % corrected later, and each of the two streams stalls at
// times.
func TestDelayed(t *testing.T) {
	const rows, perMessage = 40000, 16
	for seed := range uint64(testsize.Of(1, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			type sent struct {
				at        float64 // in rows
				row, rank int
				text      string
			}
			var labels []sent
			var events []event
			want := window{}
			for i := range rows {
				r := Row[int]{Position: Position{1, uint64(1 + i/perMessage), i % perMessage}, Key: fmt.Sprint("k", i),
					Size: 400,
					Time: time.Unix(int64(i/perMessage), 0)}
				r.Payload = int(r.Position.Seq)*1000 + r.Position.Row
				events = append(events, event{row: &r, due: float64(i)})
				p := rng.Float64()
				if p < 0.01 {
					continue
				}
				text := fmt.Sprint("c", rng.IntN(8))
				at := float64(i) + 10000*rng.Float64()
				if p < 0.03 {
					at = float64(i) - 100*rng.Float64()
				}
				labels = append(labels, sent{at, i, 0, text})
				if p > 0.99 {
					labels = append(labels, sent{at + 5000*rng.Float64(), i, 1, text})
				}
				if p > 0.96 && p <= 0.98 {
					text = fmt.Sprint("c", rng.IntN(8))
					labels = append(labels, sent{at + 5000*rng.Float64(), i, 1, text})
				}
				want[r.Position] = text
			}
			undelayed := slices.Clone(labels)
			slices.SortStableFunc(undelayed, func(a, b sent) int { return (a.row-b.row)*2 + a.rank - b.rank })
			slices.SortStableFunc(labels, func(a, b sent) int {
				if a.at < b.at {
					return -1
				}
				return 1
			})
			stream := func(labels []sent, due func(sent) float64) (out []event) {
				out = slices.Clone(events)
				for i, s := range labels {
					l := Label{Position: Position{2, uint64(1 + i/10), i % 10}, Key: fmt.Sprint("k", s.row), Text: s.text,
						Time: time.Unix(int64(max(0, due(s))/perMessage), 0)}
					out = append(out, event{label: &l, due: due(s)})
				}
				return out
			}
			limits := Limits{Wait: 24 * time.Hour, Bytes: 64 << 20}
			at := func(s sent) float64 { return s.at }
			first, _ := run(t, limits, stream(undelayed, func(s sent) float64 { return float64(s.row) }))
			if !maps.Equal(first, want) {
				t.Fatalf("without delay the windows are not what the labels say: %s", differ(first, want))
			}
			second, j := run(t, limits, stream(labels, at))
			if !maps.Equal(second, want) {
				t.Errorf("with delay: %s", differ(second, want))
			}
			// The same label stream, read in other interleavings: each stream stalls and catches up.
			stalled := stream(labels, at)
			rowLag, labelLag := 3000*rng.Float64(), 20000*rng.Float64()
			for i := range stalled {
				lag := rowLag
				if stalled[i].label != nil {
					lag = labelLag
				}
				if lag > 1 {
					stalled[i].due = float64(int(stalled[i].due/lag)+1) * lag
				}
			}
			third, _ := run(t, limits, stalled)
			if !maps.Equal(third, want) {
				t.Errorf("stalled: %s", differ(third, want))
			}
			// And with the labels delivered out of the order of their stream.
			for i := range stalled {
				if stalled[i].label != nil {
					stalled[i].due = rng.Float64() * rows
				}
			}
			fourth, _ := run(t, limits, stalled)
			if !maps.Equal(fourth, want) {
				t.Errorf("shuffled: %s", differ(fourth, want))
			}
			c := j.Counts()
			waiting, _ := j.Waiting()
			t.Logf("%d rows, %d labels: %s; %d rows wait, %d bytes held", rows, len(labels), counted(c), waiting,
				j.Bytes())
			if n := c.Joined + c.Corrected + c.Duplicate; n != uint64(len(labels)) || c.Expired+c.Late > 0 {
				t.Errorf("%d labels were sent and %d counted, %d late and %d expired", len(labels), n, c.Late,
					c.Expired)
			}
		})
	}
}

func differ(got, want window) string {
	n, example := 0, ""
	for p, text := range want {
		if g, ok := got[p]; !ok || g != text {
			n++
			example = fmt.Sprintf("row %v is %q, want %q", p, g, text)
		}
	}
	for p, text := range got {
		if _, ok := want[p]; !ok {
			n++
			example = fmt.Sprintf("row %v is %q, want none", p, text)
		}
	}
	return fmt.Sprintf("%d of %d rows differ, as %s", n, len(want), example)
}

// TestFunctionOfStreams compares with the definition, for streams with repeated keys, labels that are too late or too
// early, and rows with labels: for any interleaving, the windows are those of the definition.
func TestFunctionOfStreams(t *testing.T) {
	limits := Limits{Wait: 20 * time.Second, Bytes: 1 << 20}
	for seed := range uint64(testsize.Of(1000, 3000)) {
		rng := rand.New(rand.NewPCG(seed, 17))
		var rows []Row[int]
		var labels []Label
		keys := 1 + rng.IntN(8)
		now := 0
		for i := range 60 {
			now += rng.IntN(5)
			r := Row[int]{Position: Position{0, uint64(i + 1), 0}, Time: time.Unix(int64(now), 0), Payload: 1000 * (i + 1),
				Size: 50}
			if rng.IntN(20) > 0 {
				r.Key = fmt.Sprint(rng.IntN(keys))
			}
			if rng.IntN(5) == 0 {
				r.Label, r.HasLabel = fmt.Sprint("own", rng.IntN(3)), true
			}
			rows = append(rows, r)
		}
		last := now
		now = 0
		for i := 0; now < last; i++ {
			now += rng.IntN(4)
			labels = append(labels, Label{Position: Position{0, uint64(i + 1), 0}, Time: time.Unix(int64(now), 0),
				Key: fmt.Sprint(rng.IntN(keys)), Text: fmt.Sprint("c", rng.IntN(3))})
		}
		want := defined(rows, labels, limits.Wait)
		for order := range 4 {
			var events []event
			due := 0.0
			for i := range rows {
				due += rng.ExpFloat64()
				events = append(events, event{row: &rows[i], due: due})
			}
			due = float64(order*20) * rng.Float64()
			for i := range labels {
				due += rng.ExpFloat64()
				events = append(events, event{label: &labels[i], due: due})
			}
			got, _ := run(t, limits, events)
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d, order %d: %s", seed, order, differ(got, want))
			}
		}
	}
}

// defined is the definition of the package comment, in quadratic time.
func defined(rows []Row[int], labels []Label, wait time.Duration) window {
	w := window{}
	for i, r := range rows {
		text, has := r.Label, r.HasLabel
		for _, l := range labels { // in the order of their positions: the last wins
			if r.Key != "" && l.Key == r.Key && l.Time.Sub(r.Time).Abs() <= wait {
				text, has = l.Text, true
			}
		}
		for _, newer := range rows[i+1:] {
			if r.Key != "" && newer.Key == r.Key && newer.Time.Sub(r.Time) <= wait {
				has = false
			}
		}
		if has {
			w[r.Position] = text
		}
	}
	return w
}

// TestLabelsOutOfOrder: a label that arrives after one with a higher position changes nothing, whatever its text is.
func TestLabelsOutOfOrder(t *testing.T) {
	j := New[int](Limits{Wait: time.Hour, Bytes: 1 << 20})
	for seq := range uint64(2) {
		j.AddRow(Row[int]{Position: Position{Seq: seq}, Key: []string{"k", "other"}[seq], Size: 500})
	}
	if rows, bytes := j.Waiting(); rows != 2 || bytes < 1000 || bytes > 2000 {
		t.Errorf("%d rows wait with %d bytes", rows, bytes)
	}
	for _, c := range []struct {
		seq  uint64
		text string
		want int // outcomes
	}{{5, "a", 1}, {3, "a", 0}, {4, "b", 0}, {6, "a", 0}, {5, "c", 0}, {7, "b", 1}} {
		if out := j.AddLabel(Label{Position: Position{Seq: c.seq}, Key: "k", Text: c.text}); len(out) != c.want {
			t.Errorf("label %d, %q: %+v", c.seq, c.text, out)
		}
	}
	if c := j.Counts(); c.Joined != 1 || c.Corrected != 1 || c.Duplicate != 4 {
		t.Errorf("%+v", c)
	}
}
