package stage

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// spread is a criterion as a host defines one: the scatter of all rows against that within classes.
func spread(_ context.Context, x fit.BasisRows, y []int) (total, within *mat.SymDense, err error) {
	_, m := x.Dims()
	total, within = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
	means, count := map[int]*mat.VecDense{}, map[int]float64{}
	for i, c := range y {
		if means[c] == nil {
			means[c] = mat.NewVecDense(m, nil)
		}
		means[c].AddVec(means[c], x.RowView(i))
		count[c]++
	}
	for i, c := range y {
		var off mat.VecDense
		off.AddScaledVec(x.RowView(i), -1/count[c], means[c])
		total.SymRankOne(total, 1, x.RowView(i))
		within.SymRankOne(within, 1, &off)
	}
	return total, within, nil
}

// TestOwnIsAsAnyMethod: two stages with one criterion learn the same models, gate and align them; a stored model has
// the same digest and outputs when it is read.
func TestOwnIsAsAnyMethod(t *testing.T) {
	var stored bytes.Buffer
	var fits []spec.Outcome
	change := func(c *spec.Config) {
		c.Fit = fit.Config{Criterion: &fit.Criterion{Name: "spread", Supervised: true, InBasis: spread}, Dim: 2}
		c.Until = spec.UntilPCA
		c.Training.Align = spec.AlignRigid // three clouds alike: their directions differ by a rotation
		c.Store = func(_ context.Context, r *spec.Release) (string, error) {
			stored.Reset()
			return r.Model.Digest()[:16], model.Write(&stored, r.Model)
		}
	}
	a := newStage(t, change)
	b := newStage(t, func(c *spec.Config) { change(c); c.Observe = func(f spec.Outcome) { fits = append(fits, f) } })
	r := rand.New(rand.NewPCG(43, 42))
	unlabelled := clouds(r, 100, 3)
	for i := range unlabelled {
		unlabelled[i].class = ""
	}
	rows := clouds(r, 3000, 3)
	for _, s := range []*Stage{a, b} {
		learnRows(t, s, 1, unlabelled)
		if l := s.Live(); l == nil || !l.Bootstrap || l.Model.Method() != "pca" {
			t.Fatalf("after 100 unlabelled rows live is %+v", l)
		}
		learnRows(t, s, 6, rows)
	}
	live := b.Live()
	if live.Model.Method() != "spread" || live.Bootstrap || live.Model.Digest() != a.Live().Model.Digest() {
		t.Fatalf("live are %s %.16s and %.16s", live.Model.Method(), live.Model.Digest(), a.Live().Model.Digest())
	}
	fits = slices.DeleteFunc(fits, func(o spec.Outcome) bool { return !o.Promoted })
	last := fits[len(fits)-1]
	if len(fits) < 3 || !last.Promoted || !(last.Candidate > 0.9) || !(last.Previous > 0.9) ||
		!strings.Contains(last.Reason, "first model lose") {
		t.Errorf("%d fits, the last is %+v", len(fits), last)
	}
	if live.Epoch != 2 && live.SameAs != 2 && live.Undecided != 2 {
		t.Errorf("epoch %d; every model is aligned to the one before it, so that no epoch but that of the PCA is separate",
			live.Epoch)
	}
	read, err := model.Read(&stored)
	if err != nil {
		t.Fatal(err)
	}
	fixed := newStage(t, func(c *spec.Config) { c.Fixed = read })
	want, err := b.Transform(t.Context(), decode(t, b, rows))
	if err != nil {
		t.Fatal(err)
	}
	got, err := fixed.Transform(t.Context(), decode(t, fixed, rows))
	if err != nil {
		t.Fatal(err)
	}
	if read.Digest() != live.Model.Digest() {
		t.Errorf("read back %.16s, stored %.16s", read.Digest(), live.Model.Digest())
	}
	for i, v := range want.Reduced.Y[0] {
		if got.Reduced.Y[0][i] != v {
			t.Fatalf("output %d is %g, read back %g", i, v, got.Reduced.Y[0][i])
		}
	}
}

func TestOwnRefused(t *testing.T) {
	for want, c := range map[string]spec.Config{
		"no label column is named": {Fit: fit.Config{Criterion: &fit.Criterion{Name: "spread", Supervised: true,
			InBasis: spread}}},
		"a method has this name": {Fit: fit.Config{Criterion: &fit.Criterion{Name: "lda", InBasis: spread}}},
		`names method "pca"`: {Fit: fit.Config{Method: "pca",
			Criterion: &fit.Criterion{Name: "spread", InBasis: spread}}},
		"a function that builds it": {Fit: fit.Config{Criterion: &fit.Criterion{Name: "spread"}}},
		"not chosen by cross-valida": {Fit: fit.Config{Dim: fit.AutoDim,
			Criterion: &fit.Criterion{Name: "spread", InBasis: spread}}},
	} {
		c.Spec = arrowio.Spec{Features: []string{"x"}}
		if s, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			if s != nil {
				s.Close()
			}
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
