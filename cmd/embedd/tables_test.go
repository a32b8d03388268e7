package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
)

// options are the flags that files of testdata/tables need.
func options(file string) []string {
	switch file {
	case "pandas_decimal_comma.csv":
		return []string{"--decimal", ","}
	case "pandas_colon.csv":
		return []string{"--delimiter", ":"}
	case "pandas_missing_question.csv":
		return []string{"--missing", "?"}
	}
	return nil
}

// testdata/tables has one table as written by pandas, pyarrow, polars and duckdb: dialects of CSV, types, codecs,
// pages, encodings and views. Every file has the same numbers, features, classes and model, with one digest.
func TestOneTable(t *testing.T) {
	paths, err := filepath.Glob("testdata/tables/*")
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return filepath.Ext(p) == ".py" })
	if len(paths) < 60 {
		t.Fatalf("%d files", len(paths))
	}
	first := filepath.Join(t.TempDir(), "first")
	digest := ""
	others := [][]string{{"--method", "pairacc", "--dim", "2", "--landmarks", "12"},
		{"--method", "blend", "--set", "members=lda/standard/2,pca/none/2,dla/minmax/2/beta=0.3"}}
	wants := make([]string, len(others))
	for n, path := range paths {
		args := append([]string{"fit", "--data", path, "--label", "label", "--method", "lda", "-o",
			filepath.Join(t.TempDir(), "m")}, options(filepath.Base(path))...)
		if digest == "" {
			args[slices.Index(args, "-o")+1] = first
		}
		_, stderr := must(t, args...)
		for _, want := range []string{": 4 features: a, b, c, on; label: label\n",
			`: not features: "name" (text), "never" (no value in any row)` + "\n",
			"3 of 144 values are missing, in 3 rows"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s says %s", path, stderr)
			}
		}
		m, err := files.ReadModel(args[slices.Index(args, "-o")+1])
		if err != nil {
			t.Fatal(err)
		}
		if digest == "" {
			digest = m.Digest()
		}
		if m.Digest() != digest {
			t.Errorf("%s: another model than that of %s", path, paths[0])
		}
		for i, other := range others {
			if n%4 != 0 { // the digest above reports whether a file has the same rows
				break
			}
			out := filepath.Join(t.TempDir(), "m")
			must(t, slices.Concat([]string{"fit", "--data", path, "--label", "label", "-o", out}, other,
				options(filepath.Base(path)))...)
			if m, err = files.ReadModel(out); err != nil {
				t.Fatal(err)
			}
			if wants[i] == "" {
				wants[i] = m.Digest()
			}
			if m.Digest() != wants[i] {
				t.Errorf("%s: %v gives another model than of %s", path, other, paths[0])
			}
		}
	}
	for _, path := range []string{"pandas.csv", "pyarrow_exact.parquet", "polars.arrow", "duckdb_exact.parquet"} {
		theFormula(t, filepath.Join("testdata", "tables", path))
	}
	var want []float32
	for _, path := range []string{"pandas.csv", "pyarrow_small.arrow", "polars_category.arrow", "duckdb_lz4_raw.parquet"} {
		out := filepath.Join(t.TempDir(), "out.arrow")
		must(t, "transform", "--model", first, "--nulls", "impute", "--data", filepath.Join("testdata", "tables", path), "-o",
			out)
		got := embedding(t, out)
		if want == nil {
			want = got
		}
		for i := range want { // sums of float32 and of integers differ from those of float64
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Fatalf("%s: value %d is %g, want %g", path, i, got[i], want[i])
			}
		}
	}
}

// theFormula compares a file's rows with those that testdata/tables/write.py computes.
func theFormula(t *testing.T, path string) {
	t.Helper()
	e := &cli.Env{Stdin: strings.NewReader(""), Stdout: os.Stderr, Stderr: new(strings.Builder)}
	r, err := dataset.Read(t.Context(), e, dataset.Spec{Path: path, Label: "label", Nulls: "impute"})
	if err != nil {
		t.Fatal(err)
	}
	if r.N != 36 || r.M != 4 {
		t.Fatalf("%s: %d rows, %d features", path, r.N, r.M)
	}
	for i := range r.N {
		c, on := float64(i*5%17), 0.0
		if i%11 == 5 {
			c = math.NaN()
		}
		if i*i%7 < 3 {
			on = 1
		}
		want := fmt.Sprint([]float64{float64(i*7%23)/8 - 1, float64(i*i%41) / 4, c, on}, i%3)
		if got := fmt.Sprint(r.X[4*i:4*i+4], r.Y[i]); got != want {
			t.Errorf("%s: row %d is %s, want %s", path, i, got, want)
		}
	}
}
