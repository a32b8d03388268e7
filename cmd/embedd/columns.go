package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
)

// columns says which columns of a file a verb takes as features, which it does not, and why: in the same words for
// every verb and format.
type columns struct {
	name       string // of the file
	label, key string
	other      string // why a column of numbers is no feature
	fields     []arrowio.Field
	empty      map[string]bool // features without a number in any row, which a fit leaves out
}

// see takes note of the columns of a message.
func (c *columns) see(m *arrowio.Message) {
	if c.fields == nil {
		c.fields = m.Fields()
		return
	}
	for i, f := range m.Fields() {
		c.fields[i].Empty = c.fields[i].Empty && f.Empty
	}
}

// tell prints the columns. in knows more of those of a CSV file.
func (c *columns) tell(e *env, in *file.Reader, features []string) {
	fmt.Fprintf(e.stderr, "embedd: note: %s: %d features: %s%s\n", c.name, len(features), listed(features), c.named())
	var none []string
	for _, f := range c.fields {
		if f.Name == c.label || f.Name == c.key || f.Feature && !c.empty[f.Name] {
			continue
		}
		none = append(none, fmt.Sprintf("%q (%s)", f.Name, c.why(f, in)))
	}
	if len(none) > 0 {
		fmt.Fprintf(e.stderr, "embedd: note: %s: no features: %s\n", c.name, listed(none))
	}
}

// named is the columns that are something else than features.
func (c *columns) named() string {
	text := ""
	for _, x := range [][2]string{{"label", c.label}, {"key", c.key}} {
		if slices.ContainsFunc(c.fields, func(f arrowio.Field) bool { return f.Name == x[1] }) {
			text += fmt.Sprintf("; %s: %s", x[0], x[1])
		}
	}
	return text
}

// why a column is no feature.
func (c *columns) why(f arrowio.Field, in *file.Reader) string {
	switch {
	case f.Empty || c.empty[f.Name]:
		return "no value in any row"
	case strings.Contains(f.Holds, "number"):
		return c.other
	}
	if why, doubtful := in.NotNumeric(f.Name); doubtful {
		return f.Holds + ": " + why
	}
	return f.Holds
}
