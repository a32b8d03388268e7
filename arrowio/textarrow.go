package arrowio

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/internal/rowtext"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/narrow"
)

// arrowRows writes the kept fields of an Arrow message as text, one form for each type: see docs/wire.md.
type arrowRows struct {
	columns []string
	quoted  [][]byte
	batches [][]arrow.Array
	bytes   int
	scratch []byte
	format  wire.Format
	limit   int // of an output: few bytes of Arrow can be many values, which share an entry of a dictionary or a list
}

// newArrowRows returns the writer for outputs with further columns of these names.
func newArrowRows(e *Encoder, m *Message, output []string) *arrowRows {
	k := &arrowRows{bytes: m.size, format: e.out.Format, limit: maxTextOutput(m)}
	var fields []int
	for _, i := range m.plan.schema.Layout.Columns {
		if !e.keeps(m.plan, i) {
			continue
		}
		name := m.plan.schema.Layout.Fields[i].Name
		if slices.Contains(output, name) {
			panic(nameTaken(name))
		}
		if m.plan.index[name] < 0 {
			panic(wire.Errorf(wire.Malformed, "two columns have this name, which text cannot tell apart").WithHint(
				"rename one, or do not keep it").In(name))
		}
		// Arrow's reader (v15), which reads the columns for text, has no decimals of 32 and 64 bits.
		if l := &m.plan.schema.Layout; slices.ContainsFunc(l.Fields[i:l.Fields[i].End], func(f ipc.Field) bool {
			return f.Number == ipc.Decimal && f.Width < 16
		}) {
			panic(wire.Errorf(wire.Unsupported, "decimals of 32 and 64 bits are not written as text").WithHint(
				"cast them to decimals of 128 bits, do not keep the column, or set output.format to arrow").In(name))
		}
		fields = append(fields, i)
		k.columns = append(k.columns, name)
		k.quoted = append(k.quoted, append(rowtext.AppendString(nil, name), ':'))
	}
	k.batches = make([][]arrow.Array, len(m.batches))
	if len(fields) == 0 {
		return k
	}
	for i, rec := range written(e.whole(rewrite.NewForm(m.plan.schema, fields, nil, 0), m)) {
		k.batches[i] = rec.Columns() // until the garbage collector takes them
	}
	return k
}

func (k *arrowRows) names() []string { return slices.Clone(k.columns) }

func (k *arrowRows) size() int { return k.bytes }

func (k *arrowRows) members(dst []byte, batch, row int) []byte {
	for i, a := range k.batches[batch] {
		dst = append(k.appendValue(append(dst, k.quoted[i]...), a, row), ',')
	}
	return dst
}

func (k *arrowRows) values(dst []byte, batch, row int) []byte {
	for _, a := range k.batches[batch] {
		dst = append(k.appendValue(dst, a, row), ',')
	}
	return dst
}

func (k *arrowRows) fields(dst []byte, batch, row int) []byte {
	for _, a := range k.batches[batch] {
		k.checkSize(dst)
		k.scratch = k.appendValue(k.scratch[:0], a, row)
		dst = append(rowtext.AppendAsField(dst, k.scratch), ',')
	}
	return dst
}

// checkSize ends an output that is too large in the middle of a row.
func (k *arrowRows) checkSize(dst []byte) {
	if len(dst) > k.limit {
		panic(outputTooLarge(k.limit, k.format))
	}
}

// appendValue appends a value of an array as JSON. Forms are lossless: numbers have their digits, what is not finite is
// a string, times in the years 1 to 9999 are written as ISO 8601 does with all their digits, others as their integers.
func (k *arrowRows) appendValue(dst []byte, a arrow.Array, i int) []byte {
	k.checkSize(dst)
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.Null:
		return append(dst, "null"...)
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i))
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64:
		return append(dst, a.ValueStr(i)...)
	case *array.Float16:
		return appendFloat(dst, float64(narrow.Half(a.Value(i).Uint16())), 32)
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64)
	case *array.Decimal128:
		return append(dst, a.Value(i).ToString(a.DataType().(arrow.DecimalType).GetScale())...)
	case *array.Decimal256:
		return append(dst, a.Value(i).ToString(a.DataType().(arrow.DecimalType).GetScale())...)
	case *array.Dictionary:
		return k.appendValue(dst, a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return k.appendValue(dst, a.Values(), a.GetPhysicalIndex(i))
	}
	if text, ok := textValue(a, i); ok {
		return rowtext.AppendString(dst, text)
	}
	return k.appendNested(dst, a, i)
}

