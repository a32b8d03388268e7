package file

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/narrow"
)

const (
	groupRows   = 1 << 17 // rows of a row group
	groupValues = 1 << 23 // values of a row group, elements of lists included, which is kept in memory until it is full
)

// parquetWriter writes flat columns and lists of flat values with Snappy compression, which every reader supports. The
// Arrow schema is in the file's metadata, where Arrow libraries find it, so that a fixed-size list is read as one.
type parquetWriter struct {
	out     io.Writer
	schema  *arrow.Schema
	w       *parquet.GenericWriter[any]
	columns []parquetOut
	before  int // rows of the row groups before this one
	rows    int // of the row group, and their values
	values  int
}

// parquetOut writes an Arrow column as one leaf.
type parquetOut struct {
	node    parquet.Node
	convert converter
	list    bool
}

func (p *parquetWriter) write(msg []byte) error {
	schema, recs, err := arrowio.Records(msg)
	if err != nil {
		return err
	}
	if p.schema == nil {
		if err := p.start(schema, msg); err != nil {
			return err
		}
	} else if !schema.Equal(p.schema) {
		return errSchema
	}
	return writeRecords(recs, p.writeRecord)
}

func (p *parquetWriter) start(schema *arrow.Schema, msg []byte) error {
	head, _, err := cut(msg)
	if err != nil {
		return err
	}
	group := orderedGroup{Group: parquet.Group{}}
	for _, f := range schema.Fields() {
		out, err := parquetColumnOf(f)
		if err != nil {
			return fmt.Errorf("column %q of type %s cannot be written to Parquet: leave it out with --keep, or write .arrow",
				f.Name, f.Type)
		}
		p.columns = append(p.columns, out)
		if _, twice := group.Group[f.Name]; twice {
			return fmt.Errorf("two columns are named %q, which Parquet does not allow: give the output another name with "+
				"--column, or keep fewer columns", f.Name)
		}
		group.Group[f.Name] = out.node
		group.order = append(group.order, f.Name)
	}
	p.schema = schema
	// The oldest pages and encodings: pyarrow cannot read a dictionary column from delta-encoded text.
	p.w = parquet.NewGenericWriter[any](p.out, parquet.NewSchema("schema", group), parquet.Compression(&snappy.Codec{}),
		parquet.DataPageVersion(1), parquet.DefaultEncoding(&parquet.Plain),
		parquet.KeyValueMetadata("ARROW:schema", base64.StdEncoding.EncodeToString(head.bytes)))
	return nil
}

func (p *parquetWriter) writeRecord(rec arrow.Record) error {
	// Writing slices keeps the values of a batch, three words each, from accumulating.
	step := p.sliceRows(rec)
	for from := 0; from < int(rec.NumRows()); from += step {
		to := min(from+step, int(rec.NumRows()))
		for i, w := range p.w.ColumnWriters() {
			values, row, err := p.columns[i].values(rec.Column(i), i, from, to)
			if err != nil {
				return fmt.Errorf("column %q, row %d: %w: correct the value, leave the column out with --keep, or write .arrow",
					rec.ColumnName(i), p.before+p.rows+row-from+1, err)
			}
			if _, err := w.WriteRowValues(values); err != nil {
				return fmt.Errorf("column %q: %w", rec.ColumnName(i), err)
			}
			p.values += len(values)
		}
		p.rows += to - from
		if p.rows >= groupRows || p.values >= groupValues {
			if err := p.w.Flush(); err != nil {
				return err
			}
			p.before, p.rows, p.values = p.before+p.rows, 0, 0
		}
	}
	return nil
}

// sliceRows is the number of rows of a record that are written together: fewer of long lists.
func (p *parquetWriter) sliceRows(rec arrow.Record) int {
	longest, last := 1, int(rec.NumRows())-1
	for i, c := range p.columns {
		if c.list && last >= 0 {
			_, begin, _ := listRange(rec.Column(i), 0)
			_, _, end := listRange(rec.Column(i), last)
			longest = max(longest, (end-begin)/(last+1))
		}
	}
	return max(1, min(8192, batchValues/longest))
}

func (p *parquetWriter) close() error {
	if p.w == nil {
		return errNothing
	}
	return p.w.Close()
}

