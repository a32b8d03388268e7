package rowtext

import (
	"bytes"
	"strings"
)

// A name is a field's name that was seen, and its column in the message that is being read.
type name struct {
	text    string
	message uint64 // the last message with a field of this name
	column  int32
}

// names finds the column of a field. It remembers names over messages, because the next one usually has the same fields
// in the same order. What it returns depends on the message alone.
type names struct {
	byText  map[string]*name
	bytes   int
	message uint64
	order   []*name // of the last row
}

// Limits of the names that are remembered. Beyond them all are forgotten.
const (
	maxNames     = 8192
	maxNameBytes = 256 << 10
)

// begin starts a message.
func (n *names) begin() {
	n.message++
	if len(n.byText) > maxNames || n.bytes > maxNameBytes || n.byText == nil {
		n.byText, n.bytes, n.order = map[string]*name{}, 0, nil
	}
}

// find returns the name that a row has as its k-th, written as raw.
func (n *names) find(raw []byte, k int) *name {
	inside := raw[1 : len(raw)-1]
	if k < len(n.order) && n.order[k].text == string(inside) && strings.IndexByte(n.order[k].text, '\\') < 0 {
		return n.order[k]
	}
	var found *name
	if bytes.IndexByte(inside, '\\') < 0 {
		found = n.byText[string(inside)]
	} else {
		found = n.byText[Unquote(raw)]
	}
	if found == nil {
		found = &name{text: Unquote(raw)}
		n.byText[found.text] = found
		n.bytes += len(found.text)
	}
	n.order = append(n.order[:min(k, len(n.order))], found)
	return found
}

// columnOf returns the column of a name in the message.
func (n *names) columnOf(t *Table, one *name) int32 {
	if one.message != n.message {
		one.message, one.column = n.message, t.column(one.text)
	}
	return one.column
}
