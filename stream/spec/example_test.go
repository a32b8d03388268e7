package spec_test

import (
	"fmt"
	"log"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// CheckAll fills in defaults, and refuses pipelines that would work against each other, here under one name.
func ExampleCheckAll() {
	stage := plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "kind"}, Fit: fit.Config{Method: "lda"}}
	pipelines := []spec.Pipeline{
		{Name: "a", Subject: "rows.a", Output: "reduced.a", Dead: "dead.a", Stage: stage},
		{Name: "b", Subject: "rows.b", Output: "reduced.b", Dead: "dead.b", Stage: stage},
	}
	checked, err := spec.CheckAll(pipelines)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(checked[0].Role)
	pipelines[1].Name = "a"
	_, err = spec.CheckAll(pipelines)
	fmt.Println(err != nil)
	// Output:
	// all
	// true
}
