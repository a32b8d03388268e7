package file

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/narrow"
)

// csvWriter writes records as text. A list column becomes a column per element: name_0, name_1 ...
type csvWriter struct {
	buffer *bufio.Writer
	gz     *gzip.Writer
	w      *csv.Writer
	schema *arrow.Schema
	widths []int // elements of a list column, -1 for other columns
	row    []string
	rows   int64
}

func newCSVWriter(out io.Writer, name string, gz bool) *csvWriter {
	c := &csvWriter{buffer: bufio.NewWriterSize(out, 1<<16)}
	if gz {
		c.gz = gzip.NewWriter(c.buffer)
		c.w = csv.NewWriter(c.gz)
	} else {
		c.w = csv.NewWriter(c.buffer)
	}
	if tab := tabDelimiter(name); tab != 0 {
		c.w.Comma = tab
	}
	return c
}

func (c *csvWriter) write(msg []byte) error {
	schema, recs, err := arrowio.Records(msg)
	if err != nil {
		return err
	}
	if err := writeRecords(recs, c.writeRecord); err != nil {
		return err
	}
	if c.schema == nil && len(recs) == 0 {
		return c.header(schema, nil)
	}
	return nil
}

func (c *csvWriter) writeRecord(rec arrow.Record) error {
	if c.schema == nil {
		if err := c.header(rec.Schema(), rec); err != nil {
			return err
		}
	} else if !rec.Schema().Equal(c.schema) {
		return errSchema
	}
	for row := range int(rec.NumRows()) {
		c.row = c.row[:0]
		for i, width := range c.widths {
			col := rec.Column(i)
			if width < 0 {
				c.row = append(c.row, csvText(col, row))
				continue
			}
			elements, from, to := listRange(col, row)
			if to-from != width && !col.IsNull(row) {
				return fmt.Errorf("row %d: list column %q has %d elements, the first row had %d: CSV needs one length; "+
					"write .parquet or .arrow", c.rows+1, rec.ColumnName(i), to-from, width)
			}
			for k := range width {
				if col.IsNull(row) {
					c.row = append(c.row, "")
				} else {
					c.row = append(c.row, csvText(elements, from+k))
				}
			}
		}
		if err := c.w.Write(c.row); err != nil {
			return err
		}
		c.rows++
	}
	return nil
}

// header writes the column names. The length of a variable list is that of its first row.
func (c *csvWriter) header(schema *arrow.Schema, first arrow.Record) error {
	c.schema = schema
	var names []string
	for i, f := range schema.Fields() {
		width := -1
		switch t := f.Type.(type) {
		case *arrow.FixedSizeListType:
			width = int(t.Len())
		case *arrow.ListType, *arrow.LargeListType:
			width = 0
			for row := 0; first != nil && row < int(first.NumRows()); row++ {
				if !first.Column(i).IsNull(row) {
					_, from, to := listRange(first.Column(i), row)
					width = to - from
					break
				}
			}
		}
		c.widths = append(c.widths, width)
		if width < 0 {
			names = append(names, f.Name)
		}
		for k := range width {
			names = append(names, fmt.Sprintf("%s_%d", f.Name, k))
		}
	}
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return fmt.Errorf("two columns would be named %q: give the output another name with --column, or keep fewer "+
				"columns", n)
		}
		seen[n] = true
	}
	return c.w.Write(names)
}

func (c *csvWriter) close() error {
	c.w.Flush()
	if err := c.w.Error(); err != nil {
		return err
	}
	if c.gz != nil {
		if err := c.gz.Close(); err != nil {
			return err
		}
	}
	return c.buffer.Flush()
}

// listRange returns the range of elements of a row in a list column. In v15, FixedSizeList.ListValues ignores the
// offset of a slice, so the offsets are read here.
func listRange(col arrow.Array, row int) (elements arrow.Array, from, to int) {
	l, ok := col.(array.ListLike)
	if !ok {
		return nil, 0, 0
	}
	lo, hi := l.ValueOffsets(row)
	return l.ListValues(), int(lo), int(hi)
}

// csvText returns a value as text: the shortest number that reads back as the same, nothing for null, JSON for nested
// values.
func csvText(col arrow.Array, row int) string {
	if isNull(col, row) {
		return ""
	}
	switch a := col.(type) {
	case *array.Float16: // that of the library is wrong for subnormal numbers, and so are its decimals
		return strconv.FormatFloat(float64(narrow.Half(a.Value(row).Uint16())), 'g', -1, 32)
	case *array.Decimal128:
		return a.Value(row).ToString(a.DataType().(arrow.DecimalType).GetScale())
	case *array.Decimal256:
		return a.Value(row).ToString(a.DataType().(arrow.DecimalType).GetScale())
	case *array.Timestamp:
		if a.DataType().(*arrow.TimestampType).TimeZone == "" {
			return strings.TrimSuffix(a.ValueStr(row), "Z")
		}
	case *array.Float32:
		return strconv.FormatFloat(float64(a.Value(row)), 'g', -1, 32)
	case *array.Float64:
		return strconv.FormatFloat(a.Value(row), 'g', -1, 64)
	case *array.String:
		return a.Value(row)
	case *array.LargeString:
		return a.Value(row)
	case *array.Dictionary:
		return csvText(a.Dictionary(), a.GetValueIndex(row))
	}
	return col.ValueStr(row)
}
