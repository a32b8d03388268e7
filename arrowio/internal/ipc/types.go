package ipc

import (
	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// Type numbers of the Arrow format (format/Schema.fbs).
const (
	TypeNull = iota + 1
	TypeInt
	TypeFloat
	TypeBinary
	TypeUtf8
	TypeBool
	TypeDecimal
	TypeDate
	TypeTime
	TypeTimestamp
	TypeInterval
	TypeList
	TypeStruct
	TypeUnion
	TypeFixedBinary
	TypeFixedList
	TypeMap
	TypeDuration
	TypeLargeBinary
	TypeLargeUtf8
	TypeLargeList
	TypeRunEnd
	TypeBinaryView
	TypeUtf8View
	TypeListView
	TypeLargeListView
)

// typeName returns the name of a type in error messages.
func typeName(typ int) string {
	names := [...]string{"no type", "null", "integer", "floating point", "binary", "string", "boolean", "decimal",
		"date", "time", "timestamp", "interval", "list", "struct", "union", "fixed-size binary", "fixed-size list",
		"map", "duration", "large binary", "large string", "large list", "run-end encoded", "binary view",
		"string view", "list view", "large list view"}
	if typ < 0 || typ >= len(names) {
		return "unknown type"
	}
	return names[typ]
}

// A Kind is the physical layout of a column: which buffers it has and what they mean (Arrow Columnar Format, "Physical
// Memory Layout").
type Kind uint8

const (
	KindNull Kind = iota
	KindBool
	KindFixed    // width bytes per value
	KindBinary   // offsets of width bytes, data
	KindView     // 16-byte views, any number of data buffers
	KindList     // offsets of width bytes, one child
	KindListView // offsets and sizes of width bytes, one child
	KindFixedList
	KindStruct
	KindSparse
	KindDense
	KindRunEnd
)

// ownBuffers is the number of buffers of each kind, without data buffers of views.
var ownBuffers = [...]int{KindNull: 0, KindBool: 2, KindFixed: 2, KindBinary: 3, KindView: 2, KindList: 2,
	KindListView: 3, KindFixedList: 1,
	KindStruct: 1, KindSparse: 1, KindDense: 2, KindRunEnd: 0}

// A Number is the type of the numbers in a fixed-width column.
type Number uint8

const (
	NotNumber Number = iota
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float16
	Float32
	Float64
	Decimal // two's complement of the field's width, times 10^-scale
	Bool    // false is 0 and true is 1
)

func integerType(f *Field, t flat.Table) {
	bits := t.Integer(0, 4, 0, "an integer's width")
	signed := t.Integer(1, 1, 0, "an integer's sign")
	of := map[int64][2]Number{8: {Uint8, Int8}, 16: {Uint16, Int16}, 32: {Uint32, Int32}, 64: {Uint64, Int64}}
	pair, ok := of[bits]
	if !ok {
		panic(wire.Errorf(wire.Malformed, "an integer of %d bits", bits).WithHint("use 8, 16, 32 or 64"))
	}
	f.Kind, f.Width, f.Number = KindFixed, int(bits/8), pair[0]
	if signed != 0 {
		f.Number = pair[1]
	}
}

// layouts are the kind and width of the types that have no parameters.
var layouts = map[int]struct {
	kind  Kind
	width int
}{
	TypeNull: {KindNull, 0}, TypeBool: {KindBool, 0}, TypeStruct: {KindStruct, 0}, TypeRunEnd: {KindRunEnd, 0},
	TypeBinary: {KindBinary, 4}, TypeUtf8: {KindBinary, 4}, TypeLargeBinary: {KindBinary, 8},
	TypeLargeUtf8: {KindBinary, 8}, TypeBinaryView: {KindView, 16}, TypeUtf8View: {KindView, 16},
	TypeList: {KindList, 4}, TypeMap: {KindList, 4}, TypeLargeList: {KindList, 8}, TypeListView: {KindListView, 4},
	TypeLargeListView: {KindListView, 8},
}

// units are the widths of the types with a unit or precision, by its number, and the number that means if it is absent.
var units = map[int]struct {
	missing int64
	widths  []int
}{
	TypeFloat: {0, []int{2, 4, 8}}, TypeDate: {1, []int{4, 8}}, TypeTime: {1, []int{4, 4, 8, 8}},
	TypeTimestamp: {0, []int{8, 8, 8, 8}}, TypeDuration: {1, []int{8, 8, 8, 8}}, TypeInterval: {0, []int{4, 8, 16}},
}

// typed reads the type table of a field.
func (w *schemaWalk) typed(f *Field, t flat.Table) {
	f.Type = int(t.Integer(2, 1, 0, "a field's type"))
	tt, ok := t.Table(3, "a field's type")
	if !ok {
		panic(wire.Errorf(wire.Malformed, "a field without type").WithHint("write with an Arrow library"))
	}
	if w.s.version == versionV4 && (f.Type == TypeUnion || f.Type == TypeRunEnd) {
		panic(wire.Errorf(wire.Unsupported, "a %s column in metadata version 4, which lays it out in another way",
			typeName(f.Type)).WithHint("write metadata version 5"))
	}
	if l, ok := layouts[f.Type]; ok {
		f.Kind, f.Width = l.kind, l.width
	} else if u, ok := units[f.Type]; ok {
		v := tt.Integer(0, 2, u.missing, "a type's unit")
		if v < 0 || int(v) >= len(u.widths) {
			panic(wire.Errorf(wire.Malformed, "a type with unit or precision %d", v).WithHint(
				"write with an Arrow library of this format version"))
		}
		f.Kind, f.Width, f.Unit = KindFixed, u.widths[v], uint8(v)
	}
	switch f.Type {
	case TypeBool:
		f.Number = Bool
	case TypeInt:
		integerType(f, tt)
	case TypeFloat:
		f.Number = map[int]Number{2: Float16, 4: Float32, 8: Float64}[f.Width]
	case TypeDecimal:
		f.Kind, f.Number = KindFixed, Decimal
		f.Width, f.Digits, f.Scale = decimalWidth(tt)
	case TypeTime:
		if v := tt.Integer(1, 4, 32, "a time's width"); int(v) != 8*f.Width {
			panic(wire.Errorf(wire.Malformed, "a time of %d bits, and its unit has %d", v, 8*f.Width).WithHint(
				"use 32 bits for seconds and milliseconds, 64 for finer"))
		}
	case TypeTimestamp:
		zone, _ := tt.Text(1, "a time zone")
		w.addText(len(zone))
	case TypeFixedBinary:
		f.Kind = KindFixed
		if f.Width = int(tt.Integer(0, 4, 0, "a width")); f.Width < 0 {
			panic(wire.Errorf(wire.Malformed, "fixed-size binary of %d bytes", f.Width).WithHint("use a width of 0 or more"))
		}
	case TypeFixedList:
		f.Kind = KindFixedList
		if f.Size = int(tt.Integer(0, 4, 0, "a list's size")); f.Size < 0 {
			panic(wire.Errorf(wire.Malformed, "a fixed-size list of %d elements", f.Size).WithHint("use a size of 0 or more"))
		}
	case TypeUnion:
		w.union(f, tt)
	default:
		if _, plain := layouts[f.Type]; !plain && units[f.Type].widths == nil {
			panic(wire.Errorf(wire.Unsupported, "Arrow type number %d", f.Type).WithHint(
				"cast the column to a type of Arrow format 1.4"))
		}
	}
}

// decimalWidth checks the parameters of a decimal. Printing a value with a scale of 2^31 would exhaust the memory.
func decimalWidth(t flat.Table) (width int, precision uint8, scale int) {
	var v [3]int64
	for i, missing := range [3]int64{0, 0, 128} {
		v[i] = t.Integer(i, 4, missing, "a decimal's parameter")
	}
	digits := map[int64]int64{32: 9, 64: 18, 128: 38, 256: 76}[v[2]]
	if v[0] < 1 || v[0] > digits || v[1] < -digits || v[1] > digits {
		panic(wire.Errorf(wire.Malformed, "a decimal of %d bits with %d digits and scale %d", v[2], v[0], v[1]).
			WithHint("use at most 38 digits in 128 bits, 76 in 256, and a scale in that range"))
	}
	return int(v[2] / 8), uint8(v[0]), int(v[1])
}

func (w *schemaWalk) union(f *Field, t flat.Table) {
	mode := t.Integer(0, 2, 0, "a union's mode")
	if mode != 0 && mode != 1 {
		panic(wire.Errorf(wire.Malformed, "a union of mode %d", mode).WithHint("use sparse or dense"))
	}
	f.Kind = KindSparse
	if mode == 1 {
		f.Kind = KindDense
	}
	ids := t.Vector(1, 4, "a union's type ids")
	if ids.Len > 128 {
		panic(wire.Errorf(wire.Malformed, "a union with %d type ids", ids.Len).WithHint("use at most 128"))
	}
	var seen [128]bool
	for i := 0; i < ids.Len; i++ {
		id := int32(le.Uint32(ids.Buf[ids.Pos+4*i:]))
		if id < 0 || id > 127 || seen[id] {
			panic(wire.Errorf(wire.Malformed, "a union with type id %d, negative, over 127 or twice", id).WithHint(
				"use each of 0 to 127 at most once"))
		}
		seen[id] = true
		f.IDs = append(f.IDs, byte(id))
	}
}

// Class returns the class of a number type: float, integer, decimal, boolean, or "".
func (n Number) Class() string {
	switch n {
	case NotNumber:
		return ""
	case Float16, Float32, Float64:
		return "float"
	case Decimal:
		return "decimal"
	case Bool:
		return "boolean"
	}
	return "integer"
}
