package model

import "slices"

// layout is where the features of rows are, if package product can read them in place.
type layout struct {
	list32 []float32 // one block, row-major
	list64 []float64
	stride int

	columns32 []*float32 // one for each column
	columns64 []*float64

	wide    bool // some are float64
	widened bool // columns, some of them raw and none float64
}

// find inspects the blocks of rows.
func (l *layout) find(rows Rows) {
	count, wide, raw, columns := 0, 0, 0, true
	var only *Block
	for i := range rows.Blocks {
		b := &rows.Blocks[i]
		if b.Cols == 0 {
			continue
		}
		count++
		only = b
		if b.F64 != nil {
			wide++
		}
		if b.Raw != nil {
			raw++
		}
		columns = columns && (b.RowStride == 1 || rows.N == 1)
	}
	l.wide = wide > 0
	switch {
	case rows.N == 0:
	case count == 1 && raw == 0 && (only.ColStride == 1 || only.Cols == 1):
		l.list32, l.list64, l.stride = only.F32, only.F64, only.RowStride
	case columns && wide == 0 && raw > 0 && rows.N > 1:
		l.widened = true
	case columns && raw == 0 && (wide == 0 || wide == count):
		for _, b := range rows.Blocks {
			for j := range b.Cols {
				if wide == 0 {
					l.columns32 = append(l.columns32, &b.F32[j*b.ColStride])
				} else {
					l.columns64 = append(l.columns64, &b.F64[j*b.ColStride])
				}
			}
		}
	}
}

// inPlace reports whether the rows need not be copied.
func (l *layout) inPlace() bool {
	return l.list32 != nil || l.list64 != nil || len(l.columns32) > 0 || len(l.columns64) > 0
}

// forget drops the references to the rows and keeps the memory.
func (l *layout) forget() {
	clear(l.columns32)
	clear(l.columns64)
	*l = layout{columns32: l.columns32[:0], columns64: l.columns64[:0]}
}

// gather copies n rows of m features, row-major, into the memory of dst if that is large enough. Values of float32
// must not come from float64.
func gather[T float32 | float64](dst []T, rows Rows, m, from, n int) []T {
	dst = slices.Grow(dst[:0], n*m)[:n*m]
	at := 0
	for k := range rows.Blocks {
		b := &rows.Blocks[k]
		if b.Cols == 0 {
			continue
		}
		for r := range n {
			out, first := dst[r*m+at:][:b.Cols], (from+r)*b.RowStride
			switch {
			case b.F64 != nil:
				pick(out, b.F64[first:], b.ColStride)
			case b.Raw != nil:
				pickRaw(out, b, first)
			default:
				pick(out, b.F32[first:], b.ColStride)
			}
		}
		at += b.Cols
	}
	return dst
}

// pick copies numbers that are stride apart.
func pick[T, S float32 | float64](dst []T, x []S, stride int) {
	if stride == 1 {
		for j, v := range x[:len(dst)] {
			dst[j] = T(v)
		}
		return
	}
	at := 0
	for j := range dst {
		dst[j] = T(x[at])
		at += stride
	}
}

// pickRaw copies numbers of a block from index first on.
func pickRaw[T float32 | float64](dst []T, b *Block, first int) {
	if out, ok := any(dst).([]float32); ok && b.ColStride == 1 {
		b.Format.Widen(out, b.Raw[first*b.Format.Size():])
		return
	}
	for j := range dst {
		dst[j] = T(b.Format.At(b.Raw, first+j*b.ColStride))
	}
}

// widenColumns makes float32 columns of n rows, and returns where they begin. Columns that are float32 already are not
// copied. Values and columns reuse the memory of dst and at.
func widenColumns(dst []float32, at []*float32, rows Rows, m, from, n int) ([]float32, []*float32) {
	dst, at = slices.Grow(dst[:0], n*m)[:n*m], at[:0]
	for i := range rows.Blocks {
		b := &rows.Blocks[i]
		for j := range b.Cols {
			first := from + j*b.ColStride
			if b.Raw == nil {
				at = append(at, &b.F32[first])
				continue
			}
			column := dst[len(at)*n:][:n]
			b.Format.Widen(column, b.Raw[first*b.Format.Size():])
			at = append(at, &column[0])
		}
	}
	return dst, at
}
