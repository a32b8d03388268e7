package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
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
		"--type int32":                 "want one of float32, float64, float16, int16, int8",
		"--model m --dim 2":            "leave out --features and --dim",
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

// TestBenchModel: a model file is measured on messages of its features, of each type and form, without goals of linear
// models if it is none.
func TestBenchModel(t *testing.T) {
	data := &model.Data{N: 40, M: 5, Classes: []string{"a", "b"}, Features: []string{"id", "u", "v", "w", "x"}}
	for i := range data.N {
		data.Y = append(data.Y, i%2)
		for j := range data.M {
			data.X = append(data.X, 100+float64((7*i*i+3*j*i+i%2)%23))
		}
	}
	for i, args := range []string{"--type int8 --layout list", "--type float16 --layout columns"} {
		m, err := fit.Fit(t.Context(), data, fit.Config{Method: "lda", Dim: 1, Landmarks: 8 * i})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.embedd")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(model.Write(file, m), file.Close()); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := call(t.Context(), append([]string{"bench", "--rows", "256", "--repeats", "1", "--json",
			"--model", path}, strings.Fields(args)...)...)
		if code != 0 {
			t.Fatalf("%s: code %d: %s", args, code, stderr)
		}
		lines := 0
		for line := range strings.Lines(stdout) {
			var r bench.Ratio
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if lines++; !(r.Ratio > 0) || r.Features != 5 || r.Dim != 1 || r.Method != "lda" ||
				m.Map() != "linear" && r.Goal != nil {
				t.Errorf("%s: %s", args, line)
			}
		}
		if lines < 4 {
			t.Errorf("%s: %d lines", args, lines)
		}
	}
}
