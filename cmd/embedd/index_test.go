package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// indexed is a row with an index of pandas. x has no information about the class, and rows are sorted by class.
type indexed struct {
	Index int64   `parquet:"__index_level_0__"`
	ID    int64   `parquet:"id"`
	X     float64 `parquet:"x"`
	Z     float64 `parquet:"z"`
	Count int64   `parquet:"count"`
	Label string  `parquet:"label"`
}

// TestIndexIsNoFeature: a column that numbers the rows is no feature unless it is named. In a file that is sorted by
// class it would tell the class.
func TestIndexIsNoFeature(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var rows []indexed
	for i := range 300 {
		rows = append(rows, indexed{int64(i), int64(9000 - 7*i), r.NormFloat64(), r.NormFloat64(), int64(r.IntN(900)),
			fmt.Sprint("c", i/100)})
	}
	path := filepath.Join(t.TempDir(), "sorted.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[indexed](f, parquet.KeyValueMetadata("pandas",
		`{"index_columns": ["__index_level_0__", {"kind": "range"}], "columns": []}`))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "sorted.csv")
	csv := "Unnamed: 0,id,x,z,count,label\n"
	for _, v := range rows {
		csv += fmt.Sprintf("%d,%d,%g,%g,%d,%s\n", v.Index, v.ID, v.X, v.Z, v.Count, v.Label)
	}
	if err := os.WriteFile(text, []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(t.TempDir(), "m.embedd")
	for data, says := range map[string]string{path: `"__index_level_0__" (the index that pandas stored)`,
		text: `"Unnamed: 0" is left out`} {
		_, stderr := must(t, "fit", "--data", data, "--label", "label", "--method", "pca", "-o", model)
		if !strings.Contains(stderr, "3 features: x, z, count") || !strings.Contains(stderr, `"id" is left out`) ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: %s", data, stderr)
		}
		must(t, "transform", "--data", data, "--model", model, "-o", filepath.Join(t.TempDir(), "y.csv"))
		_, stderr = must(t, "fit", "--data", data, "--label", "label", "--method", "pca", "--features", "id",
			"--features", "x", "-o", model)
		if !strings.Contains(stderr, "2 features: ") {
			t.Errorf("%s: id was named: %s", data, stderr)
		}
	}
	_, stderr := must(t, "eval", "--data", path, "--label", "label", "--methods", "lda")
	if strings.Contains(stderr, "__index_level_0__,") {
		t.Errorf("eval: %s", stderr)
	}
}
