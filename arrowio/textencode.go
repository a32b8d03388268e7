package arrowio

import (
	"github.com/embedd/embedd/arrowio/internal/rowtext"
	"github.com/embedd/embedd/arrowio/wire"
)

// keptRows writes the kept fields of a message's rows.
type keptRows interface {
	// names are the kept fields of CSV and of columns and data, in their order.
	names() []string
	// members appends the kept fields of a row as members of a JSON object, each with a comma after it.
	members(dst []byte, batch, row int) []byte
	// values appends them as elements of a JSON array, each with a comma after it.
	values(dst []byte, batch, row int) []byte
	// fields appends them as CSV fields, each with a comma after it.
	fields(dst []byte, batch, row int) []byte
	// size estimates the bytes that these take in all rows.
	size() int
}

// A textOutput is an output as text. Rows are written one after another; a part is a range of them between a head and a
// tail.
type textOutput struct {
	format wire.Format
	shape  rowtext.Shape
	kept   keptRows
	added  [][]byte // the output columns: `"embedding":`
	list   bool     // the output is one list, not a column for each dimension
	r      Reduced
	index  []rowtext.Cell // of rows, with Split

	head, tail []byte
	between    []byte // rows
	body       []byte
	rows       []textRow
}

// A textRow is a row of the body, and its longest size: the size with all numbers of the output at their longest, so
// that splits do not depend on the values (Invariant 2).
type textRow struct {
	lo, hi     int
	longest    int
	batch, row int
}

// newTextOutput writes the rows of an output.
func newTextOutput(e *Encoder, r Reduced) *textOutput {
	r.check()
	m := r.Message
	o := openTextOutput(e, r, e.names(r.Dim))
	o.list = !e.hasColumns()
	limit := maxTextOutput(m)
	o.body = e.buffers.Get(min(limit, len(o.head)+len(o.tail)+(16*r.Dim+32)*m.rows+o.kept.size()))
	o.body = append(o.body, o.head...)
	for k, b := range m.batches {
		drop := r.drop(k)
		for row := range b.data.Rows {
			if len(drop) > 0 && drop[0] == row {
				drop = drop[1:]
				continue
			}
			o.add(k, row)
			if len(o.body) > limit {
				panic(outputTooLarge(limit, o.format))
			}
		}
	}
	return o
}

// openTextOutput returns an output without rows.
func openTextOutput(e *Encoder, r Reduced, names []string) *textOutput {
	o, m := &textOutput{format: e.out.Format, r: r}, r.Message
	if m.table != nil {
		o.kept = newTableRows(e, m, names)
	} else {
		o.kept = newArrowRows(e, m, names)
	}
	if o.shape = o.shapeOf(m); r.Dim == 0 && o.format == wire.FormatJSON && m.table == nil && m.rows == 1 {
		o.shape = rowtext.Object
	}
	o.open(names)
	return o
}

// maxTextOutput is how many bytes the output of a message may take.
func maxTextOutput(m *Message) int { return max(m.decoder.limits.Body, maxRepeated) }

func outputTooLarge(limit int, f wire.Format) *Error {
	return wire.Errorf(wire.TooLarge, "the output takes more than %d bytes as %s", limit, f).WithHint(
		"send fewer rows a message, keep fewer columns, or raise limits.expanded")
}

// shapeOf returns the shape of the output: that of the input if the format has it.
func (o *textOutput) shapeOf(m *Message) rowtext.Shape {
	switch {
	case o.format == wire.FormatNDJSON:
		return rowtext.Lines
	case o.format == wire.FormatCSV:
		return rowtext.CSV
	case m.table == nil || m.table.Shape == rowtext.Lines || m.table.Shape == rowtext.CSV:
		return rowtext.Array
	case m.table.Shape == rowtext.Object && len(o.r.drop(0)) > 0:
		return rowtext.Array // without a row
	}
	return m.table.Shape
}

