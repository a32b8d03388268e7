package main

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/durable"
)

// TestBundle: the archive of doctor has what a report needs, and nothing of the login, also when the server is gone. An
// existing file stays.
func TestBundle(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := filepath.Join(w.dir, "embedd.yaml")
	if err := os.WriteFile(path, []byte("# "+password+"\n"+w.config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, isUp := range []bool{true, false} {
		if !isUp {
			w.stop()
		}
		file := filepath.Join(w.dir, []string{"up.zip", "down.zip"}[i])
		if code, _, stderr := call(t.Context(), "doctor", "-c", path, "--bundle", file); code == 1 || code == 2 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		archive, err := zip.OpenReader(file)
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		var names []string
		for _, f := range archive.File {
			names = append(names, f.Name)
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil || strings.Contains(string(text), password) || len(text) == 0 {
				t.Errorf("%s has the password, or nothing: %v", f.Name, err)
			}
		}
		slices.Sort(names)
		if want := []string{"embedd.yaml", "findings.json", "version.json"}; !slices.Equal(names, want) {
			t.Errorf("the archive has %v, want %v", names, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the archive has the mode %v, %v", info.Mode(), err)
		}
		if code, _, stderr := call(t.Context(), "doctor", "-c", path, "--bundle", file); code != 2 ||
			!strings.Contains(stderr, "exists") {
			t.Errorf("an archive is overwritten: exit %d, %s", code, stderr)
		}
	}
}

// TestBundleCannotBeCreated: the error names the file of --bundle and its directory, and no temporary file.
func TestBundleCannotBeCreated(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("no directory in which root cannot create a file either")
	}
	_, err := newBundle("/proc/x.zip")
	if err == nil || !strings.HasPrefix(err.Error(), "--bundle: /proc/x.zip cannot be created: /proc: ") ||
		strings.Contains(err.Error(), durable.Temporary) {
		t.Errorf("the error is %v", err)
	}
}

// TestBundleIsWhole: an archive that cannot be written leaves no file.
func TestBundleIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := newBundle(filepath.Join(dir, "x.zip"))
	if err != nil {
		t.Fatal(err)
	}
	b.addStatus(strings.Repeat("p", 1<<16), []byte("{}")) // a name that no archive can have
	if err := b.write(filepath.Join(dir, "embedd.yaml")); err == nil || !strings.Contains(err.Error(), "x.zip") {
		t.Errorf("the error is %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the directory has %v, %v", left, err)
	}
}
