package fit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/internal/spell"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
)

// Method is what there is to know of a way to learn a projection. It is a copy.
type Method struct {
	Name       string  `json:"name"`
	Title      string  `json:"title"`
	Paper      string  `json:"paper"`
	Supervised bool    `json:"supervised"`
	Map        string  `json:"map"`       // linear, kernel or extension
	Streaming  string  `json:"streaming"` // moments: fits from statistics alone; window: needs the rows
	Params     []Param `json:"params"`
}

// Param is a parameter of a method.
type Param struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
	// Grid are the values that tuning tries, the default among them; nil: the default alone.
	Grid []string `json:"grid,omitempty"`
}

// describe copies what there is to know of a method.
func describe(m *frame.Method) Method {
	d := Method{Name: m.Name, Title: m.Title, Paper: m.Paper, Supervised: m.Supervised, Map: m.Map,
		Streaming: m.Streaming,
		Params:    make([]Param, len(m.Params))}
	for i, p := range m.Params {
		d.Params[i] = Param{Name: p.Name, Default: p.Default, Doc: p.Doc, Grid: slices.Clone(p.Grid)}
	}
	return d
}

// Methods returns every method, in the order of the table. Auto, which stands for
// one of them, is none of them.
func Methods() []Method {
	out := make([]Method, len(method.Table))
	for i, m := range method.Table {
		out[i] = describe(m)
	}
	return out
}

// Lookup finds a method by name, Auto too. The error names the nearest one first.
func Lookup(name string) (Method, error) {
	m, err := lookup(name)
	if err != nil {
		return Method{}, err
	}
	return describe(m), nil
}

func lookup(name string) (*frame.Method, error) {
	switch name {
	case Auto:
		return &auto, nil
	case Blend:
		return &blend, nil
	}
	return ofTable(name)
}

// ofTable finds a method that is one, as Auto and Blend are not.
func ofTable(name string) (*frame.Method, error) {
	names := make([]string, len(method.Table))
	for i, m := range method.Table {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return nil, fmt.Errorf("unknown method %q; the nearest is %s", name, nearestFirst(name, names))
}

// nearestFirst lists the names by edit distance to name: "lda, or one of pca".
func nearestFirst(name string, names []string) string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return spell.Distance(name, a) - spell.Distance(name, b) })
	if len(names) == 1 {
		return names[0]
	}
	rest := slices.Clone(names[1:])
	slices.Sort(rest)
	return names[0] + ", the others are " + strings.Join(rest, ", ")
}
