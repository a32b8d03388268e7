package arrowio

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/number"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/narrow"
)

// A Block is part of the feature matrix: element (i, j) is number i*RowStride + j*ColStride of F32, F64 or Raw,
// whichever is not nil; At returns it. Columns of float32, float64, float16 and integers of one or two bytes are views
// on the message: Raw are the bytes of the last two. Other integers and decimals are converted to F64, booleans (0 and
// 1) to F32. A column with nulls is copied, with NaN for each null.
type Block struct {
	F32       []float32
	F64       []float64
	Raw       []byte
	Format    narrow.Format // of Raw: a model.RawFormat
	Cols      int
	RowStride int
	ColStride int
}

// features returns the blocks. budget is reduced by the bytes of copies.
func (b *Batch) features(budget *int, limits Limits) []Block {
	b.columns = b.message.plan.columns
	if b.sizes(); b.message.varyingLists != nil {
		return nil // the message is decoded again
	}
	blocks, total := b.block1[:0], 0
	var copied []struct{ block, column int } // columns whose numbers are copied, with their blocks
	for k := 0; k < len(b.columns); k++ {
		c := &b.columns[k]
		if n, block := b.run(k); n > 0 {
			blocks = append(blocks, block)
			k += n - 1
			continue
		}
		if b.isView(c) {
			blocks = append(blocks, b.block(c))
			continue
		}
		copied = append(copied, struct{ block, column int }{len(blocks), k})
		blocks = append(blocks, Block{})
		if c.size <= 0 {
			continue
		}
		if b.data.Rows > *budget/8/c.size {
			panic(ipc.TooLarge(limits.Body).In(b.data.Layout.Fields[c.field].Name))
		}
		*budget -= 8 * b.data.Rows * c.size
		total += copiedBytes(c.number(b.data.Layout), b.data.Rows*c.size)
	}
	if total > 0 {
		b.copies = b.message.decoder.codecs.Buffers.Get(total)
	}
	for _, c := range copied {
		blocks[c.block] = b.block(&b.columns[c.column])
	}
	return blocks
}

// isSingle reports whether numbers of a type become float32 when they are copied, otherwise float64.
func isSingle(n ipc.Number) bool {
	return n == ipc.Float32 || n == ipc.Bool || formats[n] != narrow.None
}

// copiedBytes returns the memory of count copied numbers of a type.
func copiedBytes(n ipc.Number, count int) int {
	if isSingle(n) {
		return (4*count + 7) &^ 7
	}
	return 8 * count
}

// number is the type of the column's numbers; where it holds none, of those that the encoder makes.
func (c *column) number(l *ipc.Layout) ipc.Number {
	switch {
	case c.encoder == nil:
		return l.Fields[c.value].Number
	case c.encoder.column.Date:
		return ipc.Float64
	}
	return ipc.Float32
}

// nextCopy returns the memory of the next n bytes of copies.
func (b *Batch) nextCopy(n int) []byte {
	from := len(b.copies)
	b.copies = b.copies[:from+n]
	return b.copies[from:]
}

// isView reports whether a column of features is a view on the message: its numbers are of such a type, and whole.
func (b *Batch) isView(c *column) bool {
	return c.encoder == nil && isView(b.data.Layout.Fields[c.value].Number) && b.isWhole(c)
}

// isWhole reports whether the numbers of a column are in one piece: none is null, and lists are in order.
func (b *Batch) isWhole(c *column) bool {
	return b.data.Valid(c.field) == nil && b.data.Valid(c.value) == nil &&
		b.data.Layout.Fields[c.field].Kind != ipc.KindListView
}