// open makes the text around the rows.
func (o *textOutput) open(names []string) {
	for _, name := range names {
		o.added = append(o.added, append(rowtext.AppendString(nil, name), ':'))
	}
	switch o.shape {
	case rowtext.Array:
		o.head, o.between, o.tail = []byte("["), []byte(","), []byte("]")
	case rowtext.Lines:
		o.between, o.tail = []byte("\n"), []byte("\n")
	case rowtext.CSV:
		for _, name := range append(o.kept.names(), names...) {
			o.head = append(rowtext.AppendField(o.head, name), ',')
		}
		o.head[len(o.head)-1] = '\n'
		o.between, o.tail = []byte("\n"), []byte("\n")
	case rowtext.Split:
		o.head = []byte(`{"columns":[`)
		for _, name := range append(o.kept.names(), names...) {
			o.head = append(rowtext.AppendString(o.head, name), ',')
		}
		o.head[len(o.head)-1] = ']'
		if o.index = o.r.Message.table.Index; o.index == nil {
			o.head = append(o.head, `,"data":[`...)
		}
		o.between, o.tail = []byte(","), []byte("]}")
	}
}

// add appends a row.
func (o *textOutput) add(batch, row int) {
	if len(o.rows) > 0 {
		o.body = append(o.body, o.between...)
	}
	lo := len(o.body)
	numbers := 0
	y := o.r.Y[batch][row*o.r.Dim : (row+1)*o.r.Dim]
	number := func(v float32) {
		before := len(o.body)
		o.body = rowtext.AppendFloat32(o.body, v)
		numbers += len(o.body) - before
		o.body = append(o.body, ',')
	}
	end := byte('}')
	switch {
	case o.shape == rowtext.CSV:
		o.body = o.kept.fields(o.body, batch, row)
		end = 0
	case o.shape == rowtext.Split:
		o.body = o.kept.values(append(o.body, '['), batch, row)
		end = ']'
	default:
		o.body = o.kept.members(append(o.body, '{'), batch, row)
	}
	hasNames := end == '}'
	if hasNames && o.list {
		o.body = append(o.body, o.added[0]...)
	}
	if o.list {
		o.body = append(o.body, '[')
	}
	for j, v := range y {
		if hasNames && !o.list {
			o.body = append(o.body, o.added[j]...)
		}
		number(v)
	}
	if len(o.body) > lo+1 || end == 0 {
		o.body = o.body[:len(o.body)-1] // the last comma
	}
	if o.list {
		o.body = append(o.body, ']')
	}
	if end != 0 {
		o.body = append(o.body, end)
	}
	one := textRow{lo: lo, hi: len(o.body), batch: batch, row: row}
	one.longest = one.hi - one.lo - numbers + rowtext.MaxFloat32*len(y) + len(o.between)
	if o.index != nil {
		one.longest += int(o.index[row].Hi-o.index[row].Lo) + len(o.between)
	}
	o.rows = append(o.rows, one)
}

// around is the size of a part without its rows.
func (o *textOutput) around() int {
	n := len(o.head) + len(o.tail)
	if o.index != nil {
		n += len(`,"index":[],"data":[`)
	}
	return n
}

// part returns the rows lo to hi-1 as a message. The body is the message if these are all rows.
func (o *textOutput) part(lo, hi int, dst []byte) []byte {
	if lo == 0 && hi == len(o.rows) && o.index == nil && len(o.rows) > 0 {
		return append(o.body, o.tail...)
	}
	dst = append(dst, o.head...)
	if o.index != nil {
		dst = append(dst, `,"index":[`...)
		for k, one := range o.rows[lo:hi] {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, o.r.Message.table.Bytes(&o.index[one.row])...)
		}
		dst = append(dst, `],"data":[`...)
	}
	if lo < hi {
		dst = append(dst, o.body[o.rows[lo].lo:o.rows[hi-1].hi]...)
	} else if o.shape == rowtext.Lines || o.shape == rowtext.CSV {
		return dst // no rows, so no line break after them
	}
	return append(dst, o.tail...)
}

// encodeText is Encode for text.
func encodeText(e *Encoder, r Reduced) []byte {
	o := newTextOutput(e, r)
	return o.part(0, len(o.rows), nil)
}

