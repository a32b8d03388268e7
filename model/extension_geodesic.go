package model

import (
	"fmt"
	"math"
)

// geodesic extends ISOMAP: y_k(x) = v_k'(mean - d(x)^2) / (2 sqrt(lambda_k)) with
// d(x)_i the length of the shortest path from x to row i, through the k nearest
// rows of x, and mean the column means of the squared geodesics of the fit (de
// Silva and Tenenbaum 2003, landmark MDS). The paths are found in the graph of
// the fit, which is much less than the n x n geodesics and gives the same.
type geodesic struct {
	training
	lambda []float64 // d positive eigenvalues of B
	mean   []float64 // n
	edge   []float64 // E x 2: rows of the fit
	length []float64 // E
	k      int
}

func (e *geodesic) kind() string { return "geodesic" }

func (e *geodesic) check(m, classes int) error {
	if err := e.training.check(m, classes); err != nil {
		return err
	}
	n := e.n()
	switch {
	case len(e.lambda) != e.d || len(e.mean) != n:
		return fmt.Errorf("%d numbers in lambda and %d in mean, %d and %d are needed", len(e.lambda), len(e.mean), e.d, n)
	case len(e.edge) != 2*len(e.length):
		return fmt.Errorf("%d numbers in edge, 2 x %d are needed", len(e.edge), len(e.length))
	case e.k < 1 || e.k > n:
		return fmt.Errorf("%d neighbours of %d rows; give 1 to %d", e.k, n, n)
	}
	for c, l := range e.lambda {
		if !(l > 0) {
			return fmt.Errorf("eigenvalue %d is %g; it must be positive", c, l)
		}
	}
	for _, v := range e.edge {
		if _, err := whole("edge", v, float64(n)); err != nil {
			return err
		}
	}
	for _, v := range e.length {
		if !(v >= 0) {
			return fmt.Errorf("an edge has length %g; it must not be negative", v)
		}
	}
	return e.connected()
}

// connected says whether there is a path to every row.
func (e *geodesic) connected() error {
	parent, parts := columns(e.n()), e.n()
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for k := range e.length {
		if a, b := root(int(e.edge[2*k])), root(int(e.edge[2*k+1])); a != b {
			parent[max(a, b)] = min(a, b)
			parts--
		}
	}
	if parts > 1 {
		return fmt.Errorf("%d groups of rows of which none is joined to another by an edge; geodesics need one", parts)
	}
	return nil
}

func (e *geodesic) arrays() []array {
	return e.with(array{"lambda", []int{e.d}, e.lambda}, array{"mean", []int{e.n()}, e.mean},
		array{"edge", []int{len(e.length), 2}, e.edge}, array{"length", []int{len(e.length)}, e.length},
		array{"neighbors", []int{1}, []float64{float64(e.k)}})
}

func rebuildGeodesic(arrays []array) (mapping, error) {
	t, rest, err := rebuildTraining("geodesic", arrays, []string{"lambda", "mean", "edge", "length", "neighbors"}, []int{1, 1, 2, 1, 1})
	if err != nil {
		return nil, err
	}
	k, err := count(rest[4])
	return &geodesic{t, rest[0].data, rest[1].data, rest[2].data, rest[3].data, k}, err
}

func (e *geodesic) placer(m int) (placer, error) {
	n := e.n()
	p := &geodesicPlacer{geodesic: e, index: newIndex(&e.training, m, e.k), start: make([]int, n+1),
		end: make([]int, len(e.edge)), length: make([]float64, len(e.edge))}
	for _, i := range e.edge {
		p.start[int(i)+1]++
	}
	for i := range n {
		p.start[i+1] += p.start[i]
	}
	next := append([]int(nil), p.start...)
	for at, i := range e.edge {
		from := int(i)
		p.end[next[from]] = int(e.edge[at^1]) // the other one of the pair
		p.length[next[from]] = e.length[at/2]
		next[from]++
	}
	return p, nil
}

// geodesicPlacer has the edges in both directions, by row.
type geodesicPlacer struct {
	*geodesic
	*index
	start, end []int
	length     []float64
}

func (p *geodesicPlacer) workspace() *workspace {
	w := p.index.workspace()
	w.row, w.heap, w.place = make([]float64, p.n()), make([]int, 0, p.n()), make([]int, p.n())
	return w
}

func (p *geodesicPlacer) place(dst, z []float64, w *workspace) error {
	zero, err := p.nearest(z, w)
	if err != nil {
		return err
	}
	if zero {
		p.put(dst, w.at[0])
		return nil
	}
	p.paths(w)
	clear(dst)
	for i, d := range w.row {
		gap := p.mean[i] - d*d
		for c, y := range p.embedding[i*p.d : (i+1)*p.d] {
			dst[c] += gap * y // y = sqrt(lambda) v
		}
	}
	for c, l := range p.lambda {
		dst[c] /= 2 * l
	}
	return nil
}

// paths are the lengths of the shortest paths to every row from one that is
// joined to its nearest rows (Dijkstra with them all as sources), in w.row.
func (p *geodesicPlacer) paths(w *workspace) {
	q := pathQueue{w.row, w.heap[:0], w.place}
	for i := range q.length {
		q.length[i], q.place[i] = math.Inf(1), -1
	}
	for c, i := range w.at {
		q.shorten(i, math.Sqrt(w.dist[c]))
	}
	for len(q.heap) > 0 {
		i := q.pop()
		for e := p.start[i]; e < p.start[i+1]; e++ {
			q.shorten(p.end[e], q.length[i]+p.length[e])
		}
	}
}

// pathQueue is a heap of rows by the length of the path to them.
type pathQueue struct {
	length []float64
	heap   []int
	place  []int // of each row in heap; -1: not in it
}

// shorten takes row i in, or up, if this path is shorter.
func (q *pathQueue) shorten(i int, length float64) {
	if !(length < q.length[i]) {
		return
	}
	q.length[i] = length
	p := q.place[i]
	if p < 0 {
		p = len(q.heap)
		q.heap = append(q.heap, i)
	}
	for p > 0 {
		up := (p - 1) / 2
		if !(length < q.length[q.heap[up]]) {
			break
		}
		q.heap[p] = q.heap[up]
		q.place[q.heap[p]] = p
		p = up
	}
	q.heap[p], q.place[i] = i, p
}

func (q *pathQueue) pop() int {
	top, last := q.heap[0], q.heap[len(q.heap)-1]
	q.place[top] = -1
	q.heap = q.heap[:len(q.heap)-1]
	if len(q.heap) == 0 {
		return top
	}
	p := 0
	for {
		down := 2*p + 1
		if down >= len(q.heap) {
			break
		}
		if down+1 < len(q.heap) && q.length[q.heap[down+1]] < q.length[q.heap[down]] {
			down++
		}
		if !(q.length[q.heap[down]] < q.length[last]) {
			break
		}
		q.heap[p] = q.heap[down]
		q.place[q.heap[p]] = p
		p = down
	}
	q.heap[p], q.place[last] = last, p
	return top
}
