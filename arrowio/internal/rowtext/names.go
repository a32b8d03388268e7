package rowtext

import (
	"bytes"
	"strings"
)

// A name is the name of a field, and its column in the current message.
type name struct {
	text    string
	isPlain bool   // without a backslash, so that it is written as it is
	message uint64 // the last message with a field of this name
	column  int32
	next    *name // the one that came after it when it was last in a row
}

// names finds the column of a field. It remembers names over messages, because the next one usually has the same fields
// in the same order. What it returns depends on the message alone.
type names struct {
	byText  map[string]*name
	bytes   int
	message uint64
	first   name // before the first of a row
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
		n.byText, n.bytes, n.first.next = map[string]*name{}, 0, nil
	}
}

// find returns the name that is written as raw in a row, where it comes after another name.
func (n *names) find(raw []byte, after *name) *name {
	inside := raw[1 : len(raw)-1]
	if next := after.next; next != nil && next.isPlain && next.text == string(inside) {
		return next
	}
	isPlain := bytes.IndexByte(inside, '\\') < 0
	found := n.byText[string(inside)]
	if !isPlain {
		found = n.byText[Unquote(raw)]
	}
	if found == nil {
		text := Unquote(raw)
		found = &name{text: text, isPlain: strings.IndexByte(text, '\\') < 0}
		n.byText[text] = found
		n.bytes += len(text)
	}
	after.next = found
	return found
}

// columnOf returns the column of a name in the message.
func (n *names) columnOf(t *Table, one *name) int32 {
	if one.message != n.message {
		one.message, one.column = n.message, t.column(one.text)
	}
	return one.column
}
