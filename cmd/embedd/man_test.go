package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1") // does not exist yet
	if code, stdout, stderr := call(t.Context(), "man", dir); code != 0 || stdout+stderr != "" {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	for page, want := range map[string]string{
		"embedd.1":            "exit codes",
		"embedd-fit.1":        "embedd fit --data FILE -o FILE [flags]",
		"embedd-model-show.1": "embedd model show NAME [flags]",
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), "\\-", "-"), want) {
			t.Errorf("%s does not say %q: %v", page, want, err)
		}
	}
	file := filepath.Join(dir, "embedd.1")
	if code, _, stderr := call(t.Context(), "man", file); code != 1 || !strings.Contains(stderr, file) {
		t.Errorf("into a file: exit %d, %s", code, stderr)
	}
}
