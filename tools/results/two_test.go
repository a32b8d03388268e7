package main

import (
	"bytes"
	"strings"
	"testing"
)

// The best candidate has the best mean over all splits; one that was not tried in each split is left out. One split
// has no error. If none was tried in each split, auto is reported alone.
func TestBestCandidate(t *testing.T) {
	tried := map[string]bool{"lda none": true, "pca none": true, "mfa none": true}
	c := &contest{set: "some", splits: 2, auto: [2][]float64{{70, 80}, {60, 60}},
		candidates: [2]map[string]bool{tried, {"pca none": true}},
		alone:      map[string][]float64{"lda none": {90, 60}, "pca none": {60, 80}, "mfa none": {99}}}
	var out bytes.Buffer
	writeTwo(&out, []*contest{c})
	want := "| some | 2 | 75.0 | 75.0 | lda none | +0.0 | 20.0 | 60.0 | 70.0 | pca none | -10.0 | 10.0 |\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %s, got\n%s", want, out.String())
	}
	c.splits, c.auto, c.alone = 1, [2][]float64{{70}, {60}}, map[string][]float64{"lda none": {90}, "pca none": {60}}
	out.Reset()
	writeTwo(&out, []*contest{c})
	want = "| some | 1 | 70.0 | 90.0 | lda none | -20.0 | - | 60.0 | 60.0 | pca none | +0.0 | - |\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("one split: want %s, got\n%s", want, out.String())
	}
	c.splits, c.auto[0] = 2, []float64{70, 80}
	out.Reset()
	writeTwo(&out, []*contest{c})
	want = "| some | 2 | 75.0 | - | - | - | - | 60.0 | - | - | - | - |\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("no candidate in each split: want %s, got\n%s", want, out.String())
	}
}
