package frame

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/linalg"
)

// HeatParam is the width t of the weights exp(-d^2/t).
func HeatParam(def, doc string) Param {
	return number("t", def, doc, "> 0", func(v float64) bool { return v > 0 }, "auto", "inf")
}

// HeatDoc describes the width of heat weights. The default of methods that embed rows is inf: a row is joined equally
// with its neighbours, however far they are. Weights of a width fall with the distance, so rows that are far from all
// others are almost separate, and the lowest eigenvectors show them in place of the rest.
const HeatDoc = "width of the weights exp(-d^2/t): inf (weight 1), auto (mean squared distance to the nearest row), " +
	"or a number"

// ComponentsParam selects whether a disconnected graph is connected or refused.
var ComponentsParam = Choice("components", "connect",
	"a graph of several components: connect them by the shortest edges, or error",
	string(graph.Connect), string(graph.Refuse))

// Param is a parameter of a method.
type Param struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
	// Grid are the values that tuning tries, the default among them; nil: the default alone.
	Grid []string `json:"grid,omitempty"`

	Check func(string) error
}

// WithGrid is the parameter with the values that tuning tries.
func (p Param) WithGrid(values ...string) Param {
	p.Grid = values
	return p
}

// Choice is a parameter with named values.
func Choice(name, def, doc string, values ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, Check: func(s string) error {
		if !slices.Contains(values, s) {
			return fmt.Errorf("%q is not allowed; give one of %s", s, strings.Join(values, ", "))
		}
		return nil
	}}
}

// IntParam is a whole number of at least least, or one of the words.
func IntParam(name, def, doc string, least int, words ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, Check: func(s string) error {
		if v, err := strconv.Atoi(s); slices.Contains(words, s) || err == nil && v >= least {
			return nil
		}
		return fmt.Errorf("%q is not allowed; give %sa whole number >= %d", s, alternatives(words), least)
	}}
}

// FloatParam is a number in [low, high], or one of the words.
func FloatParam(name, def, doc string, low, high float64, words ...string) Param {
	return number(name, def, doc, fmt.Sprintf("in [%g, %g]", low, high),
		func(v float64) bool { return v >= low && v <= high }, words...)
}

// number is a finite number that ok accepts, which bound describes, or one of the words.
func number(name, def, doc, bound string, ok func(v float64) bool, words ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, Check: func(s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if slices.Contains(words, s) || err == nil && ok(v) && linalg.IsFinite(v) {
			return nil
		}
		return fmt.Errorf("%q is not allowed; give %sa number %s", s, alternatives(words), bound)
	}}
}

// alternatives lists words for an error: "auto, inf or ".
func alternatives(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, ", ") + " or "
}

// RidgeParam is the ridge of a denominator. If words is false, only a number is allowed.
func RidgeParam(def, doc string, words bool) Param {
	allowed := []string{"auto", "oas"}
	if !words {
		allowed = nil
	}
	return number("ridge", def, doc, ">= 0", func(v float64) bool { return v >= 0 }, allowed...)
}

// OriginParam is the point that sums of products are about.
func OriginParam(def string) Param {
	return Choice("origin", def, "what sums of products are about: the mean of the rows, "+
		"none (the zero of the scaled features), or augment (the mean, with a constant feature appended)",
		"mean", "none", "augment")
}

// The grids of the SLE paper: neighbour counts, and widths sigma of the heat
// kernel exp(-d^2/sigma^2) for features in [0, 1], here as t = sigma^2.
var (
	NeighbourCounts = []string{"5", "10", "15", "20", "25", "30"}
	HeatWidths      = []string{"auto", "0.0001", "0.01", "0.25", "1", "100"} // sigma 0.01, 0.1, 0.5, 1, 10
)
