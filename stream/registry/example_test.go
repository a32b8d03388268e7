package registry_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/registry"
)

// A store has every version of the models of its pipelines, and a pointer to the live one.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "models")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := registry.Directory(dir)
	if err != nil {
		log.Fatal(err)
	}
	r := registry.New(store, "digits", registry.Options{})
	x := []float64{0, 0, 1, 1, 2, 2, 3, 4}
	version := ""
	for _, n := range []int{3, 4} {
		m, err := fit.Fit(ctx, &model.Data{N: n, M: 2, X: x[:2*n]}, fit.Config{Method: "pca", Dim: 1})
		if err != nil {
			log.Fatal(err)
		}
		version, err = r.Save(ctx, &plugin.Release{Model: m, Epoch: 1, Parent: version, Rows: n})
		if err != nil {
			log.Fatal(err)
		}
	}
	if _, err := r.Rollback(ctx, registry.Request{}); err != nil {
		log.Fatal(err)
	}
	live, err := r.Live(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(live.Live.Model.Rows())
	// Output: 3
}
