package fit

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestFlowers: the models that the examples of package model read are fits of twelve rows of iris, and of the last
// eleven of them. With -write-golden it writes the files.
func TestFlowers(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the digests are of amd64")
	}
	x := []float64{
		5.1, 3.5, 1.4, 0.2, 4.9, 3.0, 1.4, 0.2, 4.7, 3.2, 1.3, 0.2, 4.6, 3.1, 1.5, 0.2,
		7.0, 3.2, 4.7, 1.4, 6.4, 3.2, 4.5, 1.5, 6.9, 3.1, 4.9, 1.5, 5.5, 2.3, 4.0, 1.3,
		6.3, 3.3, 6.0, 2.5, 5.8, 2.7, 5.1, 1.9, 7.1, 3.0, 5.9, 2.1, 6.3, 2.9, 5.6, 1.8,
	}
	y := []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}
	for skipped, name := range []string{"flowers", "flowers-refit"} {
		d := &model.Data{X: x[4*skipped:], Y: y[skipped:], N: len(y) - skipped, M: 4,
			Classes:  []string{"setosa", "versicolor", "virginica"},
			Features: []string{"sepal_length", "sepal_width", "petal_length", "petal_width"}}
		m, err := Fit(t.Context(), d, Config{Method: "lda", Dim: 2, Params: map[string]string{"ridge": "0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		path := "../testdata/" + name + ".embedd"
		if *writeGolden {
			var file bytes.Buffer
			if err := model.Write(&file, m); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := model.Read(bytes.NewReader(file))
		if err != nil || stored.Digest() != m.Digest() {
			t.Errorf("%s is not the model of its rows: %v", name, err)
		}
	}
}
