package tile

// PointPanel is the number of points in a panel, side by side.
const PointPanel = 48

// PointRows is how many points of its first operand Compare processes at once.
const PointRows = blockRows

// Points are float32 points, packed in panels of 48: the first coordinates of all, then the second, and so on.
type Points struct {
	N, Dim int
	data   []float32
}

// NewPoints has room for n points.
func NewPoints(n, dim int) *Points { return PointsIn(new([]float32), n, dim) }

// PointsIn is NewPoints in the memory of a buffer. It replaces one that is too short.
func PointsIn(buffer *[]float32, n, dim int) *Points {
	size := (n + PointPanel - 1) / PointPanel * PointPanel * dim
	if cap(*buffer) < size {
		*buffer = make([]float32, size)
	}
	p := &Points{N: n, Dim: dim, data: (*buffer)[:size]}
	clear(p.data[n/PointPanel*PointPanel*dim:])
	return p
}

// Panels is the number of panels; the last is padded with zeros.
func (p *Points) Panels() int { return len(p.data) / (PointPanel * p.Dim) }

// Set writes point i.
func (p *Points) Set(i int, x []float32) {
	at := p.data[i/PointPanel*PointPanel*p.Dim+i%PointPanel:]
	for j, v := range x {
		at[j*PointPanel] = v
	}
}

// Bounds has two bounds for each point of one panel: the first bounds of all points, then the second.
type Bounds [2 * PointPanel]float32

// Products has the dot products of eight points with a panel, and marks which of them reach a bound.
type Products struct {
	Dot  [blockRows * PointPanel]float32
	Mask [blockRows]uint64 // bit j: of the row with point j of the panel
}

// Compare multiplies the eight points of a starting at group, a multiple of eight, with panel p of b. Bit j of mask i
// is set if the product is at least min(rows[0][i]+columns[1][j], rows[1][i]+columns[0][j]); rows are the bounds of
// the panel that the group is in. It reports whether any bit is set.
func (out *Products) Compare(a *Points, group int, rows *Bounds, b *Points, p int, columns *Bounds) bool {
	height := PointPanel * a.Dim
	in := group % PointPanel
	compare(a.Dim, a.data[group/PointPanel*height+in:], b.data[p*height:], out, rows[in:], columns)
	return out.any()
}

// CompareFirst is Compare of the first point of a alone. Masks of other points are 0; their bounds must exclude all.
func (out *Products) CompareFirst(a *Points, rows *Bounds, b *Points, p int, columns *Bounds) bool {
	out.Mask = [blockRows]uint64{}
	compareFirst(a.Dim, a.data, b.data[p*PointPanel*a.Dim:], out, rows[:], columns)
	return out.any()
}

func (out *Products) any() bool {
	any := uint64(0)
	for _, m := range out.Mask {
		any |= m
	}
	return any != 0
}

func comparePortable(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	for i := range blockRows {
		var sum [PointPanel]float32
		for l := range k {
			v, row := a[l*PointPanel+i], b[l*PointPanel:][:PointPanel]
			for j, w := range row {
				sum[j] += v * w
			}
		}
		copy(out.Dot[i*PointPanel:], sum[:])
	}
	out.mark(rows, columns)
}

// mark sets the masks of computed products.
func (out *Products) mark(rows []float32, columns *Bounds) {
	for i := range blockRows {
		mask := uint64(0)
		first, second := rows[i], rows[PointPanel+i]
		for j, v := range out.Dot[i*PointPanel:][:PointPanel] {
			if v >= first+columns[PointPanel+j] || v >= second+columns[j] {
				mask |= 1 << j
			}
		}
		out.Mask[i] = mask
	}
}
