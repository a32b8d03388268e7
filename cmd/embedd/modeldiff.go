package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
)

// modelDifference is the JSON form of `embedd model diff`.
type modelDifference struct {
	A       string        `json:"a"`
	B       string        `json:"b"`
	Same    bool          `json:"same"`    // equal digests
	Changes []modelChange `json:"changes"` // of the descriptions
	// For linear maps of the same features: the cosine between the old and the new weights of each output, and the
	// features whose weights changed most.
	Cosines  []float64       `json:"cosines,omitempty"`
	Features []featureChange `json:"features,omitempty"`
}

type modelChange struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

type featureChange struct {
	Feature string  `json:"feature"`
	Change  float64 `json:"change"` // of its weights, relative to the Euclidean norm of all weights of A
}

// maxFeatureChanges is the maximum number of features in a difference.
const maxFeatureChanges = 10

func modelDiffCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("diff A B", "compare two models: files, versions, or pipelines for their live models", 2, 2)
	where := client.StoreFlags(f)
	cmd.ValidArgsFunction = where.CompleteModels
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		a, err := findModel(cmd.Context(), e, names[0], where)
		if err != nil {
			return err
		}
		b, err := findModel(cmd.Context(), e, names[1], where)
		if err != nil {
			return err
		}
		d := compareModels(a, b)
		d.A, d.B = names[0], names[1]
		if out.JSON {
			return out.Object(d)
		}
		return printDifference(out, d)
	}
	return cmd
}

func compareModels(a, b *model.Model) modelDifference {
	d := modelDifference{Same: a.Digest() == b.Digest(), Changes: []modelChange{}}
	add := func(what string, x, y any) {
		if s, t := fmt.Sprint(x), fmt.Sprint(y); s != t {
			d.Changes = append(d.Changes, modelChange{what, s, t})
		}
	}
	add("digest", a.Digest(), b.Digest())
	add("method", a.Method(), b.Method())
	addAll := func(what string, x, y map[string]string) {
		names := map[string]string{}
		maps.Copy(names, x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			add(what+" "+name, x[name], y[name])
		}
	}
	addAll("parameter", a.Params(), b.Params())
	add("map", a.Map(), b.Map())
	add("dim", a.Dim(), b.Dim())
	add("informative", a.InformativeRank(), b.InformativeRank())
	add("rows", a.Rows(), b.Rows())
	add("epoch", a.Note().Epoch, b.Note().Epoch)
	addAll("source", a.Note().Source, b.Note().Source)
	add("features", only(a.Features(), b.Features()), only(b.Features(), a.Features()))
	add("classes", only(a.Classes(), b.Classes()), only(b.Classes(), a.Classes()))
	d.compareWeights(a, b)
	return d
}

// only lists the names in a that are not in b.
func only(a, b []string) string {
	in := map[string]bool{}
	for _, s := range b {
		in[s] = true
	}
	var out []string
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	return cli.Listed(out)
}

// compareWeights compares the weights of unscaled features.
func (d *modelDifference) compareWeights(a, b *model.Model) {
	wa, wb := weights(a), weights(b)
	if wa == nil || wb == nil || !slices.Equal(a.Features(), b.Features()) || a.Unit() != b.Unit() {
		return
	}
	dim := min(a.Dim(), b.Dim())
	before, after := mat.NewDense(a.M(), a.Dim(), wa), mat.NewDense(b.M(), b.Dim(), wb)
	for k := range dim {
		x, y, cosine := before.ColView(k), after.ColView(k), 0.0
		if squares := mat.Dot(x, x) * mat.Dot(y, y); squares > 0 {
			cosine = mat.Dot(x, y) / math.Sqrt(squares) // exactly 1 for equal columns
		}
		d.Cosines = append(d.Cosines, cosine)
	}
	all := mat.Norm(before, 2)
	var moved mat.Dense
	moved.Sub(after.Slice(0, b.M(), 0, dim), before.Slice(0, a.M(), 0, dim))
	for j, name := range a.Features() {
		if change := mat.Norm(moved.RowView(j), 2); change > 0 && all > 0 {
			d.Features = append(d.Features, featureChange{name, change / all})
		}
	}
	slices.SortStableFunc(d.Features, func(a, b featureChange) int {
		return cmp.Or(cmp.Compare(b.Change, a.Change), strings.Compare(a.Feature, b.Feature))
	})
	d.Features = d.Features[:min(len(d.Features), maxFeatureChanges)]
}

// weights are the components divided by the scale, m x dim; nil if the map is not linear.
func weights(m *model.Model) []float64 {
	w, scale := m.Components(), m.Scale()
	for i := range w {
		w[i] /= scale[i/m.Dim()]
	}
	return w
}

func printDifference(out *report.Output, d modelDifference) error {
	if d.Same {
		out.Printf("the models are identical\n")
	}
	t := out.Table("", d.A, d.B)
	for _, c := range d.Changes {
		t.Row(c.What, report.OrDash(c.A), report.OrDash(c.B))
	}
	for k, cosine := range d.Cosines {
		t.Row(fmt.Sprintf("cosine of output %d", k), fmt.Sprintf("%.4f", cosine))
	}
	for _, f := range d.Features {
		t.Row("weight of "+f.Feature, fmt.Sprintf("changed by %.4f of all", f.Change))
	}
	return t.Flush()
}
