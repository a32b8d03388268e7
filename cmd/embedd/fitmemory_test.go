package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestFitTakesTooMuch: what would take more memory than there is says so, in fit and in eval, before it begins.
func TestFitTakesTooMuch(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	debug.SetMemoryLimit(1 << 20) // less than the process holds: nothing is free, whatever was collected
	out := filepath.Join(t.TempDir(), "m.embedd")
	code, _, stderr := call(t.Context(), "fit", "--data", iris, "--label", "label", "--method", "isomap", "-o", out)
	if _, err := os.Stat(out); code == 0 || err == nil || !strings.Contains(stderr,
		"isomap: a fit of 150 rows would take") ||
		!strings.Contains(stderr, "0 MB are free; use another method") {
		t.Errorf("code %d: %s", code, stderr)
	}
	code, stdout, stderr := call(t.Context(), "eval", "--data", iris, "--label", "label", "--methods", "isomap,lda",
		"--splits", "1")
	if code != 0 || !strings.Contains(stdout, "isomap: a fit of 75 rows would take") ||
		!strings.Contains(stderr, "1 of 2 left out for memory") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}
