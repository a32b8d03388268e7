package arrowio

import (
	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// Type numbers of the Arrow format (format/Schema.fbs).
const (
	typeNull = iota + 1
	typeInt
	typeFloat
	typeBinary
	typeUtf8
	typeBool
	typeDecimal
	typeDate
	typeTime
	typeTimestamp
	typeInterval
	typeList
	typeStruct
	typeUnion
	typeFixedBinary
	typeFixedList
	typeMap
	typeDuration
	typeLargeBinary
	typeLargeUtf8
	typeLargeList
	typeRunEnd
	typeBinaryView
	typeUtf8View
	typeListView
	typeLargeListView
)

// typeName is what users call a type, for errors.
func typeName(typ int) string {
	names := [...]string{"no type", "null", "integer", "floating point", "binary", "string", "boolean", "decimal",
		"date", "time", "timestamp", "interval",
		"list", "struct", "union", "fixed-size binary", "fixed-size list", "map", "duration", "large binary",
		"large string", "large list",
		"run-end encoded", "binary view", "string view", "list view", "large list view"}
	if typ < 0 || typ >= len(names) {
		return "unknown type"
	}
	return names[typ]
}

// A kind is the physical layout of a column: which buffers it has and what they mean (Arrow Columnar Format,
// "Physical Memory Layout").
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindFixed    // width bytes a value
	kindBinary   // offsets of width bytes, data
	kindView     // 16-byte views, any number of data buffers
	kindList     // offsets of width bytes, one child
	kindListView // offsets and sizes of width bytes, one child
	kindFixedList
	kindStruct
	kindSparse
	kindDense
	kindRunEnd
)

// ownBuffers is the number of buffers of each kind, the data buffers of views not counted.
var ownBuffers = [...]int{kindNull: 0, kindBool: 2, kindFixed: 2, kindBinary: 3, kindView: 2, kindList: 2,
	kindListView: 3, kindFixedList: 1,
	kindStruct: 1, kindSparse: 1, kindDense: 2, kindRunEnd: 0}

// A number says how the values of a fixed-width column read as numbers.
type number uint8

const (
	notNumber number = iota
	int8s
	int16s
	int32s
	int64s
	uint8s
	uint16s
	uint32s
	uint64s
	float16s
	float32s
	float64s
	decimals // two's complement of the field's width, times ten to the minus scale
	bools    // false is 0 and true is 1
)

func integerType(f *field, t flat.Table) *Error {
	bits, err := t.Integer(0, 4, 0, "an integer's width")
	if err != nil {
		return broken(err)
	}
	signed, err := t.Integer(1, 1, 0, "an integer's sign")
	if err != nil {
		return broken(err)
	}
	of := map[int64][2]number{8: {uint8s, int8s}, 16: {uint16s, int16s}, 32: {uint32s, int32s}, 64: {uint64s, int64s}}
	pair, ok := of[bits]
	if !ok {
		return fault(wire.Malformed, "an integer of %d bits", bits).hint("use 8, 16, 32 or 64")
	}
	f.kind, f.width, f.number = kindFixed, int(bits/8), pair[0]
	if signed != 0 {
		f.number = pair[1]
	}
	return nil
}

// unit reads the 16-bit enumeration of slot i and looks its width up.
func unit(t flat.Table, i int, missing int64, widths ...int) (int, *Error) {
	v, err := t.Integer(i, 2, missing, "a type's unit")
	if err != nil {
		return 0, broken(err)
	}
	if v < 0 || int(v) >= len(widths) {
		return 0, fault(wire.Malformed, "a type with unit or precision %d", v).hint(
			"write with an Arrow library of this format version")
	}
	return widths[v], nil
}

