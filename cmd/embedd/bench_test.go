package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBench: each section has its lines, with what they were measured beside, and a goal where one is stated.
func TestBench(t *testing.T) {
	code, stdout, stderr := call(t.Context(), "bench", "--rows", "1024", "--features", "16", "--dim", "2", "--repeats", "1",
		"--layout", "columns", "--type", "float64", "--json")
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var what []string
	for line := range strings.Lines(stdout) {
		var r ratio
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if !(r.Ratio > 0 && r.Ours > 0 && r.Scale > 0) || r.Repeats != 1 || r.Features != 16 ||
			r.Type != typeFloat64 || (r.Goal == nil) != (r.Met == nil) {
			t.Errorf("%s", line)
		}
		what = append(what, r.What)
	}
	if !slices.Contains(what, "pipeline, drain") || !slices.Contains(what, "projection, one core") ||
		!slices.Contains(what, "fit of pca") {
		t.Errorf("it measured %q", what)
	}
}

// TestBenchLine: figures and ratio are of one turn, that with the median ratio.
func TestBenchLine(t *testing.T) {
	took := [2][]float64{{1, 8, 3, 2, 5}, {2, 8, 9, 1, 6}}
	r := compare("x", "us", "y", took, [2]float64{120, 120})
	if r.Ours != 24 || r.Scale != 20 || r.Ratio != 1.2 || r.Repeats != 5 {
		t.Errorf("%+v, want 24 beside 20, the fifth of 5 turns", r)
	}
}

// TestBenchBadInput is a sentence and code 2.
func TestBenchBadInput(t *testing.T) {
	for line, want := range map[string]string{
		"--rows 0":                     "--rows 0: want 1 to",
		"--features 1":                 "--features 1: want 2 to",
		"--features 5000":              "want 2 to 4096",
		"--dim 0":                      "--dim 0: want 1 to",
		"--features 4 --dim 5":         "--dim 5: want 1 to 4",
		"--repeats -1":                 "--repeats -1: want 1 to",
		"--type float16":               "want one of float32, float64",
		"--layout rows":                "want one of list, columns",
		"--rows 10000 --features 1000": "give fewer rows, at most 1835",
		"--rows 1000 --type float64 --features 1000": "give fewer rows, at most 917",
		"more": "is not expected",
	} {
		code, stdout, stderr := call(t.Context(), append([]string{"bench"}, strings.Fields(line)...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q, want %q", line, code, stderr, want)
		}
	}
}

// TestBenchEnds: turns that take long are fewer than was asked for, and one at least.
func TestBenchEnds(t *testing.T) {
	show := newProgress(&env{})
	defer show.end()
	b := bench{benchShape{}, 100, show, nil}
	slow := func() (float64, error) { time.Sleep(20 * time.Millisecond); return 1, nil }
	took, err := b.turns(t.Context(), "", 50*time.Millisecond, slow, slow)
	if err != nil || len(took[0]) != 1 || len(took[1]) != 1 {
		t.Errorf("turns of 40 ms within 50: %d and %d counted; %v", len(took[0]), len(took[1]), err)
	}
}

// TestBenchFitsAnyShape: every shape that may be measured has rows enough for its outputs.
func TestBenchFitsAnyShape(t *testing.T) {
	for features := 2; features <= 4096; features++ {
		s := benchShape{Rows: 1, Features: features, Dim: min(features, 64)}
		if n := s.fitRows(); min(n-1, features) < s.Dim {
			t.Errorf("%d rows of %d features for %d outputs", n, features, s.Dim)
		}
	}
}

// TestTouchLines: a word of each cache line is read, of whatever number of words.
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
