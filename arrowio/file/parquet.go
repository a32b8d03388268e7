package file

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/embedd/embedd/internal/narrow"
)

// parquetReader reads flat columns and lists of flat values, one row group at a time, column by column.
type parquetReader struct {
	name    string
	file    *os.File
	arrow   *arrow.Schema
	columns []*parquetColumn
	groups  []parquet.RowGroup // that are not begun
	chunks  [][]columnChunk    // of their leaves
	total   int64              // rows
	first   int64              // index of the first row of the groups that are not begun
	values  *array.RecordBuilder
	batch   int64 // rows of a batch

	maxLeafBytes, maxStripeBytes, maxBatchBytes int64
	notes                                       []string

	// Of the group that is being read:
	left    int64 // rows
	leaves  []*leafReader
	stripes []*stripe // if there are any, they are read instead of leaves
	batches int       // that were read of the stripes
}

// parquetColumn is a leaf that becomes an Arrow column.
type parquetColumn struct {
	name    string
	leaf    *parquet.Column
	size    int64 // bytes of a value, at least
	add     func(parquet.Value)
	builder array.Builder      // name of the column
	list    *array.ListBuilder // nil for a flat column
	listDef int                // definition level of an empty list; a lower one is a null list
}

func openParquet(file *os.File, path string) (*parquetReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f, chunks, err := openFooter(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &parquetReader{name: path, file: file, maxLeafBytes: defaultLeafBytes,
		maxStripeBytes: maxExpansion * info.Size(), groups: f.RowGroups(), chunks: chunks, total: f.NumRows()}
	p.maxBatchBytes = max(maxDeclared, p.maxStripeBytes)
	float16s := float16Leaves(f)
	var fields []arrow.Field
	var leaves []*parquet.Column
	var lists []bool
	total := 0
	for _, c := range f.Root().Columns() {
		total += len(leavesOf(c))
		leaf, isList, why := columnShape(c)
		var t arrow.DataType
		if why == "" {
			if t, why = parquetType(leaf); float16s[leaf.Index()] {
				t = arrow.PrimitiveTypes.Float32
			}
		}
		if why != "" {
			p.notes = append(p.notes, fmt.Sprintf("column %q of %s is left out: %s", c.Name(), path, why))
			continue
		}
		field := arrow.Field{Name: c.Name(), Type: t, Nullable: c.Optional()}
		if isList {
			field.Type = arrow.ListOfField(arrow.Field{Name: "item", Type: t, Nullable: leaf.Optional()})
		}
		fields, leaves, lists = append(fields, field), append(leaves, leaf), append(lists, isList)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s has no column that can be read: flat columns and lists of numbers or text can", path)
	}
	var notes arrow.Metadata
	if text, found := f.Lookup("pandas"); found {
		notes = arrow.NewMetadata([]string{"pandas"}, []string{text})
	}
	p.arrow = arrow.NewSchema(fields, &notes)
	p.values = array.NewRecordBuilder(memory.DefaultAllocator, p.arrow)
	for i, leaf := range leaves {
		col := &parquetColumn{name: fields[i].Name, leaf: leaf, size: (bitsOfValue(leaf) + 7) / 8,
			builder: p.values.Field(i)}
		target := col.builder
		if lists[i] {
			col.list = col.builder.(*array.ListBuilder)
			target = col.list.ValueBuilder()
			if fields[i].Nullable {
				col.listDef = 1
			}
		}
		col.add = parquetAppender(target)
		p.columns = append(p.columns, col)
	}
	p.batch = int64(batchRows(max(total, valuesOfRow(f))))
	return p, nil
}

// valuesOfRow returns how many values a row has on average, elements of lists included.
func valuesOfRow(f *parquet.File) int {
	values := int64(0)
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			values += max(0, c.MetaData.NumValues)
		}
	}
	return int(min(values/max(f.NumRows(), 1), 1<<20))
}

// float16Leaves returns the leaves with half-precision numbers, because parquet-go drops that annotation.
func float16Leaves(f *parquet.File) map[int]bool {
	found := map[int]bool{}
	leaf := 0
	for _, e := range f.Metadata().Schema {
		if e.NumChildren.V > 0 {
			continue
		}
		if e.LogicalType.Value != nil {
			_, found[leaf] = e.LogicalType.Value.(*format.Float16Type)
		}
		leaf++
	}
	return found
}

// columnShape finds the leaf of a flat column or of a list: a repeated leaf, or an annotated group with a repeated
// child that is the element (two levels) or contains it (three levels). See "Nested Types" in the Parquet format.
func columnShape(c *parquet.Column) (leaf *parquet.Column, list bool, why string) {
	if c.Leaf() {
		return c, c.Repeated(), ""
	}
	if c.Repeated() || !isListGroup(c) || len(c.Columns()) != 1 || !c.Columns()[0].Repeated() {
		return nil, false, "its type is nested; write it as flat columns or a list"
	}
	repeated := c.Columns()[0]
	if repeated.Leaf() {
		return repeated, true, ""
	}
	if len(repeated.Columns()) != 1 || !repeated.Columns()[0].Leaf() || repeated.Columns()[0].Repeated() {
		return nil, false, "the elements of its lists are nested"
	}
	return repeated.Columns()[0], true, ""
}

