package plugin_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// play plays messages of a stream to a stage, which change may change, and returns its status.
func play(t *testing.T, name string, rows, dim int, change func(d *model.Data)) plugin.Status {
	t.Helper()
	s, err := streams.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	source, err := s.Open(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := trial.NewPlayer(s, fit.Config{Method: "lda", Dim: dim}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range min(rows, source.Rows()) / streams.BatchRows {
		d := source.Next()
		if change != nil {
			change(d)
		}
		if err := p.Play(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	return p.Stage.Status()
}

func kinds(s plugin.Status) (all []string) {
	for _, u := range s.Unusual {
		all = append(all, string(u.Kind))
	}
	return all
}

// The status of a stage says what is unusual about its stream, and nothing of a usual one.
func TestUnusualStreams(t *testing.T) {
	each := func(f func(j int, x float64) float64) func(*model.Data) {
		return func(d *model.Data) {
			for i := range d.X {
				d.X[i] = f(i%d.M, d.X[i])
			}
		}
	}
	for _, c := range []struct {
		name, stream string
		rows, dim    int
		change       func(*model.Data)
		want         []string
		text         string
	}{
		{name: "independent", stream: "independent", rows: 2000},
		{name: "two classes", stream: "hyperplane5", rows: 2000},
		{name: "sorted", stream: "digits-sorted", rows: 1250, want: []string{"sorted"}, text: "10 classes"},
		{name: "runs", stream: "markov30", rows: 2000, want: []string{"runs"}, text: "runs of"},
		{name: "long runs", stream: "runs300", rows: 2000, want: []string{"sorted"}, text: "7 classes"},
		{name: "one long run", stream: "runs1000", rows: 1500, want: []string{"sorted"}, text: "2 classes"},
		{name: "copies", stream: "copies", rows: 1500, want: []string{"runs", "copies"}, text: "90 %"},
		{name: "file that is repeated", stream: "independent", rows: 2000, change: repeated(500),
			want: []string{"copies"}, text: "75 %"},
		{name: "imbalance", stream: "imbalance", rows: 3000, want: []string{"imbalance"}},
		{name: "few labels", stream: "sparse", rows: 2500, want: []string{"few_labels"}, text: "of 2500 rows have a label"},
		{name: "poison", stream: "independent", rows: 3000, change: poisoned(1500), want: []string{"labels_suspect"}},
		{name: "few outputs", stream: "independent", rows: 2000, dim: 1, want: []string{"few_outputs"}, text: "1 for 8"},
		{name: "heavy tails", stream: "independent", rows: 2000, want: []string{"heavy_tails"},
			change: each(func(_ int, v float64) float64 { return v * v * v * v * v * v * v })},
		{name: "constant", stream: "independent", rows: 2000, want: []string{"constant_features"}, text: "32 of 48 features",
			change: each(func(j int, v float64) float64 {
				if j < 16 {
					return v
				}
				return 1000 + 1e-3*v
			})},
		{name: "pixels that are nearly always 0", stream: "usps-shuffled", rows: 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := play(t, c.stream, c.rows, c.dim, c.change)
			if got := kinds(s); !slices.Equal(got, c.want) {
				t.Fatalf("unusual are %q, want %q: %+v", got, c.want, s.Unusual)
			}
			for _, u := range s.Unusual {
				if !slices.Contains(plugin.UnusualKinds, u.Kind) || u.Text == "" {
					t.Errorf("%+v", u)
				}
			}
			if n := len(s.Unusual); c.text != "" && !strings.Contains(s.Unusual[n-1].Text, c.text) {
				t.Errorf("%q does not say %q", s.Unusual[n-1].Text, c.text)
			}
		})
	}
}

// repeated has the rows of each message begin again with the first ones after a number of rows.
func repeated(rows int) func(*model.Data) {
	var all model.Data
	at := 0
	return func(d *model.Data) {
		for i := range d.N {
			if at < rows {
				all.X, all.Y = append(all.X, d.X[i*d.M:(i+1)*d.M]...), append(all.Y, d.Y[i])
			} else {
				k := at % rows
				copy(d.X[i*d.M:(i+1)*d.M], all.X[k*d.M:(k+1)*d.M])
				d.Y[i] = all.Y[k]
			}
			at++
		}
	}
}

// poisoned gives rows random labels after a number of rows.
func poisoned(rows int) func(*model.Data) {
	r, at := rand.New(rand.NewPCG(1, 1)), 0
	return func(d *model.Data) {
		if at += d.N; at > rows {
			for i := range d.Y {
				d.Y[i] = r.IntN(len(d.Classes))
			}
		}
	}
}

// The status says what the window is: how many of the classes it has, how long runs are, and how many independent rows
// its rows are worth.
func TestWindowReport(t *testing.T) {
	s := play(t, "independent", 2000, 0, nil)
	if s.ClassesSeen != 8 || s.Classes != 8 || s.HasRuns || !(s.RunRows >= 1) || !(s.RunRows <= 1.5) {
		t.Errorf("independent rows: %+v", s)
	}
	if s.EffectiveRows != float64(s.Rows) || s.LabelledShare != 1 {
		t.Errorf("%d independent rows, %g labelled, are worth %g", s.Rows, s.LabelledShare, s.EffectiveRows)
	}
	s = play(t, "copies", 2000, 0, nil)
	if worth := s.EffectiveRows / float64(s.Rows); math.IsNaN(worth) || !(worth <= 0.3) {
		t.Errorf("rows that are sent ten times are worth %.2f of their number", worth)
	}
	s = play(t, "runs300", 3000, 0, nil)
	if !s.HasRuns || s.RunRows < 250 || s.RunRows > 350 {
		t.Errorf("runs of 300 rows: %g rows", s.RunRows)
	}
	s = play(t, "sparse", 10_000, 0, nil)
	if !(s.LabelledShare >= 0.007) || !(s.LabelledShare <= 0.013) {
		t.Errorf("%g of the rows have a label, want 0.01", s.LabelledShare)
	}
}