// values returns the rows of a column with their levels. Columns and list elements are optional, so level 0 is a null,
// 1 a value or an empty list, 2 a null element, 3 an element. An error is of the value in row bad.
func (o *parquetOut) values(col arrow.Array, column, from, to int) (out []parquet.Value, bad int, err error) {
	out = make([]parquet.Value, 0, to-from)
	row := from
	value := func(a arrow.Array, i int) parquet.Value {
		v, failed := o.convert(a, i)
		if failed != nil && err == nil {
			bad, err = row, failed
		}
		return v
	}
	for ; row < to; row++ {
		switch {
		case isNull(col, row):
			out = append(out, parquet.NullValue().Level(0, 0, column))
		case !o.list:
			out = append(out, value(col, row).Level(0, 1, column))
		default:
			elements, lo, hi := listRange(col, row)
			if lo == hi {
				out = append(out, parquet.NullValue().Level(0, 1, column))
			}
			for k := lo; k < hi; k++ {
				repeated := min(k-lo, 1)
				if isNull(elements, k) {
					out = append(out, parquet.NullValue().Level(repeated, 2, column))
				} else {
					out = append(out, value(elements, k).Level(repeated, 3, column))
				}
			}
		}
	}
	return out, bad, err
}

func isNull(col arrow.Array, row int) bool {
	if d, ok := col.(*array.Dictionary); ok && !d.IsNull(row) {
		return d.Dictionary().IsNull(d.GetValueIndex(row))
	}
	return col.IsNull(row) || col.DataType().ID() == arrow.NULL
}

func parquetColumnOf(f arrow.Field) (parquetOut, error) {
	t, list := f.Type, false
	if l, ok := t.(arrow.ListLikeType); ok && t.ID() != arrow.MAP {
		t, list = l.Elem(), true
	}
	node, convert := parquetLeaf(t)
	if node == nil {
		return parquetOut{}, fmt.Errorf("no Parquet type for %s", f.Type)
	}
	node = parquet.Optional(node)
	if list {
		node = parquet.Optional(parquet.List(node))
	}
	return parquetOut{node: node, convert: convert, list: list}, nil
}

// A valuer is an array of values of one Go type.
type valuer[T any] interface{ Value(i int) T }

// converter returns a value of an array as a Parquet value. It is an error if Parquet cannot represent it.
type converter func(a arrow.Array, i int) (parquet.Value, error)

func convert[A valuer[T], T any](value func(T) parquet.Value) converter {
	return func(a arrow.Array, i int) (parquet.Value, error) { return value(any(a).(A).Value(i)), nil }
}

// convertBetween converts values from lo to hi, in a unit that the error names.
func convertBetween[A valuer[T], T ~int32 | ~int64](lo, hi int64, unit arrow.TimeUnit,
	value func(int64) parquet.Value) converter {
	return func(a arrow.Array, i int) (parquet.Value, error) {
		v := int64(any(a).(A).Value(i))
		if v < lo || v > hi {
			return parquet.Value{}, fmt.Errorf("%d %s is not between %d and %d %[2]s, the limits of this type in Parquet", v,
				unit, lo, hi)
		}
		return value(v), nil
	}
}

func toInt32[A valuer[T], T ~int8 | ~int16 | ~int32 | ~uint8 | ~uint16 | ~uint32]() converter {
	return convert[A](func(v T) parquet.Value { return parquet.Int32Value(int32(v)) })
}

func toInt64[A valuer[T], T ~int64 | ~uint64]() converter {
	return convert[A](func(v T) parquet.Value { return parquet.Int64Value(int64(v)) })
}

func toBytes[A valuer[T], T string | []byte]() converter {
	return convert[A](func(v T) parquet.Value { return parquet.ByteArrayValue([]byte(v)) })
}

const dayMillis = 24 * 60 * 60 * 1000

// parquetLeaves are the Parquet types of the flat Arrow types without parameters, with the conversion of a value.
var parquetLeaves = map[arrow.Type]struct {
	node    parquet.Node
	convert converter
}{
	arrow.NULL:    {parquet.String(), func(arrow.Array, int) (parquet.Value, error) { return parquet.NullValue(), nil }},
	arrow.BOOL:    {parquet.Leaf(parquet.BooleanType), convert[*array.Boolean](parquet.BooleanValue)},
	arrow.INT8:    {parquet.Int(8), toInt32[*array.Int8]()},
	arrow.INT16:   {parquet.Int(16), toInt32[*array.Int16]()},
	arrow.INT32:   {parquet.Int(32), toInt32[*array.Int32]()},
	arrow.INT64:   {parquet.Int(64), toInt64[*array.Int64]()},
	arrow.UINT8:   {parquet.Uint(8), toInt32[*array.Uint8]()},
	arrow.UINT16:  {parquet.Uint(16), toInt32[*array.Uint16]()},
	arrow.UINT32:  {parquet.Uint(32), toInt32[*array.Uint32]()},
	arrow.UINT64:  {parquet.Uint(64), toInt64[*array.Uint64]()},
	arrow.FLOAT32: {parquet.Leaf(parquet.FloatType), convert[*array.Float32](parquet.FloatValue)},
	arrow.FLOAT64: {parquet.Leaf(parquet.DoubleType), convert[*array.Float64](parquet.DoubleValue)},
	arrow.FLOAT16: {parquet.Leaf(parquet.FloatType),
		convert[*array.Float16](func(v float16.Num) parquet.Value { return parquet.FloatValue(narrow.Half(v.Uint16())) })},
	arrow.STRING:       {parquet.String(), toBytes[*array.String]()},
	arrow.LARGE_STRING: {parquet.String(), toBytes[*array.LargeString]()},
	arrow.STRING_VIEW:  {parquet.String(), toBytes[*array.StringView]()},
	arrow.BINARY:       {parquet.Leaf(parquet.ByteArrayType), toBytes[*array.Binary]()},
	arrow.LARGE_BINARY: {parquet.Leaf(parquet.ByteArrayType), toBytes[*array.LargeBinary]()},
	arrow.BINARY_VIEW:  {parquet.Leaf(parquet.ByteArrayType), toBytes[*array.BinaryView]()},
	arrow.DATE32:       {parquet.Date(), toInt32[*array.Date32]()},
	arrow.DATE64:       {parquet.Date(), toDays},
	arrow.DURATION:     {parquet.Int(64), toInt64[*array.Duration]()},
}

