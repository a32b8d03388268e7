package main

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
)

// shipped are folders of the repository with data sets.
var shipped = []string{"cmd/embedd/data", "cmd/embedd/testdata", "model/internal/fixture/testdata",
	"tools/results/testdata"}

// fileOf returns the file of a data set: in the given folder, else in the repository. found is false if neither has it.
func fileOf(dir, name string) (path string, found bool) {
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..")
	if dir != "" {
		path = filepath.Join(dir, name+".csv.gz")
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	for _, folder := range shipped {
		own := filepath.Join(root, folder, name+".csv.gz")
		if _, err := os.Stat(own); err == nil {
			return own, true
		}
	}
	return filepath.Join(dir, name+".csv.gz"), false
}

// readData reads NAME.csv.gz: a header, features, and the class in the last column. An empty field is a missing value.
func readData(dir, name string) (*model.Data, error) {
	path, _ := fileOf(dir, name)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	records, err := csv.NewReader(unzipped).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) < 2 || records[0][len(records[0])-1] != "label" {
		return nil, fmt.Errorf("%s: want a header that ends in label, and rows", path)
	}
	d := &model.Data{N: len(records) - 1, M: len(records[0]) - 1}
	for _, r := range records[1:] {
		d.Classes = append(d.Classes, r[d.M])
	}
	slices.Sort(d.Classes)
	d.Classes = slices.Compact(d.Classes)
	for i, r := range records[1:] {
		for _, field := range r[:d.M] {
			v := math.NaN()
			if field != "" {
				if v, err = strconv.ParseFloat(field, 64); err != nil {
					return nil, fmt.Errorf("%s, row %d: %w", path, i+1, err)
				}
			}
			d.X = append(d.X, v)
		}
		class, _ := slices.BinarySearch(d.Classes, r[d.M])
		d.Y = append(d.Y, class)
	}
	return d, nil
}

// relabelled is the same rows in other classes.
func relabelled(d *model.Data, classes []string, class func(old int) int) *model.Data {
	r := *d
	r.Classes, r.Y = classes, make([]int, d.N)
	for i, y := range d.Y {
		r.Y[i] = class(y)
	}
	return &r
}

// scaled are all rows as the method of the model sees them, n x m.
func scaled(_ context.Context, m *model.Model, d *model.Data) ([]float64, error) {
	x := make([]float64, d.N*d.M)
	return x, m.ScaledTo(x, model.DenseRows(d.X, d.N, d.M))
}

// outputsOf are the outputs of a model for the rows of both parts.
func outputsOf(ctx context.Context, m *model.Model, train, test *model.Data) (ref, query []float64, err error) {
	if ref, err = score.Outputs(ctx, m, train); err == nil {
		query, err = score.Outputs(ctx, m, test)
	}
	return ref, query, err
}