func isListGroup(c *parquet.Column) bool {
	t := c.Type()
	if l := t.LogicalType(); l != nil {
		_, ok := l.Value.(*format.ListType)
		return ok
	}
	conv := t.ConvertedType()
	return conv != nil && *conv == deprecated.List
}

// parquetType returns the Arrow type of a leaf, or why there is none.
func parquetType(c *parquet.Column) (arrow.DataType, string) {
	t := c.Type()
	if l := t.LogicalType(); l != nil && l.Value != nil {
		switch v := l.Value.(type) {
		case *format.DecimalType:
			return decimalType(t, v.Precision, v.Scale)
		case *format.TimestampType:
			zone := ""
			if v.IsAdjustedToUTC {
				zone = "UTC"
			}
			return &arrow.TimestampType{Unit: arrowUnit(v.Unit.Value), TimeZone: zone}, ""
		case *format.TimeType:
			if t.Kind() == parquet.Int32 {
				return &arrow.Time32Type{Unit: arrow.Millisecond}, ""
			}
			return &arrow.Time64Type{Unit: arrowUnit(v.Unit.Value)}, ""
		case *format.IntType:
			return intType(v.BitWidth, v.IsSigned), ""
		case *format.DateType:
			return arrow.FixedWidthTypes.Date32, ""
		case *format.StringType, *format.EnumType, *format.JsonType, *format.NullType:
			return arrow.BinaryTypes.String, ""
		}
	} else if conv := t.ConvertedType(); conv != nil {
		if a := convertedType(*conv); a != nil {
			return a, ""
		}
	}
	if t.Kind() == parquet.FixedLenByteArray {
		return &arrow.FixedSizeBinaryType{ByteWidth: t.Length()}, ""
	}
	if plain, ok := plainTypes[t.Kind()]; ok {
		return plain, ""
	}
	return nil, "its type " + t.String() + " is not known"
}

// plainTypes are the Arrow types of leaves without a logical type.
var plainTypes = map[parquet.Kind]arrow.DataType{
	parquet.Boolean: arrow.FixedWidthTypes.Boolean, parquet.Int32: arrow.PrimitiveTypes.Int32,
	parquet.Int64: arrow.PrimitiveTypes.Int64, parquet.Int96: &arrow.TimestampType{Unit: arrow.Nanosecond},
	parquet.Float: arrow.PrimitiveTypes.Float32, parquet.Double: arrow.PrimitiveTypes.Float64,
	parquet.ByteArray: arrow.BinaryTypes.Binary,
}

// convertedType returns the type of a leaf in files from before 2019, which have no logical types.
func convertedType(c deprecated.ConvertedType) arrow.DataType {
	switch c {
	case deprecated.UTF8, deprecated.Enum, deprecated.Json:
		return arrow.BinaryTypes.String
	case deprecated.Date:
		return arrow.FixedWidthTypes.Date32
	case deprecated.TimestampMillis:
		return &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}
	case deprecated.TimestampMicros:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
		return intType(8<<(c-deprecated.Int8), true)
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		return intType(8<<(c-deprecated.Uint8), false)
	}
	return nil
}

func intType(bits int8, signed bool) arrow.DataType {
	p := arrow.PrimitiveTypes
	pair := map[int8][2]arrow.DataType{8: {p.Int8, p.Uint8}, 16: {p.Int16, p.Uint16}, 32: {p.Int32, p.Uint32},
		64: {p.Int64, p.Uint64}}[bits]
	if signed {
		return pair[0]
	}
	return pair[1]
}

func decimalType(t parquet.Type, precision, scale int32) (arrow.DataType, string) {
	wide := (t.Kind() == parquet.FixedLenByteArray || t.Kind() == parquet.ByteArray) && t.Length() > 16
	if precision > 38 || wide {
		return nil, fmt.Sprintf("its decimals have %d digits; 38 can be read", precision)
	}
	return &arrow.Decimal128Type{Precision: precision, Scale: scale}, ""
}

func arrowUnit(u format.TimeUnitValue) arrow.TimeUnit {
	switch u.(type) {
	case *format.MilliSeconds:
		return arrow.Millisecond
	case *format.MicroSeconds:
		return arrow.Microsecond
	}
	return arrow.Nanosecond
}