// toDays converts milliseconds, of whole days, to days.
func toDays(a arrow.Array, i int) (parquet.Value, error) {
	days, err := daysOf(a, i)
	if v := int64(a.(*array.Date64).Value(i)); err == nil && v%dayMillis != 0 {
		err = fmt.Errorf("a date of %d milliseconds is no whole number of days, which Parquet stores: "+
			"write a timestamp", v)
	}
	return days, err
}

var daysOf = convertBetween[*array.Date64](math.MinInt32*dayMillis, math.MaxInt32*dayMillis, arrow.Millisecond,
	func(v int64) parquet.Value { return parquet.Int32Value(int32(v / dayMillis)) })

// parquetLeaf returns the Parquet type of a flat Arrow type and the conversion of a value; nil if there is none.
// Parquet has no seconds, so times in seconds are written as milliseconds.
func parquetLeaf(t arrow.DataType) (parquet.Node, converter) {
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		return parquet.Leaf(parquet.FixedLenByteArrayType(t.ByteWidth)),
			convert[*array.FixedSizeBinary](parquet.FixedLenByteArrayValue)
	case *arrow.Decimal128Type:
		return parquet.Decimal(int(t.Scale), int(t.Precision), parquet.FixedLenByteArrayType(16)),
			convert[*array.Decimal128](func(v decimal128.Num) parquet.Value {
				b := binary.BigEndian.AppendUint64(nil, uint64(v.HighBits()))
				return parquet.FixedLenByteArrayValue(binary.BigEndian.AppendUint64(b, v.LowBits()))
			})
	case *arrow.DictionaryType:
		node, value := parquetLeaf(t.ValueType)
		if node == nil {
			return nil, nil
		}
		return parquet.Encoded(node, &parquet.RLEDictionary), func(a arrow.Array, i int) (parquet.Value, error) {
			d := a.(*array.Dictionary)
			return value(d.Dictionary(), d.GetValueIndex(i))
		}
	case *arrow.TimestampType:
		unit, factor := parquetUnit(t.Unit)
		return parquet.TimestampAdjusted(unit, t.TimeZone != ""), convertBetween[*array.Timestamp](math.MinInt64/factor,
			math.MaxInt64/factor, t.Unit, func(v int64) parquet.Value { return parquet.Int64Value(v * factor) })
	case *arrow.Time32Type:
		unit, factor := parquetUnit(t.Unit)
		return parquet.TimeAdjusted(unit, false), convertBetween[*array.Time32](math.MinInt32/factor,
			math.MaxInt32/factor, t.Unit, func(v int64) parquet.Value { return parquet.Int32Value(int32(v * factor)) })
	case *arrow.Time64Type:
		unit, _ := parquetUnit(t.Unit)
		return parquet.TimeAdjusted(unit, false), toInt64[*array.Time64]()
	}
	leaf := parquetLeaves[t.ID()]
	return leaf.node, leaf.convert
}

func parquetUnit(u arrow.TimeUnit) (unit parquet.TimeUnit, factor int64) {
	switch u {
	case arrow.Second:
		return parquet.Millisecond, 1000
	case arrow.Millisecond:
		return parquet.Millisecond, 1
	case arrow.Microsecond:
		return parquet.Microsecond, 1
	}
	return parquet.Nanosecond, 1
}

// orderedGroup is a group whose fields keep their order; parquet.Group sorts them by name.
type orderedGroup struct {
	parquet.Group
	order []string
}

func (g orderedGroup) Fields() []parquet.Field {
	place := make(map[string]int, len(g.order))
	for i, name := range g.order {
		place[name] = i
	}
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return place[a.Name()] - place[b.Name()] })
	return fields
}
