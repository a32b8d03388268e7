package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/embedd/embedd/cmd/embedd/cli"
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
		{"a hard link", func(data, _ string) []string {
			other := filepath.Join(filepath.Dir(data), "same.csv.gz")
			if err := os.Link(data, other); err != nil {
				t.Fatal(err)
			}
			return []string{"transform", "--model", model, "--data", data, "-o", other}
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

// TestStandardOutputIsNoInput: a shell can open a file for reading and writing, and then -o - writes into the rows.
func TestStandardOutputIsNoInput(t *testing.T) {
	rows := writeFile(t, t.TempDir(), "x.csv", labelledRows(20))
	out, err := os.OpenFile(rows, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var errs bytes.Buffer
	e := &cli.Env{Stdin: strings.NewReader(""), Stdout: out, Stderr: &errs}
	code := dispatch(t.Context(), e, []string{"fit", "--data", rows, "--label", "label", "--method", "lda", "-o", "-"})
	if code != 2 || !strings.Contains(errs.String(), "-o - would overwrite the file that --data names") {
		t.Errorf("exit %d: %s", code, &errs)
	}
	if left, err := os.ReadFile(rows); err != nil || string(left) != labelledRows(20) {
		t.Errorf("the rows are not as before: %v", err)
	}
}
