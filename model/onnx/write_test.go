package onnx

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/mapping"
)

// integration/python/test_onnx.py runs what Write writes, for every method.

func TestSameBytes(t *testing.T) {
	file, err := os.ReadFile("../testdata/geodesic-version1.embedd")
	if err != nil {
		t.Fatal(err)
	}
	var written [2]bytes.Buffer
	for i := range written {
		m, err := model.Read(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(&written[i], m); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0].Bytes(), written[1].Bytes()) {
		t.Error("one model gave two files")
	}
}

func TestTooLarge(t *testing.T) {
	training := func(n int) mapping.Training {
		return mapping.Training{D: 1, Rows: make([]float64, n), Embedding: make([]float64, n)}
	}
	const allowed = 2896 // 8 n^2 is just below 64 MiB
	_, err := geodesic(newGraph(), "z", 1, &mapping.Geodesic{Training: training(allowed + 1), K: 1})
	if err == nil || !strings.Contains(err.Error(), "the paths between 2897 rows take 64 MiB, the limit is 64") {
		t.Errorf("%v", err)
	}
	for k, want := range map[int]string{256: "<nil>", 257: "257 neighbours, each of which needs " +
		"operators; at most 256"} {
		for _, f := range []mapping.Map{
			&mapping.Barycentric{Training: training(300), K: k},
			&mapping.Nystrom{Training: training(300), K: k, Lambda: []float64{0}},
		} {
			if _, err := outputs(newGraph(), "z", model.Content{Mean: []float64{0}, Map: f}); fmt.Sprint(err) != want {
				t.Errorf("%T: %v", f, err)
			}
		}
	}
}

// TestErrors: nothing is written of a map without operators, and an error of the file is returned.
func TestErrors(t *testing.T) {
	d := fixture.Synthetic(3, 36, 5, 3)
	refused := fail.Must(fit.Fit(t.Context(), d, fit.Config{Method: "lenewks", Dim: 2, Workers: 1}))
	var b bytes.Buffer
	err := Write(&b, refused)
	if err == nil || b.Len() > 0 ||
		!strings.Contains(err.Error(), "onnx: method lenewks, map similarity: each row solves") {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	for _, m := range []*model.Model{nil, {}} {
		if err := Write(&b, m); err == nil || b.Len() > 0 {
			t.Errorf("no model: %d bytes, %v", b.Len(), err)
		}
	}
	linear := fail.Must(fit.Fit(t.Context(), d, fit.Config{Method: "pca", Dim: 2}))
	file := fail.Must(os.Open(os.DevNull)) // for reading
	defer file.Close()
	if err := Write(file, linear); err == nil {
		t.Error("the model was written to a file that is open for reading")
	}
}

// TestMetadataWithoutANote has neither a version nor an epoch.
func TestMetadataWithoutANote(t *testing.T) {
	m := crafted(t, &mapping.Linear{D: 1, Components: []float64{1, 2, 3, 4, 5}}, "a", "b")
	for _, c := range []struct {
		note model.Note
		want []string
	}{
		{model.Note{}, nil}, {model.Note{Version: "3"}, []string{"version"}}, {model.Note{Epoch: 2}, []string{"epoch"}},
	} {
		var b bytes.Buffer
		if err := Write(&b, m.WithNote(c.note)); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, p := range parse(t, b.Bytes())[14] {
			keys = append(keys, string(parse(t, p.body).one(t, 1).body))
		}
		want := append([]string{"digest", "method", "map", "features", "classes", "informative_rank"}, c.want...)
		if strings.Join(keys, " ") != strings.Join(want, " ") {
			t.Errorf("%v, want %v", keys, want)
		}
	}
	whole := parse(t, value("x", 11, 7))
	if string(whole.one(t, 1).body) != "x" || whole.message(t, 2).message(t, 1).one(t, 1).value != 11 {
		t.Error("the value has another name or type")
	}
}
