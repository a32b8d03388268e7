package arrowio

import (
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow/float16"

	"github.com/embedd/embedd/arrowio/wire"
)

// A Block is part of the matrix of features: element (i, j) is at i*RowStride + j*ColStride of the one of F32 and F64
// that is not nil. float32 and float64 columns without nulls are views on the message. float16 is copied to F32;
// integers, decimals and booleans (0 and 1) are copied to F64.
// Where a column has nulls the block is a copy with NaN in their place.
type Block struct {
	F32       []float32
	F64       []float64
	Cols      int
	RowStride int
	ColStride int
}

// view reads the first n values of b in place. Values need not be aligned: the processors that Go runs on with this
// byte order read them so.
func view[T any](b []byte, n int) []T {
	if n == 0 {
		return []T{}
	}
	var t T
	_ = b[n*int(unsafe.Sizeof(t))-1]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// features makes the blocks. budget pays for copies.
func (b *Batch) features(budget *int, limits Limits) ([]Block, *Error) {
	p := b.message.plan
	b.columns = p.columns
	if e := b.sizes(); e != nil {
		return nil, e
	}
	blocks := b.block1[:0]
	for k := 0; k < len(b.columns); k++ {
		if n, block := b.run(k); n > 0 {
			blocks = append(blocks, block)
			k += n - 1
			continue
		}
		block, e := b.block(&b.columns[k], budget, limits)
		if e != nil {
			return nil, e.in(b.layout.fields[b.columns[k].field].name)
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// sizes completes the columns whose number of elements only the data tell, and checks the others.
func (b *Batch) sizes() *Error {
	p := b.message.plan
	if slices.ContainsFunc(b.columns, func(c column) bool { return c.size < 0 }) {
		b.columns = slices.Clone(b.columns) // the plan's are shared
	}
	total := 0
	for k := range b.columns {
		c := &b.columns[k]
		if kind := b.layout.fields[c.field].kind; kind == kindList || kind == kindListView {
			size, e := b.listSize(c)
			if e != nil {
				return e.in(b.layout.fields[c.field].name)
			}
			if before := b.message.batches; c.size < 0 && len(before) > 0 {
				c.size = before[len(before)-1].columns[k].size
			}
			switch {
			case size < 0 || size == c.size:
			case c.size >= 0:
				return p.otherSize(b.layout.fields[c.field].name, size, c.size)
			case size == 0:
				return fault(wire.FeatureCount, "lists of no elements").hint(
					"send 1 to %d", p.most).in(b.layout.fields[c.field].name)
			default:
				c.size = size
			}
		}
		if total += max(0, c.size); total > p.most {
			return p.tooMany().in(b.layout.fields[c.field].name)
		}
	}
	return nil
}

// otherSize is the error of lists of another length than the contract, the Spec or an earlier batch has.
func (p *plan) otherSize(name string, size, want int) *Error {
	e := fault(wire.FeatureCount, "lists of %d elements, and %d are expected", size, want).hint(
		"send lists of %d elements", want).in(name)
	if p.contract != nil && p.spec.Sizes[name] == 0 {
		return e.changed()
	}
	return e
}

// listSize returns the one length of the valid lists of a column, -1 when there are none.
func (b *Batch) listSize(c *column) (int, *Error) {
	f := &b.layout.fields[c.field]
	valid, o, size := b.valid(c.field), b.buffer(c.field, 1), int64(-1)
	for row := 0; row < b.rows; row++ {
		if valid != nil && valid[row>>3]>>(row&7)&1 == 0 {
			continue
		}
		var n int64
		if f.kind == kindListView {
			n = offset(b.buffer(c.field, 2), f.width, row)
		} else {
			n = offset(o, f.width, row+1) - offset(o, f.width, row)
		}
		if size >= 0 && n != size {
			return 0, fault(wire.FeatureCount, "a list of %d elements after lists of %d", n, size).hint(
				"send lists of one length").at(row)
		}
		size = n
	}
	return int(size), nil
}

// run finds columns from k on that are float columns without nulls at equal distances in the body, as writers lay
// them out: together they are one block with a column stride, and a thousand columns need no thousand blocks.
func (b *Batch) run(k int) (n int, block Block) {
	first, num, ok := b.plain(k)
	if !ok {
		return 0, block
	}
	width := 4
	if num == float64s {
		width = 8
	}
	stride := b.rows * width
	n = 1
	for last := first; k+n < len(b.columns) && b.arrays == nil; n++ {
		at, m, ok := b.plain(k + n)
		if !ok || m != num || at < 0 {
			break
		}
		if n == 1 && b.rows > 0 {
			if stride = at - last; stride < b.rows*width || stride%width != 0 {
				stride = b.rows * width
				break
			}
		} else if at-last != stride && b.rows > 0 {
			break
		}
		last = at
	}
	block = Block{Cols: n, RowStride: 1, ColStride: stride / width}
	count := 0
	if b.rows > 0 {
		count = (n-1)*block.ColStride + b.rows
	}
	values := b.buffer(b.columns[k].field, 1)
	if b.arrays == nil {
		values = b.body[first:]
	}
	if num == float32s {
		block.F32 = view[float32](values, count)
	} else {
		block.F64 = view[float64](values, count)
	}
	return n, block
}

// plain returns where the values of feature column k stand in the body, if there is one; ok is false where it is no
// float column or has nulls.
func (b *Batch) plain(k int) (at int, n number, ok bool) {
	c := &b.columns[k]
	f := &b.layout.fields[c.field]
	if c.value != c.field || f.number != float32s && f.number != float64s || b.valid(c.field) != nil {
		return 0, 0, false
	}
	if b.arrays != nil {
		return 0, f.number, true
	}
	buffer := f.buffer + 1
	if b.shift != nil {
		buffer += b.shift[f.views]
	}
	return int(le.Uint64(b.ranges[16*buffer:])), f.number, true
}

// block makes the block of one column.
func (b *Batch) block(c *column, budget *int, limits Limits) (Block, *Error) {
	f := &b.layout.fields[c.value]
	n := f.number
	values := b.buffer(c.value, 1)
	size := max(0, c.size)
	block := Block{Cols: size, RowStride: size, ColStride: 1}
	count := b.rows * size
	outer := b.layout.fields[c.field].kind
	whole := b.valid(c.field) == nil && b.valid(c.value) == nil && outer != kindListView // whose lists stand in any order
	from := 0
	if outer == kindList && b.rows > 0 {
		from = int(offset(b.buffer(c.field, 1), b.layout.fields[c.field].width, 0))
	}
	switch {
	case whole && n == float32s:
		block.F32 = view[float32](values[4*from:], count)
		return block, nil
	case whole && n == float64s:
		block.F64 = view[float64](values[8*from:], count)
		return block, nil
	case size > 0 && b.rows > *budget/8/size:
		return block, tooLarge(limits.Body)
	}
	*budget -= 8 * count
	if n == float32s || n == float16s {
		block.F32 = make([]float32, count)
	} else {
		block.F64 = make([]float64, count)
	}
	if whole {
		block.fill(0, values, f, from, count)
		return block, nil
	}
	b.fillRows(&block, c, values)
	return block, nil
}

// fillRows copies a column with nulls, or of list views.
func (b *Batch) fillRows(block *Block, c *column, values []byte) {
	size, numbers := block.Cols, &b.layout.fields[c.value]
	outer, inner := b.valid(c.field), b.valid(c.value)
	f := &b.layout.fields[c.field]
	for row := 0; row < b.rows; row++ {
		from := row * size
		if outer != nil && outer[row>>3]>>(row&7)&1 == 0 {
			for j := 0; j < size; j++ {
				block.null(from + j)
			}
			continue
		}
		at := from
		if f.kind == kindList || f.kind == kindListView {
			at = int(offset(b.buffer(c.field, 1), f.width, row))
		}
		block.fill(from, values, numbers, at, size)
		if inner == nil || c.value == c.field {
			continue
		}
		for j := 0; j < size; j++ {
			if k := at + j; inner[k>>3]>>(k&7)&1 == 0 {
				block.null(from + j)
			}
		}
	}
}

func (b *Block) null(k int) {
	if b.F32 != nil {
		b.F32[k] = float32(math.NaN())
	} else {
		b.F64[k] = math.NaN()
	}
}

// fill converts count values from element at of a buffer of field f to element from of the block.
func (b *Block) fill(from int, values []byte, f *field, at, count int) {
	if count == 0 {
		return
	}
	switch f.number {
	case float16s:
		for i, v := range view[float16.Num](values[2*at:], count) {
			b.F32[from+i] = v.Float32()
		}
	case decimals:
		for i := range count {
			b.F64[from+i] = decimal(values[f.width*(at+i):f.width*(at+i+1)], f.scale)
		}
	case bools:
		for i := range count {
			k := at + i
			b.F64[from+i] = float64(values[k>>3] >> (k & 7) & 1)
		}
	case float32s:
		copy(b.F32[from:from+count], view[float32](values[4*at:], count))
	case float64s:
		copy(b.F64[from:from+count], view[float64](values[8*at:], count))
	case int8s:
		widen(b.F64[from:], view[int8](values[at:], count))
	case int16s:
		widen(b.F64[from:], view[int16](values[2*at:], count))
	case int32s:
		widen(b.F64[from:], view[int32](values[4*at:], count))
	case int64s:
		widen(b.F64[from:], view[int64](values[8*at:], count))
	case uint8s:
		widen(b.F64[from:], view[uint8](values[at:], count))
	case uint16s:
		widen(b.F64[from:], view[uint16](values[2*at:], count))
	case uint32s:
		widen(b.F64[from:], view[uint32](values[4*at:], count))
	case uint64s:
		widen(b.F64[from:], view[uint64](values[8*at:], count))
	}
}

func widen[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []float64, src []T) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}