// appendFloat appends the shortest number that reads back as the same float of so many bits; what is not finite as a
// string.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 0):
		return append(strconv.AppendFloat(append(dst, '"'), v, 'g', -1, bits), '"')
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// textValue returns a value whose JSON form is a string.
func textValue(a arrow.Array, i int) (text string, ok bool) {
	switch a := a.(type) {
	case interface{ Value(int) string }:
		return a.Value(i), true
	case interface{ Value(int) []byte }:
		return base64.StdEncoding.EncodeToString(a.Value(i)), true
	case *array.Date32:
		return dateText(int64(a.Value(i)) * 86400)
	case *array.Date64:
		return dateText(int64(a.Value(i)) / 1000)
	case *array.Time32:
		return timeOfDay(int64(a.Value(i)), a.DataType().(*arrow.Time32Type).Unit), true
	case *array.Time64:
		return timeOfDay(int64(a.Value(i)), a.DataType().(*arrow.Time64Type).Unit), true
	case *array.Timestamp:
		return timestampText(int64(a.Value(i)), a.DataType().(*arrow.TimestampType))
	}
	return "", false
}

// fractions are the digits of a second behind a point that units have, as layouts.
var fractions = [...]string{arrow.Second: "", arrow.Millisecond: ".000", arrow.Microsecond: ".000000",
	arrow.Nanosecond: ".000000000"}

// instant returns the time of so many units since 1970-01-01.
func instant(v int64, u arrow.TimeUnit) time.Time {
	nanoseconds := int64(u.Multiplier())
	perSecond := int64(time.Second) / nanoseconds
	return time.Unix(v/perSecond, v%perSecond*nanoseconds).UTC()
}

// hasYear reports whether a time in seconds is in the years 1 to 9999, which have a form as text.
func hasYear(seconds int64) bool { return seconds >= -62135596800 && seconds < 253402300800 }

// dateText returns the day of a time in seconds.
func dateText(seconds int64) (text string, ok bool) {
	return time.Unix(seconds, 0).UTC().Format("2006-01-02"), hasYear(seconds)
}

func timeOfDay(v int64, u arrow.TimeUnit) string {
	return instant(v, u).Format("15:04:05" + fractions[u])
}

// timestampText returns a timestamp with a Z if the type has a time zone, in which its instants are written as UTC.
func timestampText(v int64, t *arrow.TimestampType) (text string, ok bool) {
	at := instant(v, t.Unit)
	text = at.Format("2006-01-02T15:04:05" + fractions[t.Unit])
	if t.TimeZone != "" {
		text += "Z"
	}
	return text, hasYear(at.Unix())
}

// appendNested appends a value with parts.
func (k *arrowRows) appendNested(dst []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.Map: // entries are arrays of key and value
		from, to := a.ValueOffsets(i)
		return appendList(dst, int(from), int(to), func(dst []byte, j int) []byte {
			dst = append(k.appendValue(append(dst, '['), a.Keys(), j), ',')
			return append(k.appendValue(dst, a.Items(), j), ']')
		})
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		return appendList(dst, int(from), int(to), func(dst []byte, j int) []byte {
			return k.appendValue(dst, a.ListValues(), j)
		})
	case *array.Struct:
		dst = append(dst, '{')
		for j := range a.NumField() {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(rowtext.AppendString(dst, a.DataType().(*arrow.StructType).Field(j).Name), ':')
			dst = k.appendValue(dst, a.Field(j), i)
		}
		return append(dst, '}')
	case array.Union:
		child, at := a.ChildID(i), i
		if dense, ok := a.(*array.DenseUnion); ok {
			at = int(dense.ValueOffset(i))
		}
		return k.appendValue(dst, a.Field(child), at)
	case *array.Date32, *array.Date64, *array.Timestamp, *array.Duration, *array.MonthInterval:
		data, width := a.Data(), a.DataType().(arrow.FixedWidthDataType).Bytes()
		return strconv.AppendInt(dst, ipc.Offset(data.Buffers()[1].Bytes(), width, data.Offset()+i), 10)
	case *array.DayTimeInterval:
		v := a.Value(i)
		return appendIntegers(dst, int64(v.Days), int64(v.Milliseconds))
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return appendIntegers(dst, int64(v.Months), int64(v.Days), v.Nanoseconds)
	case array.ExtensionArray:
		return k.appendValue(dst, a.Storage(), i)
	}
	panic(wire.Errorf(wire.Unsupported, "a column of type %s has no form as text", a.DataType()).WithHint(
		"do not keep it, or set output.format: arrow"))
}

// appendList appends a JSON array of the elements [from, to).
func appendList(dst []byte, from, to int, element func(dst []byte, j int) []byte) []byte {
	dst = append(dst, '[')
	for j := from; j < to; j++ {
		if j > from {
			dst = append(dst, ',')
		}
		dst = element(dst, j)
	}
	return append(dst, ']')
}

func appendIntegers(dst []byte, v ...int64) []byte {
	return appendList(dst, 0, len(v), func(dst []byte, j int) []byte { return strconv.AppendInt(dst, v[j], 10) })
}