// sizes determines the list lengths that are not in the schema from the data, and checks the others. Columns that
// withoutVaryingLists leaves out are noted.
func (b *Batch) sizes() {
	m := b.message
	p := m.plan
	if !p.varies {
		return
	}
	if slices.ContainsFunc(b.columns, func(c column) bool { return c.size < 0 }) {
		b.columns = slices.Clone(b.columns) // the plan's columns are shared
	}
	total := 0
	for k := range b.columns {
		c := &b.columns[k]
		f := &b.data.Layout.Fields[c.field]
		if (f.Kind == ipc.KindList || f.Kind == ipc.KindListView) && !m.varyingLists[k] {
			if e := b.setSize(k); e != nil {
				m.excludeList(k, e.In(f.Name))
			}
		}
		if total += max(0, c.size); total > p.maxElements {
			panic(p.tooMany().In(f.Name))
		}
	}
}

// setSize determines or checks the length of the lists of column k.
func (b *Batch) setSize(k int) *Error {
	c, p := &b.columns[k], b.message.plan
	size, e := b.listSize(c)
	if e != nil {
		return e
	}
	if before := b.message.batches; c.size < 0 && len(before) > 0 {
		c.size = before[len(before)-1].columns[k].size
	}
	switch {
	case size < 0 || size == c.size:
	case c.size >= 0:
		return p.otherSize(b.data.Layout.Fields[c.field].Name, size, c.size)
	case size == 0:
		return wire.Errorf(wire.FeatureCount, "lists of no elements").WithHint("send 1 to %d", p.maxElements)
	default:
		c.size = size
	}
	return nil
}

// excludeList notes a column of lists that is no feature of the message if only "*" selects it; otherwise it panics
// with the error about their lengths.
func (m *Message) excludeList(k int, e *Error) {
	if m.plan.contract != nil || !m.decoder.isOnlyStarred(e.Column) {
		panic(e)
	}
	if m.varyingLists == nil {
		e.Batch = len(m.batches)
		m.varyingLists, m.varyingError = map[int]bool{}, e
	}
	m.varyingLists[k] = true
}

// otherSize returns the error for lists whose length differs from the contract, the Spec or an earlier batch.
func (p *plan) otherSize(name string, size, want int) *Error {
	e := wire.Errorf(wire.FeatureCount, "lists of %d elements, and %d are expected", size, want).WithHint(
		"send lists of %d elements", want).In(name)
	if p.contract != nil && p.spec.Sizes[name] == 0 {
		return changed(e)
	}
	return e
}

// listSize returns the length of the non-null lists of a column, -1 if there are none, and an error if their lengths
// differ.
func (b *Batch) listSize(c *column) (int, *Error) {
	f := &b.data.Layout.Fields[c.field]
	o, size := b.data.Buffer(c.field, 1), int64(-1)
	for row := range b.data.Rows {
		if b.data.IsNull(c.field, row) {
			continue
		}
		var n int64
		if f.Kind == ipc.KindListView {
			n = ipc.Offset(b.data.Buffer(c.field, 2), f.Width, row)
		} else {
			n = ipc.Offset(o, f.Width, row+1) - ipc.Offset(o, f.Width, row)
		}
		if size >= 0 && n != size {
			return 0, wire.Errorf(wire.FeatureCount, "a list of %d elements after lists of %d", n, size).WithHint(
				"send lists of one length").At(row)
		}
		size = n
	}
	return int(size), nil
}

// formats are the types of numbers that features keep in a message.
var formats = [...]narrow.Format{ipc.Int8: narrow.Int8, ipc.Uint8: narrow.Uint8, ipc.Int16: narrow.Int16,
	ipc.Uint16: narrow.Uint16, ipc.Float16: narrow.Float16, ipc.Bool: narrow.None}

