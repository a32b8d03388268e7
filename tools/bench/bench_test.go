package bench

import (
	"testing"
	"time"
)

// TestBenchLine: a line has the figures and the ratio of one turn, the one with the median ratio.
func TestBenchLine(t *testing.T) {
	took := [2][]float64{{1, 8, 3, 2, 5}, {2, 8, 9, 1, 6}}
	r := compare("x", "us", "y", took, [2]float64{120, 120})
	if r.Ours != 24 || r.Scale != 20 || r.Ratio != 1.2 || r.Repeats != 5 {
		t.Errorf("%+v, want 24 against 20, the fifth of 5 turns", r)
	}
}

// TestBenchEnds: if turns take long, there are fewer than requested, and at least one.
func TestBenchEnds(t *testing.T) {
	b := run{Shape{}, 100, func(string, float64) {}}
	slow := func() (float64, error) { time.Sleep(20 * time.Millisecond); return 1, nil }
	took, err := b.turns(t.Context(), "", 50*time.Millisecond, slow, slow)
	if err != nil || len(took[0]) != 1 || len(took[1]) != 1 {
		t.Errorf("turns of 40 ms within 50: %d and %d counted; %v", len(took[0]), len(took[1]), err)
	}
}

// TestBenchFitsAnyShape: every shape has enough rows for its outputs.
func TestBenchFitsAnyShape(t *testing.T) {
	for features := 2; features <= 4096; features++ {
		s := Shape{Rows: 1, Features: features, Dim: min(features, 64)}
		if n := s.fitRows(); min(n-1, features) < s.Dim {
			t.Errorf("%d rows of %d features for %d outputs", n, features, s.Dim)
		}
	}
}

// TestTouchLines: one word of each cache line is read, for any number of words.
func TestTouchLines(t *testing.T) {
	for n := range 200 {
		words := make([]uint64, n)
		lines := uint64(0)
		for i := 0; i < n; i += cacheLine {
			words[i] = 1
			lines++
		}
		if got := touchLines(words); got != lines {
			t.Fatalf("%d words: %d lines read, not %d", n, got, lines)
		}
	}
}
