package ipc

import (
	"strconv"
	"unicode/utf8"

	"github.com/embedd/embedd/arrowio/wire"
)

// Text returns a value of a text, integer or boolean field as text.
func (c *Chunk) Text(i, row int) string {
	f := &c.Layout.Fields[i]
	switch {
	case f.Kind == KindBool:
		return strconv.FormatBool(c.Buffer(i, 1)[row>>3]>>(row&7)&1 == 1)
	case f.Number == Uint64:
		v, _ := c.Index(i, row)
		return strconv.FormatUint(v, 10)
	case f.Number != NotNumber:
		v, _ := c.Index(i, row)
		return strconv.FormatInt(int64(v), 10)
	}
	return string(c.binary(i, row))
}

// binary returns the bytes of a valid value of a binary or view field.
func (c *Chunk) binary(i, row int) []byte {
	f := &c.Layout.Fields[i]
	if f.Kind == KindBinary {
		o := c.Buffer(i, 1)
		return c.Buffer(i, 2)[Offset(o, f.Width, row):Offset(o, f.Width, row+1)]
	}
	v := c.Buffer(i, 1)[16*row : 16*row+16]
	n := int(le.Uint32(v))
	if n <= 12 {
		return v[4 : 4+n]
	}
	first, _ := c.Data(i)
	from := int(le.Uint32(v[12:]))
	return c.Buf(first + int(le.Uint32(v[8:])))[from : from+n]
}

// CheckTexts checks that the texts of a binary or view field are UTF-8 and have at most limit bytes.
func (c *Chunk) CheckTexts(i, limit int) *wire.Error {
	f := &c.Layout.Fields[i]
	if f.Kind != KindBinary && f.Kind != KindView || c.Rows == 0 || f.Kind == KindBinary && c.plainTexts(i, limit) {
		return nil
	}
	valid := c.Valid(i)
	for row := 0; row < c.Rows; row++ {
		if valid != nil && valid[row>>3]>>(row&7)&1 == 0 {
			continue
		}
		b := c.binary(i, row)
		if len(b) > limit {
			return wire.Errorf(wire.TooLarge, "a text of %d bytes, and the limit for labels and keys is %d", len(b),
				limit).WithHint("send a short name").At(row)
		}
		if !utf8.Valid(b) {
			return wire.Errorf(wire.Malformed, "a text that is not UTF-8").WithHint("send UTF-8").At(row)
		}
	}
	return nil
}

// plainTexts is a fast check: all texts together are UTF-8, and none begins inside a character or is too long. Bytes of
// nulls can make it fail but not succeed.
func (c *Chunk) plainTexts(i, limit int) bool {
	w := c.Layout.Fields[i].Width
	o := c.Buffer(i, 1)
	data := c.Buffer(i, 2)[:Offset(o, w, c.Rows)]
	last := Offset(o, w, 0)
	if !utf8.Valid(data[last:]) {
		return false
	}
	for row := 1; row <= c.Rows; row++ {
		at := Offset(o, w, row)
		if at-last > int64(limit) || at < int64(len(data)) && !utf8.RuneStart(data[at]) {
			return false
		}
		last = at
	}
	return true
}
