package tile

// Together is how many vectors are multiplied at once: those of one panel.
const Together = panel

// Table is vectors of k numbers, packed once to be multiplied with others repeatedly. It is immutable.
type Table struct {
	n, k int
	data []float64
}

// NewTable packs n vectors of k numbers: number l of vector i is data[i*stride+l*step].
func NewTable(data []float64, n, k, stride, step int) *Table {
	var buffer []float64
	t := &Table{n: n, k: k, data: aligned(&buffer, panels(n)*panel*k)}
	for i := range n {
		for l := range k {
			t.data[i/panel*panel*k+l*panel+i%panel] = data[i*stride+l*step]
		}
	}
	return t
}

// Rows is how many rows of Together numbers Times writes: the number of vectors rounded up to a multiple of eight.
func (t *Table) Rows() int { return (t.n + blockRows - 1) / blockRows * blockRows }

// Times writes the products of the table's vectors with up to Together others, given side by side: number l of vector
// j is x[l*Together+j], and its product with vector i of the table is dst[i*Together+j]. An element depends only on
// its two vectors.
func (t *Table) Times(dst, x []float64) {
	clear(dst[:t.Rows()*panel])
	for i := 0; i < t.n; i += blockRows {
		update(t.k, t.data[i/panel*panel*t.k+i%panel:], x, dst[i*panel:], panel, 1, x)
	}
}
