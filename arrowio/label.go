package arrowio

import (
	"strconv"
	"unicode/utf8"

	"github.com/embedd/embedd/arrowio/wire"
)

// Label returns the text that names the class of a row: the identity of a label is its text, so that the integer 3,
// the string "3" and a dictionary entry "3" are one class. ok is false where the row has no label. The text is a
// copy.
func (b *Batch) Label(row int) (text string, ok bool) {
	return b.text(b.message.plan.label, row)
}

// Key returns the text that joins a row with what comes later about it, in the same way as Label.
func (b *Batch) Key(row int) (text string, ok bool) {
	return b.text(b.message.plan.key, row)
}

// LabelKind says what the label column holds: "text", "integers" or "booleans"; "" where the message has none, or one
// of type null.
func (m *Message) LabelKind() string { return m.plan.labels.column() }

// KeyKind is the same for the key column.
func (m *Message) KeyKind() string { return m.plan.keys.column() }

func (c class) column() string {
	if c == unknown {
		return ""
	}
	return c.String()
}

func (b *Batch) text(i, row int) (string, bool) {
	if i < 0 || row < 0 || row >= b.rows || b.isNull(i, row) {
		return "", false
	}
	c := &b.chunk
	if d := c.layout.fields[i].dict; d >= 0 {
		at, _ := c.index(i, row)
		c, i, row = &b.message.dicts[d], 0, int(at)
		if c.isNull(0, row) {
			return "", false
		}
	}
	return c.named(i, row), true
}

// named returns a value of a text, integer or boolean field as text.
func (c *chunk) named(i, row int) string {
	f := &c.layout.fields[i]
	switch {
	case f.kind == kindBool:
		return strconv.FormatBool(c.buffer(i, 1)[row>>3]>>(row&7)&1 == 1)
	case f.number == uint64s:
		v, _ := c.index(i, row)
		return strconv.FormatUint(v, 10)
	case f.number != notNumber:
		v, _ := c.index(i, row)
		return strconv.FormatInt(int64(v), 10)
	}
	return string(c.binary(i, row))
}

// binary returns the bytes of a valid value of a binary or view field.
func (c *chunk) binary(i, row int) []byte {
	f := &c.layout.fields[i]
	if f.kind == kindBinary {
		o := c.buffer(i, 1)
		return c.buffer(i, 2)[offset(o, f.width, row):offset(o, f.width, row+1)]
	}
	v := c.buffer(i, 1)[16*row : 16*row+16]
	n := int(le.Uint32(v))
	if n <= 12 {
		return v[4 : 4+n]
	}
	first, _ := c.data(i)
	from := int(le.Uint32(v[12:]))
	return c.buf(first + int(le.Uint32(v[8:])))[from : from+n]
}

// checkNames checks the texts of label and key: they become names of classes, keys of maps and lines of reports.
func (d *Decoder) checkNames(b *Batch) *Error {
	for _, i := range [...]int{b.message.plan.label, b.message.plan.key} {
		if i < 0 || b.layout.fields[i].dict >= 0 {
			continue
		}
		if e := b.texts(i, d.limits.LabelBytes); e != nil {
			return e.in(b.layout.fields[i].name)
		}
	}
	return nil
}

// checkTexts does the same for the dictionaries of label and key.
func (d *Decoder) checkTexts(m *Message) *Error {
	for _, i := range [...]int{m.plan.label, m.plan.key} {
		if i < 0 {
			continue
		}
		f := &m.plan.schema.layout.fields[i]
		if f.dict < 0 {
			continue
		}
		if e := m.dicts[f.dict].texts(0, d.limits.LabelBytes); e != nil {
			return e.entry().in(f.name)
		}
	}
	return nil
}

func (c *chunk) texts(i, limit int) *Error {
	f := &c.layout.fields[i]
	if f.kind != kindBinary && f.kind != kindView || c.rows == 0 || f.kind == kindBinary && c.plainTexts(i, limit) {
		return nil
	}
	valid := c.valid(i)
	for row := 0; row < c.rows; row++ {
		if valid != nil && valid[row>>3]>>(row&7)&1 == 0 {
			continue
		}
		b := c.binary(i, row)
		if len(b) > limit {
			return fault(wire.TooLarge, "a text of %d bytes, and the limit for labels and keys is %d", len(b),
				limit).hint("send a short name").at(row)
		}
		if !utf8.Valid(b) {
			return fault(wire.Malformed, "a text that is not UTF-8").hint("send UTF-8").at(row)
		}
	}
	return nil
}

// plainTexts is the quick way: all texts together are UTF-8, and none begins inside a character or is too long. What
// stands at a null can only make it say no.
func (c *chunk) plainTexts(i, limit int) bool {
	w := c.layout.fields[i].width
	o := c.buffer(i, 1)
	data := c.buffer(i, 2)[:offset(o, w, c.rows)]
	last := offset(o, w, 0)
	if !utf8.Valid(data[last:]) {
		return false
	}
	for row := 1; row <= c.rows; row++ {
		at := offset(o, w, row)
		if at-last > int64(limit) || at < int64(len(data)) && !utf8.RuneStart(data[at]) {
			return false
		}
		last = at
	}
	return true
}
