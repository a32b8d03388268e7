package onnx

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
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
	_, err = barycentric(newGraph(), "z", 1, &mapping.Barycentric{Training: training(300), K: maxUnrolled + 1})
	if err == nil || !strings.Contains(err.Error(), "257 neighbours") {
		t.Errorf("%v", err)
	}
	_, err = barycentric(newGraph(), "z", 1, &mapping.Barycentric{Training: training(300), K: maxUnrolled})
	if err != nil {
		t.Error(err)
	}
}