// parquetAppender appends values that are not null.
func parquetAppender(b array.Builder) func(parquet.Value) {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		return func(v parquet.Value) { b.Append(v.Boolean()) }
	case *array.Int8Builder:
		return func(v parquet.Value) { b.Append(int8(v.Int32())) }
	case *array.Int16Builder:
		return func(v parquet.Value) { b.Append(int16(v.Int32())) }
	case *array.Int32Builder:
		return func(v parquet.Value) { b.Append(v.Int32()) }
	case *array.Int64Builder:
		return func(v parquet.Value) { b.Append(v.Int64()) }
	case *array.Uint8Builder:
		return func(v parquet.Value) { b.Append(uint8(v.Int32())) }
	case *array.Uint16Builder:
		return func(v parquet.Value) { b.Append(uint16(v.Int32())) }
	case *array.Uint32Builder:
		return func(v parquet.Value) { b.Append(v.Uint32()) }
	case *array.Uint64Builder:
		return func(v parquet.Value) { b.Append(v.Uint64()) }
	case *array.Float32Builder:
		return func(v parquet.Value) {
			if v.Kind() == parquet.FixedLenByteArray { // float16 to float32 is exact
				b.Append(narrow.Float16.At(v.ByteArray(), 0))
				return
			}
			b.Append(v.Float())
		}
	case *array.Float64Builder:
		return func(v parquet.Value) { b.Append(v.Double()) }
	case *array.StringBuilder:
		return func(v parquet.Value) { b.BinaryBuilder.Append(v.ByteArray()) }
	case *array.BinaryBuilder:
		return func(v parquet.Value) { b.Append(v.ByteArray()) }
	case *array.FixedSizeBinaryBuilder:
		return func(v parquet.Value) { b.Append(v.ByteArray()) }
	case *array.Date32Builder:
		return func(v parquet.Value) { b.Append(arrow.Date32(v.Int32())) }
	case *array.Time32Builder:
		return func(v parquet.Value) { b.Append(arrow.Time32(v.Int32())) }
	case *array.Time64Builder:
		return func(v parquet.Value) { b.Append(arrow.Time64(v.Int64())) }
	case *array.TimestampBuilder:
		return func(v parquet.Value) {
			if v.Kind() == parquet.Int96 {
				b.Append(arrow.Timestamp(int96Time(v.Int96()).UnixNano()))
				return
			}
			b.Append(arrow.Timestamp(v.Int64()))
		}
	case *array.Decimal128Builder:
		return func(v parquet.Value) { b.Append(decimalValue(v)) }
	}
	panic(fmt.Sprintf("no appender for %T", b)) // must have the same types as parquetType
}

// int96Time reads a timestamp of Impala or old Spark: nanoseconds of the day and the Julian day.
func int96Time(v deprecated.Int96) time.Time {
	const unixEpoch, day = 2440588, 24 * 60 * 60
	return time.Unix((int64(v[2])-unixEpoch)*day, int64(v[0])|int64(v[1])<<32).UTC()
}

// minTimestamp and maxTimestamp are the times that a column of nanoseconds can hold.
var minTimestamp, maxTimestamp = time.Unix(0, math.MinInt64).UTC(), time.Unix(0, math.MaxInt64).UTC()

var errTimestamp = fmt.Errorf("not between %s and %s, which nanoseconds in 64 bits can hold; write the column as "+
	"timestamps in microseconds", minTimestamp.Format(time.RFC3339), maxTimestamp.Format(time.RFC3339))

// decimalValue returns the unscaled integer of a decimal: a Parquet integer, or big-endian two's complement.
func decimalValue(v parquet.Value) decimal128.Num {
	switch v.Kind() {
	case parquet.Int32:
		return decimal128.FromI64(int64(v.Int32()))
	case parquet.Int64:
		return decimal128.FromI64(v.Int64())
	}
	raw := v.ByteArray()
	var wide [16]byte
	if len(raw) > len(wide) {
		raw = raw[len(raw)-len(wide):] // a precision of 38 fits; higher bytes are only the sign
	}
	if len(raw) > 0 && raw[0]&0x80 != 0 {
		for i := range wide {
			wide[i] = 0xff
		}
	}
	copy(wide[len(wide)-len(raw):], raw)
	return decimal128.New(int64(binary.BigEndian.Uint64(wide[:8])), binary.BigEndian.Uint64(wide[8:]))
}

func (p *parquetReader) schema() *arrow.Schema { return p.arrow }

func (p *parquetReader) count() int64 { return p.total }

// append appends the next value of the column. Repetition level 0 begins a row; the definition level says at which
// depth something is null.
func (c *parquetColumn) append(v parquet.Value) {
	if c.list == nil {
		if v.IsNull() {
			c.builder.AppendNull()
		} else {
			c.add(v)
		}
		return
	}
	if v.RepetitionLevel() == 0 {
		if v.DefinitionLevel() < c.listDef {
			c.list.AppendNull()
			return
		}
		c.list.Append(true)
	}
	switch {
	case v.DefinitionLevel() == c.listDef: // an empty list
	case v.IsNull():
		c.list.ValueBuilder().AppendNull()
	default:
		c.add(v)
	}
}

func (p *parquetReader) close() error {
	p.closeGroup()
	p.values.Release()
	return p.file.Close()
}
