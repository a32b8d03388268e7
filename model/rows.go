package model

import (
	"fmt"
	"math"

	"github.com/embedd/embedd/internal/narrow"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// Rows is a read-only view of n rows of m features. The blocks, side by side, are the n x m matrix. The caller owns
// the memory and must not change it during a call that reads it.
type Rows struct {
	N      int
	Blocks []Block
}

// RawFormat is the type of the little-endian numbers in Block.Raw.
type RawFormat = narrow.Format

// The types of numbers of one or two bytes; float16 is IEEE 754 binary16.
const (
	RawInt8    = narrow.Int8
	RawUint8   = narrow.Uint8
	RawInt16   = narrow.Int16
	RawUint16  = narrow.Uint16
	RawFloat16 = narrow.Float16
)

// Block is a strided view of some columns: element (i, j) is number i*RowStride + j*ColStride of exactly one of F32,
// F64 and Raw, the bytes of numbers of one or two bytes each. Its memory layout equals that of a decoded Arrow block,
// so a host converts one to the other without a copy. A value that is not finite counts as missing.
type Block struct {
	F32                        []float32
	F64                        []float64
	Raw                        []byte
	Format                     RawFormat // of Raw
	Cols, RowStride, ColStride int
}

// DenseRows is the view of an n x m row-major matrix of float64.
func DenseRows(x []float64, n, m int) Rows {
	return Rows{N: n, Blocks: []Block{{F64: x, Cols: m, RowStride: m, ColStride: 1}}}
}

// M is the number of features: the columns of all blocks.
func (r Rows) M() int {
	m := 0
	for _, b := range r.Blocks {
		m += b.Cols
	}
	return m
}

// check checks that there is a model of as many features, and that every element of the view is inside its memory.
func (r Rows) check(m *Model) error {
	if err := m.exists("the receiver"); err != nil {
		return err
	}
	if r.N < 0 {
		return fmt.Errorf("rows: n is %d; it must not be negative", r.N)
	}
	if m, want := r.M(), m.M(); m != want {
		return fmt.Errorf("rows: %d features, the model has %d; give the features it was fitted on, in its order", m, want)
	}
	for k := range r.Blocks {
		b := &r.Blocks[k]
		size := len(b.F32)
		switch {
		case b.F64 != nil:
			size = len(b.F64)
		case b.Raw != nil:
			size = len(b.Raw) / b.Format.Size()
		}
		switch {
		case b.F32 != nil && b.F64 != nil || b.Raw != nil && (b.F32 != nil || b.F64 != nil):
			return fmt.Errorf("rows: block %d has data of two types; give one of F32, F64 and Raw", k)
		case b.Raw != nil && (b.Format == narrow.None || b.Format > narrow.Float16):
			return fmt.Errorf("rows: block %d has raw numbers of format %d, which is unknown", k, b.Format)
		case b.Cols < 0 || b.RowStride < 0 || b.ColStride < 0:
			return fmt.Errorf("rows: block %d has a negative size or stride", k)
		case r.N == 0 || b.Cols == 0:
		case !fits(r.N-1, b.RowStride, b.Cols-1, b.ColStride, size):
			return fmt.Errorf("rows: block %d holds %d values, too few for %d rows x %d columns at strides %d and %d",
				k, size, r.N, b.Cols, b.RowStride, b.ColStride)
		}
	}
	return nil
}

// fits reports whether index i*si + j*sj is below size, without overflow.
func fits(i, si, j, sj, size int) bool {
	if size == 0 || (i > 0 && si > (size-1)/i) || (j > 0 && sj > (size-1)/j) {
		return false
	}
	return i*si <= size-1-j*sj
}

// row copies row i to dst as float64, in feature order.
func (r Rows) row(dst []float64, i int) { gather(dst, r, len(dst), i, 1) }

// Scaled copies row i to dst as (x - mean)/scale, with missing values at the mean.
func (r Rows) Scaled(dst []float64, i int, mean, scale []float64, unit bool) {
	r.row(dst, i)
	if !unit {
		tile.Standardise(dst, mean, scale)
		return
	}
	centre(dst, mean, unit)
	for j := range dst {
		dst[j] = min(max(dst[j]/scale[j], -math.MaxFloat64), math.MaxFloat64)
	}
}

// centre centres a row of raw features in place: it divides by the row's Euclidean norm if unit is set, subtracts the
// mean, and replaces missing values by the mean (0 after centring).
func centre(x, mean []float64, unit bool) {
	norm := 1.0
	if unit {
		norm = linalg.RowNorm(x)
	}
	for j, v := range x {
		if linalg.IsFinite(v) {
			x[j] = v/norm - mean[j]
		} else {
			x[j] = 0
		}
	}
}
