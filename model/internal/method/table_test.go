package method_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/method"
)

// TestEveryMethodIsComparedWithItsFormula: the tests of the families name every method of the table.
func TestEveryMethodIsComparedWithItsFormula(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("*", "formula_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, m := range method.Table {
		if !strings.Contains(all.String(), fmt.Sprintf("%q", m.Name)) {
			t.Errorf("%s is not in a formula_test.go of its family", m.Name)
		}
	}
}
