package product

import (
	"unsafe"

	"github.com/embedd/embedd/model/internal/linalg"
)

const lanes = 8 // float32 numbers of an AVX2 vector: every loop sums in as many partial sums

// Weights are the tables of one product. They are immutable.
type Weights struct {
	features, outputs int
	tiles             []tile
	scatter           scatters
	f32               tables[float32]
	f64               tables[float64]
}

// tile is some neighbouring outputs that a loop computes together. The last ones may be padding of weight zero, which
// is not stored.
type tile struct {
	first, width, used int
	w                  []float32   // by eight features, by output, by lane; padded with zeros
	offset             [16]float32 // of the outputs, repeated
}

// tables are the part of the weights that depends on the type of features.
type tables[T float32 | float64] struct {
	mean    []T // padded to whole lanes with zeros
	lists   []list[T]
	columns []columns[T]
}

// list is a loop over row-major rows for one tile, with strides in bytes. It returns 0 if all outputs are finite.
// asm/main.go describes the memory that it prefetches.
type list[T float32 | float64] func(dst *float32, x *T, w *float32, mean *T, offset *float32,
	rows, features, xStride, dstStride, used, ahead, aheadRow, aheadLine, aheadStep int) int

// columns is a loop over every eighth of some columns, which adds to the sums of a tile, accStride apart: they start
// from load, or from zero if that is nil; at the end it adds adds blocks of size bytes starting at pending, and writes
// to store.
type columns[T float32 | float64] func(load, store, pending *float32, adds, size int,
	x **T, w *float32, mean *T, features, first, rows int, ahead **T, aheadFirst, aheadShare int)

// scatter turns sums of columns into rows of outputs, and returns the same as list.
type scatter func(dst, sums, offset *float32, rows, dstStride, used int) int

type scatters struct{ of4, of2 scatter }

// set is one implementation of the loops, by the number of outputs that they compute together.
type set struct {
	name    string
	widths  []int // descending
	list32  map[int]list[float32]
	list64  map[int]list[float64]
	cols32  map[int]columns[float32]
	cols64  map[int]columns[float64]
	scatter scatters
}

// best is the fastest set of this machine.
var best = sets()[0]

// New makes the tables of weights w, outputs x features. mean and offset, whose length is the number of outputs, are
// kept in float32; the caller adds what the mean loses by that to the offset.
func New(w []float32, mean []float32, offset []float32) *Weights {
	return newWeights(best, w, mean, offset)
}

func newWeights(s set, w []float32, mean []float32, offset []float32) *Weights {
	p := &Weights{features: len(mean), outputs: len(offset), scatter: s.scatter}
	groups := (p.features + lanes - 1) / lanes
	p.f32.mean = linalg.Aligned(groups * lanes)
	p.f64.mean = make([]float64, groups*lanes)
	for j, v := range mean {
		p.f32.mean[j], p.f64.mean[j] = v, float64(v)
	}
	for c := 0; c < p.outputs; {
		left := p.outputs - c
		width := s.widths[0]
		for _, smaller := range s.widths[1:] {
			if smaller >= left {
				width = smaller
			}
		}
		t := tile{first: c, width: width, used: min(width, left), w: linalg.Aligned(groups * width * lanes)}
		for o := range t.used {
			for j, v := range w[(c+o)*p.features:][:p.features] {
				t.w[(j/lanes*width+o)*lanes+j%lanes] = v
			}
			for again := o; again < len(t.offset); again += width {
				t.offset[again] = offset[c+o] + 0 // no -0: the sign of zero outputs would differ
			}
		}
		p.tiles = append(p.tiles, t)
		p.f32.lists, p.f32.columns = append(p.f32.lists, s.list32[width]), append(p.f32.columns, s.cols32[width])
		p.f64.lists, p.f64.columns = append(p.f64.lists, s.list64[width]), append(p.f64.columns, s.cols64[width])
		c += t.used
	}
	return p
}

// List32 writes the outputs of rows that are stride numbers apart to dst, row-major. It reports whether all of them
// are finite. If a feature of a row is not finite, none of its outputs is.
func (p *Weights) List32(dst, x []float32, rows, stride int) (finite bool) {
	return listOf(p, &p.f32, dst, x, rows, stride)
}

// List64 is List32 for float64.
func (p *Weights) List64(dst []float32, x []float64, rows, stride int) (finite bool) {
	return listOf(p, &p.f64, dst, x, rows, stride)
}

// Columns32 is List32 for rows starting at from of columns: x has the first number of each feature, s is scratch.
func (p *Weights) Columns32(dst []float32, x []*float32, from, rows int, s *Sums) (finite bool) {
	return columnsOf(p, &p.f32, dst, x, from, rows, s)
}

// Columns64 is Columns32 for float64.
func (p *Weights) Columns64(dst []float32, x []*float64, from, rows int, s *Sums) (finite bool) {
	return columnsOf(p, &p.f64, dst, x, from, rows, s)
}

// A list of several tiles is processed some rows at a time, by one tile after the other while the rows are in a cache;
// each prefetches its share of the next rows. This number of rows is a multiple of all groups of rows.
const (
	cached     = 32 << 10
	cachedRows = 24
	line       = 64
)

func listOf[T float32 | float64](p *Weights, s *tables[T], dst []float32, x []T, rows, stride int) bool {
	if rows == 0 || p.outputs == 0 {
		return true
	}
	_, _ = x[:(rows-1)*stride+p.features], dst[:rows*p.outputs]
	size := int(unsafe.Sizeof(x[0]))
	step, apart := rows, stride*size
	ahead, aheadRow, aheadLine, aheadStep := 8*apart, apart, apart, 16*size
	if n := len(p.tiles); n > 1 {
		step = max(cached/(p.features*size*cachedRows), 1) * cachedRows
		aheadRow, aheadLine = apart/n, line*size/4
		aheadStep = 6 * aheadRow / max(p.features/16, 1)
	}
	bad := 0
	for from := 0; from < rows; from += step {
		for i := range p.tiles {
			t := &p.tiles[i]
			if len(p.tiles) > 1 {
				ahead = (step + step*i/len(p.tiles)) * apart
			}
			bad |= s.lists[i](&dst[from*p.outputs+t.first], &x[from*stride], &t.w[0], &s.mean[0], &t.offset[0],
				min(step, rows-from), p.features, apart, 4*p.outputs, t.used, ahead, aheadRow, aheadLine, aheadStep)
		}
	}
	return bad == 0
}
