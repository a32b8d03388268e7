package plugin_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// A host with matrices of gonum needs neither Arrow nor messages.
func ExampleFromDense() {
	stage, err := plugin.New(plugin.Config{
		Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:  fit.Config{Method: "lda", Dim: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	x, labels := twoClouds(200)
	rec, err := plugin.FromDense(x, "x", "label", labels)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release() // msg and result are views on it
	msg, err := stage.FromRecord(rec)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, do := range []func() error{
		func() error { return stage.Learn(msg, plugin.Position{}) },
		stage.Refit,
		func() error { return stage.Wait(context.Background()) },
	} {
		if err := do(); err != nil {
			fmt.Println(err)
			return
		}
	}
	result, err := stage.Transform(context.Background(), msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := plugin.ToDense(result)
	fmt.Println(x.Dims())
	fmt.Println(y.Dims())
	// Output:
	// 200 3
	// 200 1
}

// twoClouds draws rows of two classes in turn.
func twoClouds(n int) (x *mat.Dense, labels []string) {
	source := rand.New(rand.NewPCG(1, 1))
	x = mat.NewDense(n, 3, nil)
	for i := range n {
		for j := range 3 {
			x.Set(i, j, source.NormFloat64()+5*float64(i%2))
		}
		labels = append(labels, []string{"a", "b"}[i%2])
	}
	return x, labels
}

// TestDense: a matrix with a stride, without rows, without labels and with a rejected row.
func TestDense(t *testing.T) {
	t.Parallel()
	x, labels := twoClouds(20)
	m, err := fit.Fit(t.Context(), dataOf(x, labels), fit.Config{Method: "pca", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	stage, err := plugin.New(plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}}, Fixed: m})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	project := func(x *mat.Dense) *mat.Dense {
		t.Helper()
		rec, err := plugin.FromDense(x, "x", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Release()
		msg, err := stage.FromRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		r, err := stage.Transform(t.Context(), msg)
		if err != nil {
			t.Fatal(err)
		}
		return plugin.ToDense(r)
	}
	all := project(x)
	wide := mat.NewDense(20, 5, nil)
	wide.Slice(0, 20, 1, 4).(*mat.Dense).Copy(x)
	if !mat.Equal(all, project(wide.Slice(0, 20, 1, 4).(*mat.Dense))) {
		t.Error("a matrix with a stride has other outputs")
	}
	x.Set(3, 1, math.NaN())
	some := project(x)
	if n, d := some.Dims(); n != 19 || d != 2 || !mat.Equal(some.Slice(3, 19, 0, 2), all.Slice(4, 20, 0, 2)) {
		t.Errorf("a rejected row leaves %d x %d", n, d)
	}
	if _, err := plugin.FromDense(&mat.Dense{}, "x", "", nil); err == nil {
		t.Error("a matrix without columns is a record")
	}
	if _, err := plugin.FromDense(x, "x", "label", labels[:3]); err == nil {
		t.Error("20 rows take 3 labels")
	}
	if _, err := plugin.FromDense(x, "x", "x", labels); err == nil {
		t.Error("one column has features and labels")
	}
	if rec, err := plugin.FromDense(x, "", "", nil); err != nil {
		t.Errorf("a column without a name, and no labels: %v", err)
	} else {
		rec.Release()
	}
	x.Set(3, 1, 0)
	y := make([]float32, 40)
	if err := m.Project(y, model.FromDense(x)); err != nil || !mat.Equal(model.ToDense(y, 2), project(x)) {
		t.Errorf("package model has other outputs: %v", err)
	}
	if model.FromDense(&mat.Dense{}).N != 0 || !model.ToDense(nil, 2).IsEmpty() {
		t.Error("an empty matrix has rows")
	}
}

func dataOf(x *mat.Dense, labels []string) *model.Data {
	d := &model.Data{Classes: []string{"a", "b"}, Features: []string{"x[0]", "x[1]", "x[2]"}}
	d.N, d.M = x.Dims()
	for i := range d.N {
		d.X = append(d.X, x.RawRowView(i)...)
		d.Y = append(d.Y, map[string]int{"a": 0, "b": 1}[labels[i]])
	}
	return d
}
