package arrowio

import (
	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// Label returns the class of a row as text: the integer 3, the string "3" and a dictionary entry "3" are the same
// class. ok is false if the row has no label. The text is a copy.
func (b *Batch) Label(row int) (text string, ok bool) {
	return b.text(b.message.plan.label, row, b.message.decoder.limits.LabelBytes)
}

// Key returns the key of a row as text, in the same way as Label.
func (b *Batch) Key(row int) (text string, ok bool) {
	return b.text(b.message.plan.key, row, b.message.decoder.limits.LabelBytes)
}

// LabelKind returns what the label column holds: "text", "integers" or "booleans"; "" if the message has no label
// column or one of type null.
func (m *Message) LabelKind() string { return m.plan.labelKind }

// KeyKind is LabelKind for the key column.
func (m *Message) KeyKind() string { return m.plan.keyKind }

// text returns a value of a field as text, of which at most limit bytes: rows may share the bytes of a text, and a copy
// for each could take hours.
func (b *Batch) text(i, row, limit int) (string, bool) {
	if i < 0 || row < 0 || row >= b.data.Rows || b.data.IsNull(i, row) {
		return "", false
	}
	c := &b.data.Chunk
	if d := c.Layout.Fields[i].Dict; d >= 0 {
		at, _ := c.Index(i, row)
		c, i, row = &b.message.dicts[d], 0, int(at)
		if c.IsNull(0, row) {
			return "", false
		}
	}
	return c.Text(i, row, limit), true
}

// checkNames checks the texts of label and key in a batch, or those in the dictionaries if b is nil. They become class
// names, map keys and lines of reports.
func (d *Decoder) checkNames(m *Message, b *Batch) {
	for _, i := range [...]int{m.plan.label, m.plan.key} {
		if i < 0 {
			continue
		}
		var e *Error
		f := &m.plan.schema.Layout.Fields[i]
		switch {
		case b != nil && f.Dict < 0:
			e = b.data.CheckTexts(i, d.limits.LabelBytes)
		case b == nil && f.Dict >= 0:
			e = ipc.EntryError(m.dicts[f.Dict].CheckTexts(0, d.limits.LabelBytes))
		}
		if e != nil {
			panic(e.In(f.Name))
		}
	}
}
