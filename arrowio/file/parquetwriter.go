package file

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"
)

const (
	groupRows   = 1 << 17 // rows of a row group
	groupValues = 1 << 23 // values of a row group, which is kept in memory until it is full
)

// parquetWriter writes flat columns and lists of flat values with Snappy compression, which every reader supports. The
// Arrow schema is in the file's metadata, where Arrow libraries find it, so that a fixed-size list is read as one.
type parquetWriter struct {
	out     io.Writer
	name    string
	schema  *arrow.Schema
	w       *parquet.GenericWriter[any]
	columns []parquetOut
	rows    int
}

// parquetOut writes an Arrow column as one leaf.
type parquetOut struct {
	node    parquet.Node
	convert func(arr arrow.Array, row int) parquet.Value // definition level of a value that is not null
	list    bool
}

func (p *parquetWriter) write(msg []byte) error {
	schema, recs, err := Records(msg)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if p.schema == nil {
		if err := p.start(schema, msg); err != nil {
			return err
		}
	} else if !schema.Equal(p.schema) {
		return fmt.Errorf("%s: the schema changes between batches: one file holds one schema", p.name)
	}
	for _, rec := range recs {
		err := p.writeRecord(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *parquetWriter) start(schema *arrow.Schema, msg []byte) error {
	head, _, err := cut(msg)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	group := orderedGroup{Group: parquet.Group{}}
	for _, f := range schema.Fields() {
		out, err := parquetColumnOf(f)
		if err != nil {
			return fmt.Errorf("%s: column %q of type %s cannot be written to Parquet: leave it out with --keep, or write "+
				".arrow", p.name, f.Name, f.Type)
		}
		p.columns = append(p.columns, out)
		if _, twice := group.Group[f.Name]; twice {
			return fmt.Errorf("%s: two columns are named %q, which Parquet does not allow: give the output another name "+
				"with --column, or keep fewer columns", p.name, f.Name)
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
	for from := 0; from < int(rec.NumRows()); from += 8192 {
		to := min(from+8192, int(rec.NumRows()))
		for i, w := range p.w.ColumnWriters() {
			if _, err := w.WriteRowValues(p.columns[i].values(rec.Column(i), i, from, to)); err != nil {
				return fmt.Errorf("%s: column %q: %w", p.name, rec.ColumnName(i), err)
			}
		}
		p.rows += to - from
		if p.rows >= groupRows || p.rows*len(p.columns) >= groupValues {
			if err := p.w.Flush(); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.rows = 0
		}
	}
	return nil
}

func (p *parquetWriter) close() error {
	if p.w == nil {
		return fmt.Errorf("%s: nothing was written, not even a schema", p.name)
	}
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// values returns the rows of a column with their levels. Columns and list elements are optional, so level 0 is a null,
// 1 a value or an empty list, 2 a null element, 3 an element.
func (o *parquetOut) values(col arrow.Array, column, from, to int) []parquet.Value {
	out := make([]parquet.Value, 0, to-from)
	for row := from; row < to; row++ {
		switch {
		case isNull(col, row):
			out = append(out, parquet.NullValue().Level(0, 0, column))
		case !o.list:
			out = append(out, o.convert(col, row).Level(0, 1, column))
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
					out = append(out, o.convert(elements, k).Level(repeated, 3, column))
				}
			}
		}
	}
	return out
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

// parquetLeaf returns the Parquet type of a flat Arrow type and the conversion of a value; nil if there is none.
func parquetLeaf(t arrow.DataType) (parquet.Node, func(arrow.Array, int) parquet.Value) {
	switch t := t.(type) {
	case *arrow.NullType:
		return parquet.String(), func(arrow.Array, int) parquet.Value { return parquet.NullValue() }
	case *arrow.BooleanType:
		return parquet.Leaf(parquet.BooleanType),
			func(a arrow.Array, i int) parquet.Value { return parquet.BooleanValue(a.(*array.Boolean).Value(i)) }
	case *arrow.Int8Type:
		return parquet.Int(8), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Int8).Value(i)))
		}
	case *arrow.Int16Type:
		return parquet.Int(16), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Int16).Value(i)))
		}
	case *arrow.Int32Type:
		return parquet.Int(32), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(a.(*array.Int32).Value(i))
		}
	case *arrow.Int64Type:
		return parquet.Int(64), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int64Value(a.(*array.Int64).Value(i))
		}
	case *arrow.Uint8Type:
		return parquet.Uint(8), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Uint8).Value(i)))
		}
	case *arrow.Uint16Type:
		return parquet.Uint(16), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Uint16).Value(i)))
		}
	case *arrow.Uint32Type:
		return parquet.Uint(32), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Uint32).Value(i)))
		}
	case *arrow.Uint64Type:
		return parquet.Uint(64), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int64Value(int64(a.(*array.Uint64).Value(i)))
		}
	case *arrow.Float16Type:
		return parquet.Leaf(parquet.FloatType), func(a arrow.Array, i int) parquet.Value {
			return parquet.FloatValue(a.(*array.Float16).Value(i).Float32())
		}
	case *arrow.Float32Type:
		return parquet.Leaf(parquet.FloatType),
			func(a arrow.Array, i int) parquet.Value { return parquet.FloatValue(a.(*array.Float32).Value(i)) }
	case *arrow.Float64Type:
		return parquet.Leaf(parquet.DoubleType),
			func(a arrow.Array, i int) parquet.Value { return parquet.DoubleValue(a.(*array.Float64).Value(i)) }
	case *arrow.StringType:
		return parquet.String(), func(a arrow.Array, i int) parquet.Value {
			return parquet.ByteArrayValue([]byte(a.(*array.String).Value(i)))
		}
	case *arrow.LargeStringType:
		return parquet.String(), func(a arrow.Array, i int) parquet.Value {
			return parquet.ByteArrayValue([]byte(a.(*array.LargeString).Value(i)))
		}
	case *arrow.BinaryType:
		return parquet.Leaf(parquet.ByteArrayType),
			func(a arrow.Array, i int) parquet.Value { return parquet.ByteArrayValue(a.(*array.Binary).Value(i)) }
	case *arrow.LargeBinaryType:
		return parquet.Leaf(parquet.ByteArrayType), func(a arrow.Array, i int) parquet.Value {
			return parquet.ByteArrayValue(a.(*array.LargeBinary).Value(i))
		}
	case *arrow.StringViewType:
		return parquet.String(), func(a arrow.Array, i int) parquet.Value {
			return parquet.ByteArrayValue([]byte(a.(*array.StringView).Value(i)))
		}
	case *arrow.BinaryViewType:
		return parquet.Leaf(parquet.ByteArrayType), func(a arrow.Array, i int) parquet.Value {
			return parquet.ByteArrayValue(a.(*array.BinaryView).Value(i))
		}
	case *arrow.FixedSizeBinaryType:
		return parquet.Leaf(parquet.FixedLenByteArrayType(t.ByteWidth)), func(a arrow.Array, i int) parquet.Value {
			return parquet.FixedLenByteArrayValue(a.(*array.FixedSizeBinary).Value(i))
		}
	case *arrow.Decimal128Type:
		return parquet.Decimal(int(t.Scale), int(t.Precision), parquet.FixedLenByteArrayType(16)),
			func(a arrow.Array, i int) parquet.Value {
				v := a.(*array.Decimal128).Value(i)
				b := binary.BigEndian.AppendUint64(nil, uint64(v.HighBits()))
				return parquet.FixedLenByteArrayValue(binary.BigEndian.AppendUint64(b, v.LowBits()))
			}
	case *arrow.DictionaryType:
		node, convert := parquetLeaf(t.ValueType)
		if node == nil {
			return nil, nil
		}
		return parquet.Encoded(node, &parquet.RLEDictionary), func(a arrow.Array, i int) parquet.Value {
			d := a.(*array.Dictionary)
			return convert(d.Dictionary(), d.GetValueIndex(i))
		}
	}
	return parquetTimeLeaf(t)
}

