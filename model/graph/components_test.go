package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// clusters returns c groups of size rows each, far apart.
func clusters(r *rand.Rand, c, size, m int) *mat.Dense {
	x := normals(r, c*size, m)
	for i := range c * size {
		x.Set(i, 0, x.At(i, 0)+1000*float64(i/size*(i/size)))
	}
	return x
}

// kruskal computes the minimum spanning tree over components from all pairs.
func kruskal(x *mat.Dense, component []int) []Edge {
	var all []Edge
	for i := range component {
		for j := range i {
			if component[i] != component[j] {
				all = append(all, Edge{j, i, squared(x.RawRowView(i), x.RawRowView(j))})
			}
		}
	}
	slices.SortFunc(all, Edge.compare)
	component = slices.Clone(component)
	var tree []Edge
	for _, e := range all {
		if from, to := component[e.I], component[e.J]; from != to {
			tree = append(tree, e)
			for i, c := range component {
				if c == from {
					component[i] = to
				}
			}
		}
	}
	return tree
}

// The bridges are the minimum spanning tree, with tied distances too.
func TestBridgesAreMinimumSpanningTree(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for trial := range 30 {
		n := 10 + r.IntN(60)
		x, component := normals(r, n, 2), make([]int, n)
		for i := range n {
			if trial%2 == 0 { // many exact ties and duplicates
				x.SetRow(i, []float64{float64(r.IntN(5)), float64(r.IntN(5))})
			}
			component[i] = r.IntN(1 + trial)
		}
		component = linalg.Sets(n, func(join func(i, j int)) {
			for i := range n {
				for j := range i {
					if component[i] == component[j] {
						join(i, j)
					}
				}
			}
		})
		got, err := bridges(ctx, x, component)
		if err != nil {
			t.Fatal(err)
		}
		if want := kruskal(x, component); !slices.Equal(got, want) {
			t.Fatalf("trial %d: %v, want %v", trial, got, want)
		}
	}
}

func TestConnect(t *testing.T) {
	x := clusters(rand.New(rand.NewPCG(6, 5)), 4, 20, 3)
	nb := mustNearest(t, x, 5)
	if c := nb.Components(); slices.Max(c) != 3 || c[0] != 0 || c[79] != 3 {
		t.Fatalf("components %v", c)
	}
	joined, edges, err := nb.Connect(ctx, x, Connect)
	if err != nil || len(edges) != 3 || slices.Max(joined.Components()) != 0 {
		t.Fatalf("%d edges, %v", len(edges), err)
	}
	for i := range joined.Len() {
		if _, d := joined.Row(i); !slices.IsSorted(d) {
			t.Errorf("row %d is not nearest first: %v", i, d)
		}
	}
	w := mustWeights(t, nb, Union, Heat(nb.MeanNearest()))
	fixed, edges, err := w.Connect(ctx, x, Connect, Heat(nb.MeanNearest()))
	if err != nil || len(edges) != 3 || slices.Max(fixed.Components()) != 0 {
		t.Fatalf("%d edges, %v", len(edges), err)
	}
	want := median(slices.Clone(w.value)) // each edge counts twice
	for _, e := range edges {
		if v := fixed.At(e.I, e.J); v != want || v != fixed.At(e.J, e.I) {
			t.Errorf("edge (%d, %d) has weight %g, want the median, %g", e.I, e.J, v, want)
		}
	}
	_, _, err = w.Connect(ctx, x, Refuse, nil)
	var apart *DisconnectedError
	if !errors.As(err, &apart) || !slices.Equal(apart.Sizes, []int{20, 20, 20, 20}) ||
		!strings.Contains(err.Error(), "[20 20 20 20]") {
		t.Errorf("error %v", err)
	}
	if _, _, err := w.Connect(ctx, x, "largest", nil); err == nil {
		t.Error("an unknown way gave no error")
	}
	if same, edges, err := fixed.Connect(ctx, x, Refuse, nil); err != nil || same != fixed || edges != nil {
		t.Errorf("a connected graph was changed: %v, %v", edges, err)
	}
}

// TestConnectClasses: an edge that is shorter than all neighbours of its rows comes first in their lists.
func TestConnectClasses(t *testing.T) {
	x := mat.NewDense(4, 1, []float64{0, 1, 0.1, 1.2})
	own, _, err := NearestByClass(ctx, x, []int{0, 0, 1, 1}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	joined, _, err := own.Connect(ctx, x, Connect)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int{{2, 1}, {0}, {0, 3}, {2}} {
		if got, _ := joined.Row(i); !slices.Equal(got, want) {
			t.Errorf("row %d has the neighbours %v, want %v", i, got, want)
		}
	}
}

// Groups of rows with strong edges inside and weak ones between them are components, though no row has a small degree.
func TestWeakEdgesDoNotConnect(t *testing.T) {
	x := clusters(rand.New(rand.NewPCG(8, 5)), 2, 6, 2)
	for _, c := range []struct {
		between float64 // in medians
		parts   int
	}{{0, 2}, {1e-6, 2}, {0.9e-3, 2}, {1.1e-3, 1}, {1, 1}} {
		w := mat.NewDense(12, 12, nil)
		for i := range 12 {
			for j := range 12 {
				switch {
				case i == j:
					w.Set(i, j, 1e9) // self loops are no edges
				case i/6 == j/6:
					w.Set(i, j, 0.5)
				case i%6 == j%6:
					w.Set(i, j, 0.5*c.between)
				}
			}
		}
		a, err := FromDense(w, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := parts(a.Components()); got != c.parts {
			t.Errorf("edges of %g medians: %d components, want %d", c.between, got, c.parts)
		}
		fixed, edges, err := a.Connect(ctx, x, Connect, nil)
		if err != nil || len(edges) != c.parts-1 || parts(fixed.Components()) != 1 {
			t.Errorf("edges of %g medians: %d added, %d components, %v", c.between, len(edges), parts(fixed.Components()),
				err)
		}
		for _, e := range edges {
			if v := fixed.At(e.I, e.J); v != 0.5 {
				t.Errorf("edges of %g medians: the added one has weight %g, want the median", c.between, v)
			}
		}
	}
}

// A row whose weights are rounding errors is a component, and so is each row of a graph without weights; connecting
// fixes both.
func TestWeakRowsAreConnected(t *testing.T) {
	x := normals(rand.New(rand.NewPCG(7, 5)), 12, 2)
	w := mat.NewDense(12, 12, nil)
	for i := range 12 {
		for j := range 12 {
			if i != j {
				w.Set(i, j, 0.5)
				if i == 3 || j == 3 {
					w.Set(i, j, 1e-57)
				}
			}
		}
	}
	weak, err := FromDense(w, 0)
	if err != nil {
		t.Fatal(err)
	}
	none, err := FromDense(mat.NewDense(12, 12, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		w     *Matrix
		parts int
	}{"weak": {weak, 2}, "none": {none, 12}} {
		if got := slices.Max(c.w.Components()) + 1; got != c.parts {
			t.Errorf("%s: %d components, want %d", name, got, c.parts)
		}
		fixed, edges, err := c.w.Connect(ctx, x, Connect, nil)
		if err != nil || len(edges) != c.parts-1 || slices.Max(fixed.Components()) != 0 {
			t.Errorf("%s: %d edges, components %v, %v", name, len(edges), fixed.Components(), err)
		}
	}
}
