package arrowio

import (
	"fmt"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
)

// parsed returns the only column of a schema, or the text of the error.
func parsed(t *testing.T, typ byte, table flatType, children int) (f ipc.Field, refused string) {
	msg := schemaOf(func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		var kids flatbuffers.UOffsetT
		if children > 0 {
			list := make([]flatbuffers.UOffsetT, children)
			for k := range list {
				list[k] = integerField(32)(b)
			}
			kids = rewrite.References(b, list)
		}
		return []flatbuffers.UOffsetT{rewrite.FieldTable(b, b.CreateString("c"), true, typ, table(b), 0, kids, 0)}
	})
	defer func() {
		if e, ok := recover().(*Error); ok {
			refused = e.Error()
		}
	}()
	return ipc.ParseSchema(&frames(t, msg)[0], DefaultLimits().forIPC()).Layout.Fields[0], ""
}

// integer is the type table of an integer.
func integer(bits int32, signed bool) flatType {
	return func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		b.StartObject(2)
		b.PrependInt32Slot(0, bits, 0)
		b.PrependBoolSlot(1, signed, false)
		return b.EndObject()
	}
}

// TestTypesOfASchema: each type of the format has its layout, and its parameters are valid from the first to the last
// number that the format has for them.
func TestTypesOfASchema(t *testing.T) {
	short := func(v ...int16) flatType {
		parameters := make([]any, len(v))
		for k := range v {
			parameters[k] = v[k]
		}
		return table(parameters...)
	}
	for _, c := range []struct {
		typ      byte
		table    flatType
		children int
		want     string // kind, width, number and unit, or a part of the error
	}{
		{0, emptyType, 0, "Arrow type number 0"}, {27, emptyType, 0, "Arrow type number 27"},
		{ipc.TypeNull, emptyType, 0, "0 0 0 0"}, {ipc.TypeNull, emptyType, 1, "a null field with 1 children, not 0"},
		{ipc.TypeInt, integer(8, true), 0, "2 1 1 0"}, {ipc.TypeInt, integer(16, true), 0, "2 2 2 0"},
		{ipc.TypeInt, integer(32, true), 0, "2 4 3 0"}, {ipc.TypeInt, integer(64, true), 0, "2 8 4 0"},
		{ipc.TypeInt, integer(8, false), 0, "2 1 5 0"}, {ipc.TypeInt, integer(16, false), 0, "2 2 6 0"},
		{ipc.TypeInt, integer(32, false), 0, "2 4 7 0"}, {ipc.TypeInt, integer(64, false), 0, "2 8 8 0"},
		{ipc.TypeInt, integer(0, true), 0, "an integer of 0 bits"},
		{ipc.TypeInt, integer(7, true), 0, "an integer of 7 bits"},
		{ipc.TypeInt, integer(128, true), 0, "an integer of 128 bits"},
		{ipc.TypeFloat, short(0), 0, "2 2 9 0"}, {ipc.TypeFloat, short(1), 0, "2 4 10 1"},
		{ipc.TypeFloat, short(2), 0, "2 8 11 2"}, {ipc.TypeFloat, emptyType, 0, "2 2 9 0"},
		{ipc.TypeFloat, short(3), 0, "unit or precision 3"}, {ipc.TypeFloat, short(-1), 0, "unit or precision -1"},
		{ipc.TypeBinary, emptyType, 0, "3 4 0 0"}, {ipc.TypeUtf8, emptyType, 0, "3 4 0 0"},
		{ipc.TypeBool, emptyType, 0, "1 0 13 0"},
		{ipc.TypeDecimal, table(int32(9), int32(2), int32(32)), 0, "2 4 12 0"},
		{ipc.TypeDecimal, table(int32(9), int32(2), int32(64)), 0, "2 8 12 0"},
		{ipc.TypeDecimal, table(int32(9), int32(2)), 0, "2 16 12 0"},
		{ipc.TypeDecimal, table(int32(76), int32(-76), int32(256)), 0, "2 32 12 0"},
		{ipc.TypeDecimal, table(int32(10), int32(0), int32(32)), 0, "a decimal of 32 bits with 10 digits and scale 0"},
		{ipc.TypeDecimal, table(int32(19), int32(0), int32(64)), 0, "a decimal of 64 bits with 19 digits"},
		{ipc.TypeDecimal, table(int32(77), int32(0), int32(256)), 0, "a decimal of 256 bits with 77 digits"},
		{ipc.TypeDecimal, table(int32(1), int32(0), int32(16)), 0, "a decimal of 16 bits with 1 digits"},
		{ipc.TypeDecimal, emptyType, 0, "a decimal of 128 bits with 0 digits"},
		{ipc.TypeDate, short(0), 0, "2 4 0 0"}, {ipc.TypeDate, short(1), 0, "2 8 0 1"},
		{ipc.TypeDate, emptyType, 0, "2 8 0 1"},
		{ipc.TypeDate, short(2), 0, "unit or precision 2"},
		{ipc.TypeTime, table(int16(0), int32(32)), 0, "2 4 0 0"}, {ipc.TypeTime, table(int16(1), int32(32)), 0, "2 4 0 1"},
		{ipc.TypeTime, table(int16(2), int32(64)), 0, "2 8 0 2"}, {ipc.TypeTime, table(int16(3), int32(64)), 0, "2 8 0 3"},
		{ipc.TypeTime, emptyType, 0, "2 4 0 1"},
		{ipc.TypeTime, table(int16(4), int32(64)), 0, "unit or precision 4"},
		{ipc.TypeTime, table(int16(1), int32(64)), 0, "a time of 64 bits, and its unit has 32"},
		{ipc.TypeTime, table(int16(2), int32(32)), 0, "a time of 32 bits, and its unit has 64"},
		{ipc.TypeTimestamp, short(0), 0, "2 8 0 0"}, {ipc.TypeTimestamp, short(1), 0, "2 8 0 1"},
		{ipc.TypeTimestamp, short(2), 0, "2 8 0 2"}, {ipc.TypeTimestamp, short(3), 0, "2 8 0 3"},
		{ipc.TypeTimestamp, emptyType, 0, "2 8 0 0"}, {ipc.TypeTimestamp, short(4), 0, "unit or precision 4"},
		{ipc.TypeInterval, short(0), 0, "2 4 0 0"}, {ipc.TypeInterval, short(1), 0, "2 8 0 1"},
		{ipc.TypeInterval, short(2), 0, "2 16 0 2"}, {ipc.TypeInterval, emptyType, 0, "2 4 0 0"},
		{ipc.TypeInterval, short(3), 0, "unit or precision 3"},
		{ipc.TypeDuration, short(0), 0, "2 8 0 0"}, {ipc.TypeDuration, short(1), 0, "2 8 0 1"},
		{ipc.TypeDuration, short(2), 0, "2 8 0 2"}, {ipc.TypeDuration, short(3), 0, "2 8 0 3"},
		{ipc.TypeDuration, emptyType, 0, "2 8 0 1"}, {ipc.TypeDuration, short(4), 0, "unit or precision 4"},
		{ipc.TypeList, emptyType, 1, "5 4 0 0"}, {ipc.TypeList, emptyType, 2, "a list field with 2 children, not 1"},
		{ipc.TypeLargeList, emptyType, 1, "5 8 0 0"}, {ipc.TypeListView, emptyType, 1, "6 4 0 0"},
		{ipc.TypeLargeListView, emptyType, 1, "6 8 0 0"}, {ipc.TypeStruct, emptyType, 0, "8 0 0 0"},
		{ipc.TypeStruct, emptyType, 3, "8 0 0 0"}, {ipc.TypeRunEnd, emptyType, 2, "11 0 0 0"},
		{ipc.TypeRunEnd, emptyType, 1, "a run-end encoded field with 1 children, not 2"},
		{ipc.TypeMap, emptyType, 1, "a map whose entries are not a struct of key and value"},
		{ipc.TypeUnion, short(0), 2, "9 0 0 0"}, {ipc.TypeUnion, short(1), 2, "10 0 0 0"},
		{ipc.TypeUnion, emptyType, 2, "9 0 0 0"},
		{ipc.TypeUnion, short(2), 2, "a union of mode 2"}, {ipc.TypeUnion, short(-1), 2, "a union of mode -1"},
		{ipc.TypeFixedBinary, table(int32(0)), 0, "2 0 0 0"}, {ipc.TypeFixedBinary, table(int32(5)), 0, "2 5 0 0"},
		{ipc.TypeFixedBinary, table(int32(-1)), 0, "fixed-size binary of -1 bytes"},
		{ipc.TypeFixedList, table(int32(0)), 1, "7 0 0 0"}, {ipc.TypeFixedList, table(int32(3)), 1, "7 0 0 0"},
		{ipc.TypeFixedList, table(int32(-1)), 1, "a fixed-size list of -1 elements"},
		{ipc.TypeLargeBinary, emptyType, 0, "3 8 0 0"}, {ipc.TypeLargeUtf8, emptyType, 0, "3 8 0 0"},
		{ipc.TypeBinaryView, emptyType, 0, "4 16 0 0"}, {ipc.TypeUtf8View, emptyType, 0, "4 16 0 0"},
	} {
		f, got := parsed(t, c.typ, c.table, c.children)
		if got == "" {
			got = fmt.Sprint(int(f.Kind), f.Width, int(f.Number), f.Unit)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("type %d: %s, want %s", c.typ, got, c.want)
		}
	}
	if f, _ := parsed(t, ipc.TypeDecimal, table(int32(7), int32(-3), int32(64)), 0); f.Digits != 7 || f.Scale != -3 {
		t.Errorf("a decimal of 7 digits with scale -3 has %d with %d", f.Digits, f.Scale)
	}
	if f, _ := parsed(t, ipc.TypeFixedList, table(int32(3)), 1); f.Size != 3 || f.End != 2 {
		t.Errorf("a list of 3 elements has %d, and ends before field %d", f.Size, f.End)
	}
}
