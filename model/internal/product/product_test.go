package product

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
)

// problem is weights and rows of any kind.
type problem struct {
	features, outputs, rows int

	w, mean, offset []float32
	x               []float32 // rows x features
}

// number returns a special floating-point value, or an ordinary one.
func number(r *rand.Rand, special float64) float32 {
	if r.Float64() >= special {
		return float32(r.NormFloat64())
	}
	switch r.IntN(10) {
	case 0:
		return float32(math.NaN())
	case 1:
		return float32(math.Inf(1 - 2*r.IntN(2)))
	case 2:
		return math.MaxFloat32
	case 3:
		return -math.MaxFloat32
	case 4:
		return math.SmallestNonzeroFloat32
	case 5:
		return float32(r.NormFloat64()) * 1e-40
	case 6:
		return float32(math.Copysign(0, -1))
	case 7:
		return 0
	case 8:
		return float32(r.NormFloat64()) * 1e30
	}
	return math.Float32frombits(r.Uint32())
}

func newProblem(r *rand.Rand) *problem {
	p := &problem{features: 1 + r.IntN(40), outputs: 1 + r.IntN(20), rows: r.IntN(60)}
	switch r.IntN(8) {
	case 0:
		p.features = 1 + r.IntN(600) // more than one turn of the columns of a lane
	case 1:
		p.rows = r.IntN(1200) // more than one block
		p.features, p.outputs = 1+r.IntN(12), 1+r.IntN(4)
	case 2:
		p.outputs = 1 + r.IntN(70) // more tiles than share columns
		p.features = 1 + r.IntN(12)
	}
	special := []float64{0, 0, 0.001, 0.01, 0.3}[r.IntN(5)]
	far := []float64{0, 1, 1e3, 1e7}[r.IntN(4)]
	p.w, p.mean, p.offset = make([]float32, p.features*p.outputs), make([]float32, p.features), make([]float32, p.outputs)
	p.x = make([]float32, p.rows*p.features)
	for i := range p.w {
		if p.w[i] = number(r, min(special, 0.01)); p.w[i]-p.w[i] != 0 {
			p.w[i] = 0
		}
	}
	for j := range p.mean {
		p.mean[j] = float32(far * r.NormFloat64())
	}
	for c := range p.offset {
		p.offset[c] = float32(r.NormFloat64())
	}
	for i := range p.x {
		p.x[i] = number(r, special)
		if r.IntN(8) > 0 {
			p.x[i] += p.mean[i%p.features]
		}
	}
	return p
}

// layout is how the rows lie.
type layout struct {
	columns, wide bool // wide: float64
	stride, shift int  // numbers between rows or columns, and from the beginning of the memory
}

// project is the outputs of rows from to to in a layout.
func (p *problem) project(s set, l layout, from, to int) (y []float32, finite bool) {
	n := to - from
	w := newWeights(s, p.w, p.mean, p.offset)
	y = make([]float32, n*p.outputs)
	if l.columns {
		x, x64 := make([]*float32, p.features), make([]*float64, p.features)
		for j := range p.features {
			column := make([]float32, p.rows+l.shift+1)[l.shift:]
			column64 := make([]float64, p.rows+l.shift+1)[l.shift:]
			for i := range p.rows {
				column[i] = p.x[i*p.features+j]
				column64[i] = float64(column[i])
			}
			x[j], x64[j] = &column[0], &column64[0]
		}
		if l.wide {
			return y, w.Columns64(y, x64, from, n, NewSums())
		}
		return y, w.Columns32(y, x, from, n, NewSums())
	}
	stride := p.features + l.stride
	x, x64 := make([]float32, p.rows*stride+l.shift+1)[l.shift:], make([]float64, p.rows*stride+l.shift+1)[l.shift:]
	for i := range p.rows {
		for j := range p.features {
			x[i*stride+j] = p.x[i*p.features+j]
			x64[i*stride+j] = float64(x[i*stride+j])
		}
		for j := p.features; j < stride; j++ {
			x[i*stride+j] = float32(math.NaN())
		}
	}
	if l.wide {
		return y, w.List64(y, x64[from*stride:], n, stride)
	}
	return y, w.List32(y, x[from*stride:], n, stride)
}

