package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The reader that docs/model-file.md prints reads every kind of model that it says, and puts out what embedd puts out, to
// 1e-6 of the largest output. EMBEDD_PYTHON names a Python with numpy.
func TestDocumentedReader(t *testing.T) {
	python := os.Getenv("EMBEDD_PYTHON")
	if python == "" {
		t.Skip("EMBEDD_PYTHON names no Python with numpy")
	}
	page, err := os.ReadFile("../../docs/model-file.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```python\n")
	reader, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/model-file.md has no reader")
	}
	script := filepath.Join(t.TempDir(), "reader.py")
	reader += `
import gzip, sys
x = np.loadtxt(gzip.open(sys.argv[2], "rt"), delimiter=",", skiprows=1)[:, :-1]
for v in transform(read(sys.argv[1]), x).ravel():
    print(repr(float(v)))
`
	if err := os.WriteFile(script, []byte(reader), 0o666); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join("testdata", "wine.csv.gz")
	for _, how := range []string{"--method lda", "--method lda --scale unit", "--method auto --dim 3",
		"--method tnca --dim 2 --landmarks 30", "--method pairacc --dim 2 --landmarks 30 --scale minmax",
		"--method mfa --dim 2 --scale rank", "--method auto --dim 3 --nonlinear"} {
		fitted := filepath.Join(t.TempDir(), "model")
		must(t, append([]string{"fit", "--data", data, "--label", "label", "-o", fitted}, strings.Fields(how)...)...)
		reduced := filepath.Join(t.TempDir(), "out.arrow")
		must(t, "transform", "--model", fitted, "--data", data, "-o", reduced)
		want := embedding(t, reduced)
		out, err := exec.CommandContext(t.Context(), python, script, fitted, data).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", how, err, out)
		}
		got := strings.Fields(string(out))
		if len(got) != len(want) {
			t.Fatalf("%s: %d values, want %d", how, len(got), len(want))
		}
		largest := 0.0
		for _, v := range want {
			largest = max(largest, math.Abs(float64(v)))
		}
		apart := 0.0
		for i, text := range got {
			var v float64
			if _, err := fmt.Sscan(text, &v); err != nil {
				t.Fatal(err)
			}
			apart = max(apart, math.Abs(v-float64(want[i]))/largest)
		}
		t.Logf("%s: %.1e apart", how, apart)
		if apart > 1e-6 {
			t.Errorf("%s: numpy's outputs are %.2g of the largest apart", how, apart)
		}
	}
}