// splitText is Split for text.
func splitText(e *Encoder, r Reduced, limit int, meta func(part, parts int) []wire.Pair) [][]byte {
	o := newTextOutput(e, r)
	around, cuts, total := o.around(), []int{0}, 0
	size := around
	var wide []*Error
	for k := range o.rows {
		one := &o.rows[k]
		if around+one.longest > limit {
			if len(wide) < maxWide {
				wide = append(wide, o.tooWide(one, around, limit))
			}
			continue
		}
		if size += one.longest; size > limit {
			cuts = append(cuts, k)
			total += size - one.longest
			size = around + one.longest
		}
	}
	switch {
	case len(wide) > 0:
		first := *wide[0]
		first.Also = wide[1:]
		panic(&first)
	case around > limit:
		panic(wire.Errorf(wire.TooLarge, "the names of the columns alone take %d bytes, and a part may take %d", around,
			limit).WithHint("raise the server's max_payload or the stream's max_msg_size, or keep fewer columns"))
	case len(cuts) > 1 && total+size > max(2*len(o.body)+maxRepeated, r.Message.decoder.limits.Body):
		panic(wire.Errorf(wire.TooLarge, "the %d parts of the output take %d bytes, because each repeats the names",
			len(cuts), total+size).WithHint("send fewer rows a message, or raise the server's max_payload or limits.expanded"))
	}
	parts := make([][]byte, len(cuts))
	for k, lo := range cuts {
		hi := len(o.rows)
		if k+1 < len(cuts) {
			hi = cuts[k+1]
		}
		meta(k, len(cuts))
		parts[k] = o.part(lo, hi, nil)
	}
	return parts
}

func (o *textOutput) tooWide(one *textRow, around, limit int) *Error {
	e := wire.Errorf(wire.TooWide, "one row takes up to %d bytes, and a part may take %d", around+one.longest, limit).
		WithHint("raise the server's max_payload or the stream's max_msg_size, or keep fewer columns").At(one.row)
	e.Batch = one.batch
	return e
}

// rejectedText writes rows of a message of text as they are, in its shape.
func rejectedText(t *rowtext.Table, rows []int) []byte {
	dst := make([]byte, 0, 64+int(t.Head.Hi-t.Head.Lo)+len(t.Data))
	join := func(between string, cut func(row int) []byte) {
		for k, row := range rows {
			if k > 0 {
				dst = append(dst, between...)
			}
			dst = append(dst, cut(row)...)
		}
	}
	raw := func(row int) []byte { return t.Data[t.Rows[row].Lo:t.Rows[row].Hi] }
	switch t.Shape {
	case rowtext.Array:
		dst = append(dst, '[')
		join(",", raw)
		return append(dst, ']')
	case rowtext.Split:
		dst = append(append(dst, `{"columns":`...), t.Bytes(&t.Head)...)
		if t.Index != nil {
			dst = append(dst, `,"index":[`...)
			join(",", func(row int) []byte { return t.Bytes(&t.Index[row]) })
			dst = append(dst, ']')
		}
		dst = append(dst, `,"data":[`...)
		join(",", raw)
		return append(dst, "]}"...)
	case rowtext.CSV:
		dst = append(append(dst, t.Bytes(&t.Head)...), '\n')
	}
	join("\n", raw)
	if t.Shape != rowtext.Object && len(rows) > 0 {
		dst = append(dst, '\n')
	}
	return dst
}

// Text returns the rows of a message as text of another format, in the forms that kept fields have: all columns that
// are no features, which is all of them for a decoder of a Spec without features. Rows that cannot be read are left
// out. A record of one row is one JSON object. The error is always an *Error.
func Text(m *Message, f wire.Format) (msg []byte, err error) {
	defer rescue(&err)
	m.mustExist()
	e, err := NewEncoder(Output{Format: f, Keep: []string{"*"}})
	if err != nil {
		return nil, err
	}
	o := openTextOutput(e, Reduced{Message: m, Y: make([][]float32, len(m.batches))}, nil)
	o.body = append(o.body, o.head...)
	for k, b := range m.batches {
		for row := range b.data.Rows {
			if m.table == nil || m.table.Rows[row].Err == nil {
				o.add(k, row)
			}
		}
	}
	return o.part(0, len(o.rows), nil), nil
}
