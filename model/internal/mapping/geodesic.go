package mapping

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Geodesic extends ISOMAP: y_k(x) = v_k'(s - d(x)^2) / (2 sqrt(lambda_k)), where d(x)_i is the length of the shortest
// path from x to row i through the k nearest rows of x, and s the column means of the squared geodesics of the fit
// (de Silva and Tenenbaum 2003, landmark MDS). It stores the graph of the fit, which is much smaller than the n x n
// geodesics.
type Geodesic struct {
	Training
	Lambda []float64 // d positive eigenvalues of B
	Square []float64 // n: mean squared geodesics
	Edge   []float64 // E x 2: rows of the fit
	Length []float64 // E
	K      int
	// Version1 reports that the map was read from a model file of version 1, where the array Square has the name of the
	// features' mean.
	Version1 bool
}

func (e *Geodesic) Kind() string { return "geodesic" }

func (e *Geodesic) Check(m, classes int) error {
	if err := e.Training.Check(m, classes); err != nil {
		return err
	}
	n := e.Len()
	switch {
	case len(e.Lambda) != e.D || len(e.Square) != n:
		return fmt.Errorf("%d numbers in lambda and %d in mean_square, %d and %d are needed", len(e.Lambda),
			len(e.Square), e.D, n)
	case len(e.Edge) != 2*len(e.Length):
		return fmt.Errorf("%d numbers in edge, 2 x %d are needed", len(e.Edge), len(e.Length))
	case e.K < 1 || e.K > n:
		return fmt.Errorf("%d neighbours of %d rows; give 1 to %d", e.K, n, n)
	}
	for c, l := range e.Lambda {
		if !(l > 0) {
			return fmt.Errorf("eigenvalue %d is %g; it must be positive", c, l)
		}
	}
	for _, v := range e.Edge {
		if _, err := whole("edge", v, float64(n)); err != nil {
			return err
		}
	}
	for k, v := range e.Length {
		if !(v >= 0) {
			return fmt.Errorf("length[%d] is %g; the length of an edge must not be negative", k, v)
		}
	}
	return e.connected()
}

// connected checks that there is a path to every row.
func (e *Geodesic) connected() error {
	parts := 1 + slices.Max(linalg.Sets(e.Len(), func(join func(i, j int)) {
		for k := range e.Length {
			join(int(e.Edge[2*k]), int(e.Edge[2*k+1]))
		}
	}))
	if parts > 1 {
		return fmt.Errorf("the graph has %d components; geodesics need one", parts)
	}
	return nil
}

func (e *Geodesic) Arrays() []Array {
	square := "mean_square"
	if e.Version1 {
		square = "mean"
	}
	return e.with(Array{"lambda", []int{e.D}, e.Lambda}, Array{square, []int{e.Len()}, e.Square},
		Array{"edge", []int{len(e.Length), 2}, e.Edge}, Array{"length", []int{len(e.Length)}, e.Length},
		Array{"neighbors", []int{1}, []float64{float64(e.K)}})
}

func rebuildGeodesic(arrays []Array) Map {
	square, is1 := "mean_square", false
	if len(arrays) > 3 && arrays[3].Name == "mean" {
		square, is1 = "mean", true
	}
	t, rest := rebuildTraining("geodesic", arrays, []string{"lambda", square, "edge", "length", "neighbors"},
		[]int{1, 1, 2, 1, 1})
	return &Geodesic{t, rest[0].Data, rest[1].Data, rest[2].Data, rest[3].Data, count(rest[4]), is1}
}

func (e *Geodesic) Extension(m int) (Extension, error) {
	n := e.Len()
	p := &geodesicExtension{Geodesic: e, index: newIndex(&e.Training, m, e.K, nil), start: make([]int, n+1),
		end: make([]int32, len(e.Edge)), Length: make([]float64, len(e.Edge)), columns: linalg.Transpose(e.Embedding, e.D)}
	if n*n <= MaxPaths/8 {
		p.known = make([]atomic.Pointer[[]float64], n)
	}
	for _, i := range e.Edge {
		p.start[int(i)+1]++
	}
	for i := range n {
		p.start[i+1] += p.start[i]
	}
	next := slices.Clone(p.start)
	for at, i := range e.Edge {
		from := int(i)
		p.end[next[from]] = int32(e.Edge[at^1]) // the other one of the pair
		p.Length[next[from]] = e.Length[at/2]
		next[from]++
	}
	return p, nil
}

// MaxPaths is the memory that the paths between all rows of the fit may take, in bytes.
const MaxPaths = 64 << 20

// geodesicExtension has the edges in both directions, by row.
type geodesicExtension struct {
	*Geodesic
	*index
	start   []int
	end     []int32
	Length  []float64
	columns []float64 // of Embedding
	// known are the paths from the rows of the fit that were near another row; nil: all would take more than MaxPaths.
	known []atomic.Pointer[[]float64]
}

func (p *geodesicExtension) Workspace() *Workspace {
	w := p.index.Workspace()
	w.Row, w.paths = make([]float64, p.Len()), linalg.NewPaths(p.start, p.end, p.Length)
	return w
}

func (p *geodesicExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	return p.each(dst, z, n, w, p.place)
}

func (p *geodesicExtension) place(dst, _ []float64, w *Workspace) error {
	if p.known == nil {
		w.paths.From(w.Row, w.Nearest, w.dist)
	} else {
		p.through(w)
	}
	for i, d := range w.Row {
		w.Row[i] = p.Square[i] - d*d
	}
	for c, l := range p.Lambda {
		dst[c] = linalg.Dot(w.Row, p.columns[c*len(w.Row):]) / (2 * l) // columns are sqrt(lambda) v
	}
	return nil
}

// through writes the lengths of the shortest paths from a new row to every row of the fit to w.Row: each goes through
// one of the nearest rows of the new one.
func (p *geodesicExtension) through(w *Workspace) {
	to := w.Row
	for i := range to {
		to[i] = math.Inf(1)
	}
	for c := 0; c < len(w.Nearest); c += 2 { // two at a time, or the last one twice
		other := min(c+1, len(w.Nearest)-1)
		a, b := p.pathsFrom(w.Nearest[c], w)[:len(to)], p.pathsFrom(w.Nearest[other], w)[:len(to)]
		toA, toB := math.Sqrt(w.dist[c]), math.Sqrt(w.dist[other])
		for i, length := range to {
			// Numbers that are not negative are in the order of their bits, which are compared without a branch.
			to[i] = math.Float64frombits(min(math.Float64bits(length), math.Float64bits(a[i]+toA),
				math.Float64bits(b[i]+toB)))
		}
	}
}

// pathsFrom returns the lengths of the shortest paths from row i of the fit.
func (p *geodesicExtension) pathsFrom(i int, w *Workspace) []float64 {
	if known := p.known[i].Load(); known != nil {
		return *known
	}
	length := make([]float64, p.Len())
	w.paths.From(length, []int{i}, []float64{0})
	p.known[i].Store(&length)
	return length
}

// Paths are the lengths of the shortest paths between all rows of the fit, n x n.
func (e *Geodesic) Paths(m int) ([]float64, error) {
	made, err := e.Extension(m)
	if err != nil {
		return nil, err
	}
	p, n := made.(*geodesicExtension), e.Len()
	w, out := p.Workspace(), make([]float64, n*n)
	for i := range n {
		w.paths.From(out[i*n:(i+1)*n], []int{i}, []float64{0})
	}
	return out, nil
}
