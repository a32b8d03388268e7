package method_test

import (
	"testing"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/modeltest"
)

// formula is a method with parameters, and its definition.
type formula struct {
	method    string
	params    map[string]string
	reference modeltest.Reference // nil: a test of the family compares it
}

// TestFormulas compares each method with its definition. The references share no code with the methods, so that no
// fault can be in both.
func TestFormulas(t *testing.T) {
	compared := map[string]bool{}
	for _, family := range []map[string]formula{scatterFormulas(), marginFormulas(), iterativeFormulas(),
		manifoldFormulas(), localityFormulas(), patchFormulas()} {
		for name, f := range family {
			compared[f.method] = true
			t.Run(name, func(t *testing.T) {
				modeltest.Run(t, fit.Config{Method: f.method, Seed: 5, Params: f.params}, f.reference)
			})
		}
	}
	for _, m := range method.Table {
		if !compared[m.Name] {
			t.Errorf("%s is compared with no formula", m.Name)
		}
	}
}
