package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A page of dependent streams alone has no picture.
func TestNoPicture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "streams.png")
	if err := draw(path, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("there is a picture without panels: %v", err)
	}
}