// run finds the columns from k on that are views on the message at equal distances in the body, as writers
// usually lay them out. They become one block with a column stride, so that a thousand columns are not a thousand
// blocks.
func (b *Batch) run(k int) (n int, block Block) {
	first, num, ok := b.plain(k)
	if !ok {
		return 0, block
	}
	width := b.data.Layout.Fields[b.columns[k].field].Width
	stride := b.data.Rows * width
	n = 1
	field := b.columns[k].field
	r := b.data.RunOf(field)
	for last := first; k+n < len(b.columns) && b.data.Arrays == nil; n++ {
		if n > 1 && b.columns[k+n].field == field+n && field+n < r.End && b.data.Follows(&r, field+n, last+stride) {
			last += stride
			continue
		}
		at, m, ok := b.plain(k + n)
		if !ok || m != num || at < 0 {
			break
		}
		if n == 1 && b.data.Rows > 0 {
			if stride = at - last; stride < b.data.Rows*width || stride%width != 0 {
				stride = b.data.Rows * width
				break
			}
		} else if at-last != stride && b.data.Rows > 0 {
			break
		}
		last = at
	}
	block = Block{Cols: n, RowStride: 1, ColStride: stride / width}
	count := 0
	if b.data.Rows > 0 {
		count = (n-1)*block.ColStride + b.data.Rows
	}
	values := b.data.Buffer(b.columns[k].field, 1)
	if b.data.Arrays == nil {
		values = b.data.Body[first:]
	}
	block.view(values, num, count)
	return n, block
}

// view makes the block a view on count values.
func (b *Block) view(values []byte, n ipc.Number, count int) {
	switch n {
	case ipc.Float32:
		b.F32 = ipc.View[float32](values, count)
	case ipc.Float64:
		b.F64 = ipc.View[float64](values, count)
	default:
		b.Format, b.Raw = formats[n], []byte{}
		if count > 0 {
			b.Raw = values[:count*b.Format.Size()]
		}
	}
}

// isView reports whether features of a type are views on the message.
func isView(n ipc.Number) bool {
	return n == ipc.Float32 || n == ipc.Float64 || formats[n] != narrow.None
}

// plain returns the position of the values of feature column k in the body. ok is false if they are converted or in
// lists, or have nulls.
func (b *Batch) plain(k int) (at int, n ipc.Number, ok bool) {
	c := &b.columns[k]
	f := &b.data.Layout.Fields[c.field]
	if c.encoder != nil || c.value != c.field || !isView(f.Number) || b.data.Valid(c.field) != nil {
		return 0, 0, false
	}
	if b.data.Arrays != nil {
		return 0, f.Number, true
	}
	buffer := f.Buffer + 1
	if b.data.Shift != nil {
		buffer += b.data.Shift[f.Views]
	}
	return int(le.Uint64(b.data.Ranges[16*buffer:])), f.Number, true
}

// block returns the block of one column.
func (b *Batch) block(c *column) Block {
	f, n, size := &b.data.Layout.Fields[c.value], c.number(b.data.Layout), max(0, c.size)
	block := Block{Cols: size, RowStride: size, ColStride: 1}
	count := b.data.Rows * size
	isView := b.isView(c)
	if !isView {
		if to := b.nextCopy(copiedBytes(n, count)); isSingle(n) {
			block.F32 = ipc.View[float32](to, count)
		} else {
			block.F64 = ipc.View[float64](to, count)
		}
		if c.encoder != nil {
			b.encode(c, &block)
			return block
		}
	}
	values, from := b.data.Buffer(c.value, 1), 0
	if b.data.Rows > 0 {
		from = b.elementRow(c, 0)
	}
	if isView {
		block.view(values[f.Width*from:], n, count)
		return block
	}
	if b.isWhole(c) {
		block.fill(0, values, f, from, count)
		return block
	}
	b.fillRows(&block, c, values)
	return block
}