// parquetTimeLeaf is parquetLeaf for dates and times. Parquet has no seconds, so they are written as milliseconds.
func parquetTimeLeaf(t arrow.DataType) (parquet.Node, func(arrow.Array, int) parquet.Value) {
	const dayMillis = 24 * 60 * 60 * 1000
	switch t := t.(type) {
	case *arrow.Date32Type:
		return parquet.Date(), func(a arrow.Array,
			i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Date32).Value(i)))
		}
	case *arrow.Date64Type:
		return parquet.Date(), func(a arrow.Array, i int) parquet.Value {
			return parquet.Int32Value(int32(int64(a.(*array.Date64).Value(i)) / dayMillis))
		}
	case *arrow.TimestampType:
		unit, factor := parquetUnit(t.Unit)
		return parquet.TimestampAdjusted(unit, t.TimeZone != ""), func(a arrow.Array, i int) parquet.Value {
			return parquet.Int64Value(int64(a.(*array.Timestamp).Value(i)) * factor)
		}
	case *arrow.Time32Type:
		_, factor := parquetUnit(t.Unit)
		return parquet.TimeAdjusted(parquet.Millisecond, false), func(a arrow.Array, i int) parquet.Value {
			return parquet.Int32Value(int32(a.(*array.Time32).Value(i)) * int32(factor))
		}
	case *arrow.Time64Type:
		unit, _ := parquetUnit(t.Unit)
		return parquet.TimeAdjusted(unit, false), func(a arrow.Array, i int) parquet.Value {
			return parquet.Int64Value(int64(a.(*array.Time64).Value(i)))
		}
	case *arrow.DurationType:
		return parquet.Int(64), func(a arrow.Array, i int) parquet.Value {
			return parquet.Int64Value(int64(a.(*array.Duration).Value(i)))
		}
	}
	return nil, nil
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
