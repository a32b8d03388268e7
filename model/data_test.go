package model

import (
	"compress/gzip"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
)

var loaded sync.Map

// dataset reads a set of testdata, or the digits that the command ships.
func dataset(t testing.TB, name string) *Data {
	t.Helper()
	if d, ok := loaded.Load(name); ok {
		return d.(*Data)
	}
	path := filepath.Join("testdata", name+".csv.gz")
	if name == "digits" {
		path = filepath.Join("..", "cmd", "embedd", "data", "digits.csv.gz")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	m := len(lines[0]) - 1
	d := &Data{M: m, Features: lines[0][:m]}
	for _, line := range lines[1:] {
		for _, s := range line[:m] {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			d.X = append(d.X, v)
		}
		c := slices.Index(d.Classes, line[m])
		if c < 0 {
			c = len(d.Classes)
			d.Classes = append(d.Classes, line[m])
		}
		d.Y = append(d.Y, c)
		d.N++
	}
	loaded.Store(name, d)
	return d
}

// must is for calls whose errors other tests look at.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
