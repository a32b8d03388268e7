package fit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/internal/fixture"
)

var writeGolden = flag.Bool("write-golden", false, "write testdata/digests.txt from the fits of this tree")

// TestGoldenDigests has the digest of every method, at its defaults and 2 dimensions, on three sets of real data. A
// change that should not affect fits must not change this file. The digests are of amd64: other processors round
// differently.
func TestGoldenDigests(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the digests are of amd64")
	}
	path := filepath.Join("testdata", "digests.txt")
	all := testsize.Long() || *writeGolden
	var got []string
	for _, set := range []string{"iris", "wine", "vowel"} {
		if !all && set != "iris" {
			continue // the others take most of the time
		}
		d := fixture.Dataset(t, set)
		for _, m := range Methods() {
			c := Config{Method: m.Name, Dim: 2, Seed: 1}
			if slices.ContainsFunc(m.Params, func(p Param) bool { return p.Name == "rows" }) {
				c.Params = map[string]string{"rows": "150"}
			}
			line := fmt.Sprintf("%s %s ", set, m.Name)
			if fitted, err := Fit(t.Context(), d, c); err != nil {
				line += "error: " + err.Error()
			} else {
				line += fitted.Digest()
			}
			got = append(got, line)
		}
	}
	if *writeGolden {
		if err := os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s\n\tis not in %s", line, path)
		}
	}
	if all && len(got) != len(want) {
		t.Errorf("%d fits, %d digests in %s", len(got), len(want), path)
	}
}
