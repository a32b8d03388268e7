package model

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Method is one way to learn a projection.
type Method struct {
	Name       string  `json:"name"`
	Title      string  `json:"title"`
	Paper      string  `json:"paper"`
	Supervised bool    `json:"supervised"`
	Map        string  `json:"map"`       // linear, kernel or extension
	Streaming  string  `json:"streaming"` // moments: fits from statistics alone; window: needs the rows
	Params     []Param `json:"params"`

	// dim is the dimension where none is asked for; bound the largest one that
	// the rows allow, with the words that name it in an error.
	dim   func(*task) int
	bound func(*task) (int, string)
	ridge *ridgeRule // nil: no ridge parameter
	fit   func(context.Context, *task) (*solution, error)
	// samples: the fit looks at the rows themselves, in task.x.
	samples bool
	// secondByClass: the fit reads second moments of every class.
	secondByClass bool
}

// Param is a parameter of a method.
type Param struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	Doc     string `json:"doc"`
	// Grid are the values that tuning tries, the default among them; nil: the default alone.
	Grid []string `json:"grid,omitempty"`

	check func(string) error
}

// tried is the parameter with the values that tuning tries.
func (p Param) tried(values ...string) Param {
	p.Grid = values
	return p
}

// solution is what a fit hands back, in the coordinates of its task.
type solution struct {
	components  []float64 // columns x d row-major
	d           int
	eigenvalues []float64
	informative int
	mapping     mapping // for maps that are not linear: in place of components
}

// methods is the table of all methods. A new method is a file with its Method
// and a line here. Its fit finds scatters in scaled coordinates (task.stat), the
// dimension (task.d) and the relative ridge (task.ridge) settled and checked; it
// builds a numerator and a denominator, solves the pencil and returns
// task.solved. Components go back to the features, and signs are fixed, after it.
var methods = []*Method{
	&pca,
	&lda,
	&srda,
	&sle,
	&sleOvR,
	&pairacc,
	&mfa,
	&lfda,
	&dla,
	&lsda,
	&lpp,
	&npe,
	&lltsa,
	&le,
	&lle,
	&isomap,
	&lsmpa,
	&ksmpa,
	&lenews,
	&lenewks,
	&lppnews,
	&tnca,
	&dawge,
	&lsdr,
	&mpda,
	&pmpda,
	&tsimr,
	&mpTSIMR,
	&ltsimr,
	&mpLTSIMR,
	&lpfe,
}

// Methods returns every method, in the order of the table. Auto, which stands for
// one of them, is none of them.
func Methods() []Method {
	out := make([]Method, len(methods))
	for i, m := range methods {
		out[i] = m.clone()
	}
	return out
}

// clone shares nothing that a caller could change.
func (m *Method) clone() Method {
	c := *m
	c.Params = slices.Clone(m.Params)
	for i, p := range c.Params {
		c.Params[i].Grid = slices.Clone(p.Grid)
	}
	return c
}

// Lookup finds a method by name, Auto too. The error names the nearest one first.
func Lookup(name string) (Method, error) {
	m, err := lookup(name)
	if err != nil {
		return Method{}, err
	}
	return m.clone(), nil
}

func lookup(name string) (*Method, error) {
	if name == Auto {
		return &auto, nil
	}
	names := make([]string, len(methods))
	for i, m := range methods {
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
	slices.SortStableFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if len(names) == 1 {
		return names[0]
	}
	rest := slices.Clone(names[1:])
	slices.Sort(rest)
	return names[0] + ", the others are " + strings.Join(rest, ", ")
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// resolve fills in the defaults of the method's parameters and checks given.
func (m *Method) resolve(given map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(m.Params))
	for _, p := range m.Params {
		out[p.Name] = p.Default
	}
	for _, name := range sortedKeys(given) {
		i := slices.IndexFunc(m.Params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			if len(m.Params) == 0 {
				return nil, fmt.Errorf("method %s has no parameter %q; it takes none", m.Name, name)
			}
			var names []string
			for _, p := range m.Params {
				names = append(names, p.Name)
			}
			return nil, fmt.Errorf("method %s has no parameter %q; allowed: %s", m.Name, name, strings.Join(names, ", "))
		}
		if err := m.Params[i].check(given[name]); err != nil {
			return nil, fmt.Errorf("method %s, parameter %s: %w", m.Name, name, err)
		}
		out[name] = given[name]
	}
	return out, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// choice is a parameter with named values.
func choice(name, def, doc string, values ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, check: func(s string) error {
		if !slices.Contains(values, s) {
			return fmt.Errorf("%q is not allowed; give one of %s", s, strings.Join(values, ", "))
		}
		return nil
	}}
}

// intParam is a whole number of at least least, or one of the words.
func intParam(name, def, doc string, least int, words ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, check: func(s string) error {
		if v, err := strconv.Atoi(s); slices.Contains(words, s) || err == nil && v >= least {
			return nil
		}
		return fmt.Errorf("%q is not allowed; give %sa whole number >= %d", s, alternatives(words), least)
	}}
}

// floatParam is a number in [low, high], or one of the words.
func floatParam(name, def, doc string, low, high float64, words ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, check: func(s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if slices.Contains(words, s) || err == nil && v >= low && v <= high && isFinite(v) {
			return nil
		}
		return fmt.Errorf("%q is not allowed; give %sa number in [%g, %g]", s, alternatives(words), low, high)
	}}
}

// alternatives is "auto, inf or " of auto and inf.
func alternatives(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, ", ") + " or "
}

// int and float are the values of such parameters, once words are dealt with.
func (t *task) int(name string) int {
	v, _ := strconv.Atoi(t.params[name]) // checked by the parameter
	return v
}

func (t *task) float(name string) float64 {
	v, _ := strconv.ParseFloat(t.params[name], 64)
	return v
}

// ridgeParam is the ridge of a denominator. Where words is false only a number
// is allowed.
func ridgeParam(def, doc string, words bool) Param {
	return Param{Name: "ridge", Default: def, Doc: doc, check: func(s string) error {
		if words && (s == "auto" || s == "oas") {
			return nil
		}
		r, err := strconv.ParseFloat(s, 64)
		if err != nil || !(r >= 0) || !isFinite(r) {
			if words {
				return fmt.Errorf("%q is not allowed; give auto, oas or a number >= 0", s)
			}
			return fmt.Errorf("%q is not allowed; give a number >= 0", s)
		}
		return nil
	}}
}
