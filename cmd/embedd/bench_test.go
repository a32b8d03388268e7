package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/tools/bench"
)

// TestBench: each section has its lines, with a baseline, and a goal if there is one.
func TestBench(t *testing.T) {
	code, stdout, stderr := call(t.Context(), "bench", "--rows", "1024", "--features", "16", "--dim", "2",
		"--repeats", "1",
		"--layout", "columns", "--type", "float64", "--json")
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var what []string
	for line := range strings.Lines(stdout) {
		var r bench.Ratio
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if !(r.Ratio > 0 && r.Ours > 0 && r.Scale > 0) || r.Repeats != 1 || r.Features != 16 ||
			r.Type != bench.TypeFloat64 || (r.Goal == nil) != (r.Met == nil) {
			t.Errorf("%s", line)
		}
		what = append(what, r.What)
	}
	if !slices.Contains(what, "pipeline, drain") || !slices.Contains(what, "projection, one core") ||
		!slices.Contains(what, "fit of pca") {
		t.Errorf("it measured %q", what)
	}
}

// TestBenchBadInput: bad input is an error with exit code 2.
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
