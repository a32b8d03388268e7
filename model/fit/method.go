package fit

import (
	"slices"

	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
)

// Auto requests the method that is best by cross-validation.
const Auto = choose.Name

// AutoDim requests the dimension that is best by cross-validation, of 2, 5, 10, 20 and C-1. Methods that do not learn
// from labels take their default.
const AutoDim = -1

// Blend is the method of a model that blends several, as Auto makes it of its best candidates. Its parameter members
// names them, so that other rows can be fitted in the same way.
const Blend = blend.Name

// Method describes a method. It is a copy.
type Method struct {
	Name       string  `json:"name"`
	Title      string  `json:"title"`
	Paper      string  `json:"paper"`
	Supervised bool    `json:"supervised"`
	Map        string  `json:"map"`       // linear, kernel or extension
	Streaming  string  `json:"streaming"` // moments: fits from statistics alone; window: needs the rows
	Params     []Param `json:"params"`
	// ByClasses reports whether the default dimension depends on the number of classes.
	ByClasses bool `json:"-"`
}

// Param is a parameter of a method.
type Param struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
	// Grid are the values that Tune tries, including the default; nil: the default alone.
	Grid []string `json:"grid,omitempty"`
}

func describe(m *frame.Method) Method {
	d := Method{Name: m.Name, Title: m.Title, Paper: m.Paper, Supervised: m.Supervised, Map: m.Map,
		Streaming: m.Streaming, ByClasses: m.Dim != nil,
		Params: make([]Param, len(m.Params))}
	for i, p := range m.Params {
		d.Params[i] = Param{Name: p.Name, Default: p.Default, Doc: p.Doc, Grid: slices.Clone(p.Grid)}
	}
	return d
}

// Methods returns every method, in the order of the table. Auto and Blend, which resolve to others, are not among
// them.
func Methods() []Method {
	out := make([]Method, len(method.Table))
	for i, m := range method.Table {
		out[i] = describe(m)
	}
	return out
}

// Lookup finds a method by name, Auto and Blend included. The error lists the names, the most similar one first.
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
		return &choose.Method, nil
	case Blend:
		return &blend.Method, nil
	}
	return method.Find(name)
}
