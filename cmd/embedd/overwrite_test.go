package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputIsNoInput: no verb writes over a file that it reads, by whichever path.
func TestOutputIsNoInput(t *testing.T) {
	model := fitted(t, iris, "lda")
	rows, err := os.ReadFile(iris)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args func(data, other string) []string
	}{
		{"the same name", func(data, _ string) []string {
			return []string{"transform", "--model", model, "--data", data, "-o", data}
		}},
		{"another path", func(data, _ string) []string {
			return []string{"transform", "--model", model, "--data", data,
				"-o", filepath.Dir(data) + "/./" + filepath.Base(data)}
		}},
		{"a link", func(data, other string) []string {
			return []string{"transform", "--model", model, "--data", other, "-o", data}
		}},
		{"a fit", func(data, other string) []string {
			return []string{"fit", "--data", data, "--label", "label", "--method", "lda", "-o", other}
		}},
		{"a picture", func(data, other string) []string {
			return []string{"plot", "--data", data, "--label", "label", "--model", model, "-o", other}
		}},
		{"the model", func(data, _ string) []string {
			return []string{"transform", "--model", model, "--data", data, "-o", model}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "x.csv.gz")
			if err := os.WriteFile(data, rows, 0o600); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(t.TempDir(), "link.csv.gz")
			if err := os.Symlink(data, link); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := call(t.Context(), c.args(data, link)...)
			if code != 2 || !strings.Contains(stderr, "would overwrite the file that --") {
				t.Errorf("exit %d: %s", code, stderr)
			}
			if left, err := os.ReadFile(data); err != nil || string(left) != string(rows) {
				t.Errorf("the rows are not as before: %v", err)
			}
		})
	}
}