// typed reads the type table of a field into its layout.
func (w *schemaWalk) typed(f *field, t flat.Table) *Error {
	typ, err := t.Integer(2, 1, 0, "a field's type")
	if err != nil {
		return broken(err)
	}
	tt, ok, err := t.Table(3, "a field's type")
	if err != nil {
		return broken(err)
	}
	if !ok {
		return fault(wire.Malformed, "a field without type").hint("write with an Arrow library")
	}
	f.typ = int(typ)
	var e *Error
	switch f.typ {
	case typeNull:
		f.kind = kindNull
	case typeBool:
		f.kind, f.number = kindBool, bools
	case typeInt:
		return integerType(f, tt)
	case typeFloat:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 0, 2, 4, 8)
		f.number = map[int]number{2: float16s, 4: float32s, 8: float64s}[f.width]
	case typeDecimal:
		f.kind, f.number = kindFixed, decimals
		f.width, f.scale, e = decimalWidth(tt)
	case typeDate:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 1, 4, 8)
	case typeTime:
		f.kind = kindFixed
		if f.width, e = unit(tt, 0, 1, 4, 4, 8, 8); e != nil {
			break
		}
		v, err := tt.Integer(1, 4, 32, "a time's width")
		if err != nil {
			return broken(err)
		}
		if int(v) != 8*f.width {
			return fault(wire.Malformed, "a time of %d bits, and its unit has %d", v, 8*f.width).hint(
				"use 32 bits for seconds and milliseconds, 64 for finer")
		}
	case typeTimestamp:
		f.kind = kindFixed
		if f.width, e = unit(tt, 0, 0, 8, 8, 8, 8); e != nil {
			break
		}
		zone, _, err := tt.Text(1, "a time zone")
		if err != nil {
			return broken(err)
		}
		return w.addText(len(zone))
	case typeDuration:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 1, 8, 8, 8, 8)
	case typeInterval:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 0, 4, 8, 16)
	case typeFixedBinary:
		f.kind = kindFixed
		v, err := tt.Integer(0, 4, 0, "a width")
		if err != nil {
			return broken(err)
		}
		if v < 0 {
			return fault(wire.Malformed, "fixed-size binary of %d bytes", v).hint("use a width of 0 or more")
		}
		f.width = int(v)
	case typeBinary, typeUtf8:
		f.kind, f.width = kindBinary, 4
	case typeLargeBinary, typeLargeUtf8:
		f.kind, f.width = kindBinary, 8
	case typeBinaryView, typeUtf8View:
		f.kind, f.width = kindView, 16
	case typeList, typeMap:
		f.kind, f.width = kindList, 4
	case typeLargeList:
		f.kind, f.width = kindList, 8
	case typeListView:
		f.kind, f.width = kindListView, 4
	case typeLargeListView:
		f.kind, f.width = kindListView, 8
	case typeFixedList:
		f.kind = kindFixedList
		v, err := tt.Integer(0, 4, 0, "a list's size")
		if err != nil {
			return broken(err)
		}
		if v < 0 {
			return fault(wire.Malformed, "a fixed-size list of %d elements", v).hint("use a size of 0 or more")
		}
		f.size = int(v)
	case typeStruct:
		f.kind = kindStruct
	case typeUnion:
		return w.union(f, tt)
	case typeRunEnd:
		f.kind = kindRunEnd
	default:
		return fault(wire.Unsupported, "Arrow type number %d", typ).hint(
			"cast the column to a type of Arrow format 1.4")
	}
	return e
}

// decimalWidth checks a decimal's parameters: who prints a value with a scale of 2^31 runs out of memory.
func decimalWidth(t flat.Table) (width, scale int, e *Error) {
	var v [3]int64
	for i, missing := range [3]int64{0, 0, 128} {
		n, err := t.Integer(i, 4, missing, "a decimal's parameter")
		if err != nil {
			return 0, 0, broken(err)
		}
		v[i] = n
	}
	digits := map[int64]int64{32: 9, 64: 18, 128: 38, 256: 76}[v[2]]
	if v[0] < 1 || v[0] > digits || v[1] < -digits || v[1] > digits {
		return 0, 0, fault(wire.Malformed, "a decimal of %d bits with %d digits and scale %d", v[2], v[0], v[1]).hint(
			"use at most 38 digits in 128 bits, 76 in 256, and a scale in that range")
	}
	return int(v[2] / 8), int(v[1]), nil
}

func (w *schemaWalk) union(f *field, t flat.Table) *Error {
	if w.s.version == versionV4 {
		return fault(wire.Unsupported, "a union in metadata version 4, which lays it out in another way").hint(
			"write metadata version 5")
	}
	mode, err := t.Integer(0, 2, 0, "a union's mode")
	if err != nil {
		return broken(err)
	}
	if mode != 0 && mode != 1 {
		return fault(wire.Malformed, "a union of mode %d", mode).hint("use sparse or dense")
	}
	f.kind = kindSparse
	if mode == 1 {
		f.kind = kindDense
	}
	ids, err := t.Vector(1, 4, "a union's type ids")
	if err != nil {
		return broken(err)
	}
	if ids.Len > 128 {
		return fault(wire.Malformed, "a union with %d type ids", ids.Len).hint("use at most 128")
	}
	var seen [128]bool
	for i := 0; i < ids.Len; i++ {
		id := int32(le.Uint32(ids.Buf[ids.Pos+4*i:]))
		if id < 0 || id > 127 || seen[id] {
			return fault(wire.Malformed, "a union with type id %d, negative, over 127 or twice", id).hint(
				"use each of 0 to 127 at most once")
		}
		seen[id] = true
		f.ids = append(f.ids, byte(id))
	}
	return nil
}
