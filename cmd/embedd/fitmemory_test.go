package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestFitTakesTooMuch: fit and eval report before they begin that they would need more memory than there is.
func TestFitTakesTooMuch(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	debug.SetMemoryLimit(1 << 20) // less than the process uses, so that nothing is free
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