// fillRows copies a column that has nulls or is a list view.
func (b *Batch) fillRows(block *Block, c *column, values []byte) {
	size, numbers := block.Cols, &b.data.Layout.Fields[c.value]
	inner := b.data.Valid(c.value)
	for row := 0; row < b.data.Rows; row++ {
		from := row * size
		if b.data.IsNull(c.field, row) {
			for j := 0; j < size; j++ {
				block.null(from + j)
			}
			continue
		}
		at := b.elementRow(c, row)
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

// fill converts count values of field f, from index at, into the block from index from.
func (b *Block) fill(from int, values []byte, f *ipc.Field, at, count int) {
	if count == 0 {
		return
	}
	switch f.Number {
	case ipc.Int8, ipc.Uint8, ipc.Int16, ipc.Uint16, ipc.Float16:
		formats[f.Number].Widen(b.F32[from:from+count], values[f.Width*at:])
	case ipc.Decimal:
		for i := range count {
			b.F64[from+i] = decimal(values[f.Width*(at+i):f.Width*(at+i+1)], f.Scale)
		}
	case ipc.Bool:
		for i := range count {
			k := at + i
			b.F32[from+i] = float32(values[k>>3] >> (k & 7) & 1)
		}
	case ipc.Float32:
		copy(b.F32[from:from+count], ipc.View[float32](values[4*at:], count))
	case ipc.Float64:
		copy(b.F64[from:from+count], ipc.View[float64](values[8*at:], count))
	default:
		widenings[f.Number](b.F64[from:], values[f.Width*at:], count)
	}
}

// widenings convert count integers of four or eight bytes to float64, by their type.
var widenings = [...]func(dst []float64, values []byte, count int){
	ipc.Int32: widen[int32], ipc.Int64: widen[int64], ipc.Uint32: widen[uint32], ipc.Uint64: widen[uint64],
}

func widen[T int32 | int64 | uint32 | uint64](dst []float64, values []byte, count int) {
	for i, v := range ipc.View[T](values, count) {
		dst[i] = float64(v)
	}
}

// encode sets the features of an encoded column. A null is NaN in all of them.
func (b *Batch) encode(c *column, block *Block) {
	if block.F32 != nil {
		b.categories(c, block.F32)
		return
	}
	for row := range block.F64 {
		v, ok := b.days(c.field, row)
		if !ok {
			text, _ := b.text(c.field, row, maxDate)
			b.rejected = append(b.rejected, Fault{Row: row, Feature: c.encoder.column.Name, Code: wire.NotNumeric,
				What: fmt.Sprintf("%q is no date such as 2024-05-01 or 2024-05-01T12:00:00Z", wire.Clip(text))})
		}
		block.F64[row] = v
	}
	b.rejected = onePerRow(b.rejected)
}

// categories sets the features of a category.
func (b *Batch) categories(c *column, to []float32) {
	clear(to)
	for row := range b.data.Rows {
		features := to[row*c.size : (row+1)*c.size]
		text, ok := b.text(c.field, row, c.encoder.longest+1) // what is longer than any value is none
		if !ok {
			for k := range features {
				features[k] = float32(math.NaN())
			}
			continue
		}
		k, ok := c.encoder.places[text]
		if v, isBool := number.ParseBool(text); !ok && isBool {
			k, ok = c.encoder.places[strconv.FormatBool(v)]
		}
		if ok {
			features[k] = 1
		} else {
			b.unseen++
		}
	}
}

// days returns the date of a row, NaN if it has none. ok is false if it is text that is no date.
func (b *Batch) days(field, row int) (v float64, ok bool) {
	f := &b.data.Layout.Fields[field]
	if f.Kind == ipc.KindNull || f.Type != ipc.TypeDate && f.Type != ipc.TypeTimestamp {
		text, ok := b.text(field, row, maxDate+1)
		if !ok {
			return math.NaN(), true
		}
		return parseDays(text)
	}
	if b.data.IsNull(field, row) {
		return math.NaN(), true
	}
	raw := b.data.Buffer(field, 1)
	switch {
	case f.Type == ipc.TypeTimestamp:
		return float64(int64(le.Uint64(raw[8*row:]))) / perDay[f.Unit], true
	case f.Width == 4:
		return float64(int32(le.Uint32(raw[4*row:]))), true
	}
	return float64(int64(le.Uint64(raw[8*row:]))) / perDay[1], true // date64: milliseconds
}
