package main

import (
	"os"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
)

// The page has what the program prints; embedd, which takes seconds, only in the long form.
func TestPageHasWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	learned, index, queries, err := rows()
	if err != nil {
		t.Fatal(err)
	}
	if learned.N+index.N+queries.N != len(vectors)/2/width || len(index.Classes) != 12 {
		t.Fatalf("%d, %d and %d rows of %d classes", learned.N, index.N, queries.N, len(index.Classes))
	}
	for _, w := range append(shortenersTo(t.Context(), learned, 16), raw) {
		if w.name == "embedd" && !testsize.Long() {
			continue
		}
		q, err := w.measure(index, queries)
		if err != nil {
			t.Fatal(err)
		}
		if line := w.line(q); !strings.Contains(string(page), line+"\n") {
			t.Errorf("the page does not have\n%s", line)
		}
	}
}
