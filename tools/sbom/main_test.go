package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// TestRun: the bill of materials of this test has its module and the version of Go, and each reference once.
func TestRun(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var d document
	if err := run(&out, []string{"v1.2.3", program}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if c := d.Metadata.Component; c.Name != "github.com/embedd/embedd" || c.Version != "v1.2.3" ||
		d.Format != "CycloneDX" {
		t.Errorf("the document is %s", &out)
	}
	seen := map[string]bool{}
	for _, c := range d.Components {
		if c.Version == "" || seen[c.Ref] {
			t.Errorf("%+v has no version, or is there twice", c)
		}
		seen[c.Ref] = true
	}
	if !seen["go"] {
		t.Error("the version of Go is missing")
	}
	if err := run(&out, []string{"v1", "/dev/null"}); err == nil {
		t.Error("a file that is no program has a bill of materials")
	}
}
