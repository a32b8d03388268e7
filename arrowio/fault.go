package arrowio

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A Fault is a row whose features hold a null, a NaN, an infinity or a float64 beyond the range of float32, in which
// outputs are written.
type Fault struct {
	Row     int
	Feature string // the first such element
	What    string // "null", "NaN", "+Inf", "-Inf", or the number and why
}

// Faults returns the rows that no method can use as they are, ascending, one fault a row. They are computed once.
func (b *Batch) Faults() []Fault {
	b.once.Do(func() { b.faults = b.findFaults() })
	return b.faults
}

// FaultsIn is Faults for one who knows that no other rows than these, ascending, have any: it looks at no other.
func (b *Batch) FaultsIn(rows []int) []Fault {
	b.once.Do(func() {
		switch len(rows) {
		case 0:
			return
		case b.data.Rows:
			b.faults = b.findFaults()
			return
		}
		names := map[int]string{}
		for _, row := range rows {
			if element, bad := b.firstBad(row); bad {
				b.faults = append(b.faults, b.faultAt(row, element, names))
			}
		}
	})
	return b.faults
}

// firstBad returns the first element of a row that no method can use.
func (b *Batch) firstBad(row int) (element int, bad bool) {
	for i := range b.blocks {
		k := &b.blocks[i]
		for col := range k.Cols {
			if !Held(k.At(row, col)) {
				return element + col, true
			}
		}
		element += k.Cols
	}
	return 0, false
}

func (b *Batch) findFaults() []Fault {
	for _, c := range b.columns {
		if c.size < 0 { // no row has said how long the list is: all are null
			faults := make([]Fault, b.data.Rows)
			for row := range faults {
				faults[row] = Fault{Row: row, Feature: b.data.Layout.Fields[c.field].Name, What: "null"}
			}
			return faults
		}
	}
	first := map[int]int{} // row to its first bad element
	base := 0
	for i := range b.blocks {
		k := &b.blocks[i]
		for _, at := range k.unclean(b.data.Rows) {
			row, col := at.row, base+at.col
			if have, ok := first[row]; !ok || col < have {
				first[row] = col
			}
		}
		base += k.Cols
	}
	if len(first) == 0 {
		return nil
	}
	faults := make([]Fault, 0, len(first))
	names := map[int]string{} // of elements: many rows may have the same
	for row, element := range first {
		faults = append(faults, b.faultAt(row, element, names))
	}
	sort.Slice(faults, func(i, j int) bool { return faults[i].Row < faults[j].Row })
	return slices.Clip(faults)
}

type cell struct{ row, col int }

// unclean returns the first bad element of each row that has one.
func (k *Block) unclean(rows int) (bad []cell) {
	if rows == 0 || k.Cols == 0 {
		return nil
	}
	if k.RowStride == k.Cols && k.ColStride == 1 {
		if k.clean(0, rows*k.Cols) {
			return nil
		}
		for row := 0; row < rows; row++ {
			if k.clean(row*k.Cols, k.Cols) {
				continue
			}
			for col := 0; col < k.Cols; col++ {
				if !Held(k.At(row, col)) {
					bad = append(bad, cell{row, col})
					break
				}
			}
		}
		return bad
	}
	var seen []bool
	for col := 0; col < k.Cols; col++ {
		if k.clean(col*k.ColStride, rows) {
			continue
		}
		if seen == nil {
			seen = make([]bool, rows)
		}
		for row := 0; row < rows; row++ {
			if !seen[row] && !Held(k.At(row, col)) {
				seen[row] = true
				bad = append(bad, cell{row, col})
			}
		}
	}
	return bad
}

// At returns element (row, col) of the block.
func (k *Block) At(row, col int) float64 {
	at := row*k.RowStride + col*k.ColStride
	if k.F32 != nil {
		return float64(k.F32[at])
	}
	return k.F64[at]
}

// Held tells whether a feature is a number in the range of float32.
func Held(v float64) bool { return math.Abs(v) < 1<<128 }

// clean reports whether n values that stand one after the other are all held. A float32 is not finite exactly when
// its exponent is all ones; adding one to the exponent then carries into the sign's place, so that the whole scan is
// an and, an add and an or. A float64 is not held from the exponent of 2^128 on, and what is added makes that one carry.
func (k *Block) clean(from, n int) bool {
	var acc uint64
	if k.F32 == nil {
		bits := ipc.View[uint64](ipc.AsBytes(k.F64[from:from+n], 8), n)
		for _, v := range bits {
			acc |= v&^(1<<63) + (2048-(1023+128))<<52
		}
		return acc>>63 == 0
	}
	pairs := ipc.View[uint64](ipc.AsBytes(k.F32[from:from+n], 4), n/2)
	const mask, one = 0x7fffffff_7fffffff, 0x00800000_00800000
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

// faultAt describes feature element of row.
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

// elementRow returns where the list of a row begins in its child.
func (b *Batch) elementRow(c *column, row int) int {
	f := &b.data.Layout.Fields[c.field]
	if f.Kind == ipc.KindList || f.Kind == ipc.KindListView {
		return int(ipc.Offset(b.data.Buffer(c.field, 1), f.Width, row))
	}
	return row * c.size
}
