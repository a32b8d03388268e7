package arrowio

import (
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// A Fault is a row with a feature that is null, NaN, infinite, or beyond the range of float32 (outputs are float32).
type Fault struct {
	Row     int
	Feature string // the first such feature element
	What    string // "null", "NaN", "+Inf", "-Inf", or the number and what is wrong with it
	// Code is set if the row of a text message cannot be read, or has a value of the wrong type: it is no row to impute or
	// to skip. All its features are null then, or one of them is.
	Code wire.Code
}

// Faults returns the rows that cannot be projected as they are, ascending, one fault per row. They are computed once.
func (b *Batch) Faults() []Fault {
	b.once.Do(func() { b.faults = b.withRejected(b.findFaults()) })
	return b.faults
}

// FaultsIn is Faults, faster, if the caller knows that only these rows of the batch, ascending, can have faults.
func (b *Batch) FaultsIn(rows []int) []Fault {
	if len(rows) == b.data.Rows {
		return b.Faults()
	}
	b.once.Do(func() { b.faults = b.withRejected(b.faultsOf(rows)) })
	return b.faults
}

// faultsOf returns the faults of these rows.
func (b *Batch) faultsOf(rows []int) (faults []Fault) {
	names := map[int]string{} // of elements, since many rows may have the same
	for _, row := range rows {
		if element, bad := b.firstBad(row); bad {
			faults = append(faults, b.faultAt(row, element, names))
		}
	}
	return slices.Clip(faults)
}

// withRejected adds the rejected rows to faults. They replace other faults of their rows.
func (b *Batch) withRejected(faults []Fault) []Fault {
	if len(b.rejected) == 0 {
		return faults
	}
	return onePerRow(append(slices.Clip(b.rejected), faults...))
}

// onePerRow sorts faults by their rows, and leaves the first of each.
func onePerRow(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Row - b.Row })
	return slices.CompactFunc(faults, func(a, b Fault) bool { return a.Row == b.Row })
}

// firstBad returns the first element of a row that is not a float32 number.
func (b *Batch) firstBad(row int) (element int, bad bool) {
	for i := range b.blocks {
		k := &b.blocks[i]
		for col := range k.Cols {
			if !FitsFloat32(k.At(row, col)) {
				return element + col, true
			}
		}
		element += k.Cols
	}
	return 0, false
}

func (b *Batch) findFaults() []Fault {
	for _, c := range b.columns {
		if c.size < 0 { // the length of the list is unknown, so all lists are null
			faults := make([]Fault, b.data.Rows)
			for row := range faults {
				faults[row] = Fault{Row: row, Feature: b.data.Layout.Fields[c.field].Name, What: "null"}
			}
			return faults
		}
	}
	var suspect []bool // by row; nil: none
	for i := range b.blocks {
		suspect = b.blocks[i].mark(suspect, b.data.Rows)
	}
	var rows []int
	for row, is := range suspect {
		if is {
			rows = append(rows, row)
		}
	}
	return b.faultsOf(rows)
}

// mark sets the rows with a bad element.
func (k *Block) mark(suspect []bool, rows int) []bool {
	isList := k.RowStride == k.Cols && k.ColStride == 1
	if rows == 0 || k.Cols == 0 || isList && k.clean(0, rows*k.Cols) {
		return suspect
	}
	if suspect == nil {
		suspect = make([]bool, rows)
	}
	if isList {
		for row := range suspect {
			suspect[row] = suspect[row] || !k.clean(row*k.Cols, k.Cols)
		}
		return suspect
	}
	for col := range k.Cols {
		if k.clean(col*k.ColStride, rows) {
			continue
		}
		for row := range suspect {
			suspect[row] = suspect[row] || !FitsFloat32(k.At(row, col))
		}
	}
	return suspect
}

// At returns element (row, col) of the block.
func (k *Block) At(row, col int) float64 {
	at := row*k.RowStride + col*k.ColStride
	switch {
	case k.F32 != nil:
		return float64(k.F32[at])
	case k.F64 != nil:
		return k.F64[at]
	}
	return float64(k.Format.At(k.Raw, at))
}

// FitsFloat32 reports whether v is finite as a float32.
func FitsFloat32(v float64) bool { return math.Abs(v) < 1<<128 }

// clean reports whether n consecutive values all fit float32. A float32 is not finite exactly if all bits of its
// exponent are set; adding one to the exponent then carries into the sign bit, so the scan needs one and, one add and
// one or per value. A float64 does not fit from exponent 128 on; the added constant makes that carry in the same way.
func (k *Block) clean(from, n int) bool {
	var acc uint64
	if k.Raw != nil {
		return k.Format.IsFinite(k.Raw[from*k.Format.Size():], n)
	}
	if k.F32 == nil {
		bits := ipc.View[uint64](ipc.AsBytes(k.F64[from:from+n], 8), n)
		for _, v := range bits {
			acc |= v&^(1<<63) + (2048-(1023+128))<<52
		}
		return acc>>63 == 0
	}
	pairs := ipc.View[uint64](ipc.AsBytes(k.F32[from:from+n], 4), n/2)
	const mask, one = 0x7fffffff_7fffffff, 0x00800000_00800000 // two float32 without signs, and one in each exponent
	var a, b uint64
	for len(pairs) >= 4 {
		a |= pairs[0]&mask + one
		b |= pairs[1]&mask + one
		a |= pairs[2]&mask + one
		b |= pairs[3]&mask + one
		pairs = pairs[4:]
	}
	acc = a | b
	for _, v := range pairs {
		acc |= v&mask + one
	}
	if n%2 == 1 {
		acc |= uint64(math.Float32bits(k.F32[from+n-1]))&(1<<31-1) + 1<<23
	}
	return acc&0x80000000_80000000 == 0
}

// faultAt returns the fault of a feature element of a row.
func (b *Batch) faultAt(row, element int, names map[int]string) Fault {
	f := Fault{Row: row, Feature: names[element]}
	var c column
	j := element
	for _, c = range b.columns {
		if j < c.size {
			break
		}
		j -= c.size
	}
	list := c.value != c.field
	if f.Feature == "" {
		if f.Feature = b.data.Layout.Fields[c.field].Name; list {
			f.Feature = elementName(f.Feature, j)
		} else if c.encoder != nil {
			f.Feature = c.encoder.column.elements()[j]
		}
		names[element] = f.Feature
	}
	if b.data.IsNull(c.field, row) || list && b.data.IsNull(c.value, b.elementRow(&c, row)+j) {
		f.What = "null"
		return f
	}
	for _, k := range b.blocks {
		if element < k.Cols {
			v := k.At(row, element)
			if f.What = fmt.Sprint(v); v-v == 0 {
				f.What += ", beyond float32"
			}
			break
		}
		element -= k.Cols
	}
	return f
}

// elementRow returns the index in the child where the list of a row begins.
func (b *Batch) elementRow(c *column, row int) int {
	f := &b.data.Layout.Fields[c.field]
	if f.Kind == ipc.KindList || f.Kind == ipc.KindListView {
		return int(ipc.Offset(b.data.Buffer(c.field, 1), f.Width, row))
	}
	return row * c.size
}