// check compares every instruction set, and some layouts and batches, of a problem with the exact sums, with each other
// and with what must be finite. It returns the number of rows.
func (p *problem) check(r *rand.Rand) (rows int, err error) {
	exact, size := p.exact()
	var fused []float32
	for _, s := range sets() {
		whole, finite := p.project(s, layout{}, 0, p.rows)
		rows += p.rows
		if finite == slices.ContainsFunc(whole, func(v float32) bool { return v-v != 0 }) {
			return rows, fmt.Errorf("%s: finite is %v", s.name, finite)
		}
		for i, y := range whole {
			row := p.x[i/p.outputs*p.features:][:p.features]
			bad := slices.ContainsFunc(row, func(v float32) bool { return v-v != 0 })
			if off := math.Abs(float64(y) - exact[i]); bad != (y-y != 0) && (bad || size[i] < 1e38) ||
				y-y == 0 && !(off <= bound(p.features)*size[i]+float64(p.features+9)*0x1p-149) {
				return rows, fmt.Errorf("%s: output %d is %g, the exact sum %g of terms of %g", s.name, i, y, exact[i], size[i])
			}
		}
		if s.name != portable.name {
			if fused != nil && !sameBits(whole, fused) {
				return rows, fmt.Errorf("%s differs from another with fused operations", s.name)
			}
			fused = whole
		}
		for range 3 {
			l := layout{columns: r.IntN(2) == 0, wide: r.IntN(2) == 0, stride: r.IntN(5), shift: r.IntN(17)}
			from := r.IntN(p.rows + 1)
			to := from + r.IntN(p.rows-from+1)
			if r.IntN(2) == 0 {
				from, to = 0, p.rows
			}
			got, finite := p.project(s, l, from, to)
			rows += to - from
			if finite && slices.ContainsFunc(got, func(v float32) bool { return v-v != 0 }) { // false is always safe
				return rows, fmt.Errorf("%s: finite is true in %+v", s.name, l)
			}
			if !sameBits(got, whole[from*p.outputs:to*p.outputs]) {
				return rows, fmt.Errorf("%s: rows %d to %d of %d x %d -> %d in %+v differ from those of a list", s.name,
					from, to, p.rows, p.features, p.outputs, l)
			}
		}
	}
	return rows, nil
}

// bound is the maximum error of an output relative to the exact sum of the same weights, means and offset, in units of
// the sum of absolute values. Each term is rounded in the difference, the product, the additions in its lane, three
// additions of lanes and that of the offset, 2^-24 each (Higham 2002, eq. 3.5).
func bound(features int) float64 {
	return float64((features+lanes-1)/lanes+6) * 0x1.01p-24
}

// exact is the outputs in float64 and the sizes that their error is relative to.
func (p *problem) exact() (y, size []float64) {
	y, size = make([]float64, p.rows*p.outputs), make([]float64, p.rows*p.outputs)
	for i := range p.rows {
		for c := range p.outputs {
			sum, all := float64(p.offset[c]), math.Abs(float64(p.offset[c]))
			for j := range p.features {
				term := (float64(p.x[i*p.features+j]) - float64(p.mean[j])) * float64(p.w[c*p.features+j])
				sum += term
				all += math.Abs(term)
			}
			y[i*p.outputs+c], size[i*p.outputs+c] = sum, all
		}
	}
	return y, size
}

// sameBits compares bits; all NaNs are equal.
func sameBits(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// Every loop is compared with the exact sum, with the others, and over batches, layouts and positions. EMBEDD_SOAK=1
// tests 10^8 rows.
func TestLoops(t *testing.T) {
	for _, s := range sets() {
		t.Log(s.name)
	}
	most := 300_000
	if testsize.Soak() {
		most = 100_000_000
	}
	rows, seed := 0, uint64(0)
	for ; rows < most; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		p := newProblem(r)
		n, err := p.check(r)
		if err != nil {
			t.Fatalf("seed %d, %d x %d -> %d: %v", seed, p.rows, p.features, p.outputs, err)
		}
		rows += n
	}
	t.Logf("%d rows of %d problems", rows, seed)
}

// TestFusedBits: every instruction set with fused operations gives the same bits, on other processors too: this is
// their sum.
func TestFusedBits(t *testing.T) {
	const want = 0x8f06e2bd1092ced1
	for _, s := range sets() {
		if s.name == portable.name {
			continue
		}
		h := fnv.New64()
		for seed := range uint64(300) {
			p := newProblem(rand.New(rand.NewPCG(seed, 0)))
			list, _ := p.project(s, layout{}, 0, p.rows)
			columns, _ := p.project(s, layout{columns: true, wide: true}, 0, p.rows)
			for _, v := range append(list, columns...) {
				if v != v {
					v = 0 // one NaN is as good as another
				}
				_ = binary.Write(h, binary.LittleEndian, v)
			}
		}
		if got := h.Sum64(); got != want {
			t.Errorf("%s: the bits of all outputs are %x, not %x", s.name, got, uint64(want))
		}
	}
}

// TestSumsFitTheCache: the memory of sums is enough for the widest tiles of this processor and fits into a second-level
// cache, and rows that are read into a cache together are whole groups of every tile.
func TestSumsFitTheCache(t *testing.T) {
	for _, s := range sets() {
		if s.widths[0] > maxWidth {
			t.Errorf("%s: tiles of %d outputs", s.name, s.widths[0])
		}
	}
	if size := 4 * len(NewSums().of); size > 1<<20 {
		t.Errorf("sums take %d bytes", size)
	}
	for _, group := range []int{3, 4, 6, 8} {
		if cachedRows%group != 0 {
			t.Errorf("%d rows are not whole groups of %d", cachedRows, group)
		}
	}
}
