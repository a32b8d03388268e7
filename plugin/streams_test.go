package plugin_test

import (
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// Labels that arrive in the reverse order of their rows, across changes of the concept or without any, leave the rows
// in the window that labels in order do.
func TestReversedLabels(t *testing.T) {
	for _, c := range []struct {
		stream string
		seed   uint64
	}{{"reversed", 1}, {"recurring", 1}, {"runs30", 1}}[:testsize.Of(1, 3)] {
		s, err := streams.Named(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		s.Reversed = false
		plain, changed, err := trial.Both(t.Context(), trial.Config{Stream: s, Seed: c.seed, Rows: 4000, Every: 4000,
			Fit: fit.Config{Method: "lda"}}, trial.Reversed)
		if err != nil {
			t.Fatal(err)
		}
		want, got := plain.Status.Rows, changed.Status.Rows
		if diff := got - want; diff < -100 || diff > 100 {
			t.Errorf("%s, seed %d: the window has %d rows, with labels in order %d", c.stream, c.seed, got, want)
		}
		before, after := plain.Checkpoints[0].Live, changed.Checkpoints[0].Live
		if !(after >= before-0.03) {
			t.Errorf("%s, seed %d: accuracy %.3f, with labels in order %.3f", c.stream, c.seed, after, before)
		}
	}
}

// However many labels a message has, reversed labels leave the rows after the change in the window, and of a window
// that holds fewer rows the newest.
func TestReversedLabelMessages(t *testing.T) {
	for _, c := range []struct{ labels, window, least, most int }{
		{1, 0, 1400, 1600}, {37, 0, 1400, 1600}, {3000, 0, 1400, 1600}, {250, 1000, 950, 1000},
	} {
		s, err := streams.Named("reversed")
		if err != nil {
			t.Fatal(err)
		}
		source, err := s.Open(3000, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, err := trial.NewPlayer(s, fit.Config{Method: "lda"}, func(p *plugin.Config) { p.Training.Window.Rows = c.window })
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var labels []string
		for len(labels) < 3000 {
			d := source.Next()
			for _, y := range d.Y {
				labels = append(labels, d.Classes[y])
			}
			if err := p.Play(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		var rows []int
		var texts []string
		for row := len(labels) - 1; row >= 0; row-- {
			rows, texts = append(rows, row), append(texts, labels[row])
			if len(rows) < c.labels && row > 0 {
				continue
			}
			if err := p.PlayLabels(t.Context(), rows, texts); err != nil {
				t.Fatal(err)
			}
			rows, texts = rows[:0], texts[:0]
		}
		n, joined := p.Stage.Status().Rows, p.Stage.LabelStatus().Joined
		if joined != 3000 || n < c.least || n > c.most {
			t.Errorf("%d labels a message: %d of 3000 rows are joined, and %d in the window, want %d to %d", c.labels, joined,
				n, c.least, c.most)
		}
	}
}
