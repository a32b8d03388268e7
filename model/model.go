package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// Model is a fitted projection from M features to Dim outputs. It is immutable and safe for concurrent use. Slices and
// maps that its methods return are copies, except those of Content and Report. The zero value is not usable: New, Read
// and package fit make models.
type Model struct {
	fitted  Content // without the map
	mapping mapping.Map
	note    Note

	// Set by seal.
	digest     func() [sha256.Size]byte // computed by the first call
	projection *projection
}

// Note is what is known about a model besides its content: its origin and its version. It does not change the digest.
type Note struct {
	Created time.Time         `json:"created,omitzero"`
	Version string            `json:"version,omitempty"` // name in a model store
	Epoch   uint64            `json:"epoch,omitempty"`   // outputs are comparable within one epoch
	Source  map[string]string `json:"source,omitempty"`  // free form: stream, first, last, file, ...
	// SameAs is the first of the epochs that are recorded as one with Epoch, since their outputs are comparable; 0:
	// none.
	SameAs uint64 `json:"same_as_epoch,omitempty"`
	// Conversion turns outputs of the epoch before into outputs of this model, if the model begins an epoch.
	Conversion *Conversion `json:"conversion,omitempty"`
	// Nulls is what the fit did with rows that have a missing feature, and so what becomes of them wherever the model
	// is used: reject, impute or skip; "" in files of versions that did not record it.
	Nulls string `json:"nulls,omitempty"`
	// Categories are columns of text that the fit made features of: city=Rome is 1 where city is Rome, else 0. Dates
	// are columns whose feature is the number of days since 1970-01-01. Code that uses the model encodes its rows in
	// this way.
	Categories []string `json:"categories,omitempty"`
	Dates      []string `json:"dates,omitempty"`
}

// Mapping turns a scaled row into outputs. Package fit makes mappings of a fixed set of kinds; [New] accepts no others.
type Mapping interface {
	Kind() string // see Model.Map
	Dim() int     // outputs of a row
}

// Content is everything that a model consists of. Package fit makes it. Other maps become models through the file
// format, see [Read].
type Content struct {
	Method   string
	Params   map[string]string // as used: every parameter with its effective value
	Features []string          // m names
	Classes  []string          // nil: fitted without labels
	Rows     int               // rows it was fitted on

	Unit        bool      // each row is first divided by its Euclidean norm
	Float64     bool      // the outputs are small differences of large terms: project in float64
	Mean, Scale []float64 // m each; scales are positive

	Map             Mapping
	Eigenvalues     []float64 // as the method reports them, or nil
	InformativeRank int       // leading outputs that the criterion decides
	Report          Report
}

// New makes a model of its content and takes ownership of it. It checks that all shapes match, that all numbers are
// finite, and that the content has how the fit ended and the values of its parameters. [Read] does not need the
// last two, which older files lack.
func New(c Content) (*Model, error) {
	if err := c.checkFit(); err != nil {
		return nil, fmt.Errorf("model %q: %w", c.Method, err)
	}
	mapped, _ := c.Map.(mapping.Map)
	c.Map = nil // of an aligned model it would be the map of another
	return (&Model{fitted: c, mapping: mapped}).seal()
}

// checkFit checks what the fit reports.
func (c *Content) checkFit() error {
	switch c.Report.Convergence {
	case Direct, Converged, Stopped:
	case "":
		return fmt.Errorf("the fit does not report its convergence; set Report.Convergence to direct, converged or stopped")
	default:
		return fmt.Errorf("convergence %q; it must be direct, converged or stopped", c.Report.Convergence)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		if c.Params[name] == "auto" {
			return fmt.Errorf("parameter %s is auto; give the value that the fit used", name)
		}
	}
	return nil
}

// Content is what the model consists of. Its slices and maps are shared with the model and must not be changed.
func (m *Model) Content() Content {
	c := m.fitted
	c.Map = m.mapping
	return c
}

// seal checks the content and builds the tables of the projection. Every model is sealed once. The digest is computed
// when it is needed: most candidates of a stage never go live.
func (m *Model) seal() (*Model, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("model %q: %w", m.fitted.Method, err)
	}
	var err error
	c := &m.fitted
	if m.projection, err = newProjection(c.Mean, c.Scale, c.Unit, c.Float64, m.mapping); err != nil {
		return nil, fmt.Errorf("model %q: %w", m.fitted.Method, err)
	}
	if _, _, err := m.header(); err != nil {
		return nil, fmt.Errorf("model %q: %w", m.fitted.Method, err)
	}
	m.digest = sync.OnceValue(func() [sha256.Size]byte {
		content, err := m.content()
		if err != nil {
			panic(err) // its header was checked, and encoding texts and integers as JSON does not fail
		}
		return digestOf(content)
	})
	return m, nil
}

func (m *Model) check() error {
	n := len(m.fitted.Mean)
	switch {
	case m.fitted.Method == "":
		return fmt.Errorf("no method name")
	case n == 0:
		return fmt.Errorf("no features")
	case len(m.fitted.Scale) != n:
		return fmt.Errorf("%d scales for %d means", len(m.fitted.Scale), n)
	case len(m.fitted.Features) != n:
		return fmt.Errorf("%d feature names for %d features", len(m.fitted.Features), n)
	case m.mapping == nil:
		return fmt.Errorf("no mapping")
	case m.mapping.Dim() < 1:
		return fmt.Errorf("dimension %d; it must be at least 1", m.mapping.Dim())
	case m.fitted.Rows < 0 || m.fitted.InformativeRank < 0:
		return fmt.Errorf("rows %d, informative rank %d; neither may be negative", m.fitted.Rows, m.fitted.InformativeRank)
	}
	for j, s := range m.fitted.Scale {
		if !(s > 0) || !linalg.IsFinite(s) {
			return fmt.Errorf("scale of feature %q is %g; it must be positive and finite", m.fitted.Features[j], s)
		}
	}
	for _, names := range [][]string{{m.fitted.Method}, m.fitted.Features, m.fitted.Classes} {
		for _, s := range names {
			if !utf8.ValidString(s) {
				return fmt.Errorf("name %q is not valid UTF-8; rename the feature or class", s)
			}
		}
	}
	if err := mapping.CheckNames(m.fitted.Features, m.fitted.Classes); err != nil {
		return err
	}
	for k, v := range m.fitted.Params {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("parameter %q is not valid UTF-8", k)
		}
	}
	if err := m.mapping.Check(n, len(m.fitted.Classes)); err != nil {
		return err
	}
	for _, a := range m.allArrays() {
		for i, v := range a.Data {
			if !linalg.IsFinite(v) {
				return fmt.Errorf("%s[%d] is %g; a model holds finite numbers only", a.Name, i, v)
			}
		}
	}
	return nil
}

// exists returns an error that names the argument if there is no model: for nil and for the zero value.
func (m *Model) exists(argument string) error {
	if m == nil || m.mapping == nil {
		return fmt.Errorf("%s is no model; make one with New, Read or package fit", argument)
	}
	return nil
}

// Method is the name of the method that fitted the model.
func (m *Model) Method() string { return m.fitted.Method }

// Dim is the number of outputs of a row, d.
func (m *Model) Dim() int { return m.mapping.Dim() }

// M is the number of features of a row, m.
func (m *Model) M() int { return len(m.fitted.Mean) }

// Features are the names of the m features, in the order a row has them.
func (m *Model) Features() []string { return slices.Clone(m.fitted.Features) }

// Classes are the names of the classes it was fitted on, nil for none.
func (m *Model) Classes() []string { return slices.Clone(m.fitted.Classes) }

// Rows is the number of rows it was fitted on.
func (m *Model) Rows() int { return m.fitted.Rows }

// Mean is subtracted from each feature and replaces missing values. It is the mean of the rows of the fit, unless Align
// has shifted the outputs of a linear map.
func (m *Model) Mean() []float64 { return slices.Clone(m.fitted.Mean) }

// Scale divides each centred feature.
func (m *Model) Scale() []float64 { return slices.Clone(m.fitted.Scale) }

// Unit reports whether each row is divided by its Euclidean norm before anything else.
func (m *Model) Unit() bool { return m.fitted.Unit }

// Eigenvalues of the method's criterion, one for each output column; nil if the method has none.
func (m *Model) Eigenvalues() []float64 { return slices.Clone(m.fitted.Eigenvalues) }

// InformativeRank is the number of leading output columns that the method's criterion decides; the rest follow from a
// tie-break.
func (m *Model) InformativeRank() int { return m.fitted.InformativeRank }

// Params are the parameters as used.
func (m *Model) Params() map[string]string { return maps.Clone(m.fitted.Params) }

// Map is the kind of the map: "linear" for y = ((x - mean)/scale) · A, "views" for one such map per class, "kernel"
// for a sum of kernels of x and rows of the fit, "sum" for a sum of linear maps of the features and of their normal
// scores and a kernel map, and the rules that extend an embedding of the rows of the fit to others: "nystrom",
// "barycentric", "geodesic", "tangent" and "similarity".
func (m *Model) Map() string { return m.mapping.Kind() }

// Report is what the fit found and decided. Its slices and pointers are shared with the model and must not be changed.
func (m *Model) Report() Report { return m.fitted.Report }

// Digest identifies the content of the model: the SHA-256 of the content section of its file, in hexadecimal. Note and
// report do not change it.
func (m *Model) Digest() string {
	digest := m.digest()
	return hex.EncodeToString(digest[:])
}

// Components is the m x d matrix A of a linear map, row-major; nil for other maps.
func (m *Model) Components() []float64 {
	if l, ok := m.mapping.(*mapping.Linear); ok {
		return slices.Clone(l.Components)
	}
	return nil
}

// Note returns the note.
func (m *Model) Note() Note {
	n := m.note
	n.Source = maps.Clone(n.Source)
	n.Categories, n.Dates = slices.Clone(n.Categories), slices.Clone(n.Dates)
	return n
}

// WithNote returns the same model with another note.
func (m *Model) WithNote(n Note) *Model {
	c := *m
	c.note = n
	c.note = c.Note() // a copy
	c.note.Created = n.Created.Round(0).UTC()
	return &c
}

// MarshalJSON gives the form that the command model show prints. The components of a linear map are m rows of d.
func (m *Model) MarshalJSON() ([]byte, error) {
	type view struct {
		Class      string      `json:"class"`
		Components [][]float64 `json:"components"`
		Offset     []float64   `json:"offset"`
	}
	c := &m.fitted
	form := struct {
		Version     string            `json:"version"`
		Digest      string            `json:"digest"`
		Method      string            `json:"method"`
		Map         string            `json:"map"`
		Dim         int               `json:"dim"`
		Features    []string          `json:"features"`
		Classes     []string          `json:"classes"`
		Unit        bool              `json:"unit"`
		Wide        bool              `json:"float64"`
		Mean        []float64         `json:"mean"`
		Scale       []float64         `json:"scale"`
		Components  [][]float64       `json:"components"`
		Views       []view            `json:"views,omitempty"`
		Eigenvalues []float64         `json:"eigenvalues"`
		Rank        int               `json:"informative_rank"`
		Params      map[string]string `json:"params"`
		Rows        int               `json:"rows"`
		Nulls       string            `json:"nulls,omitempty"`
		Categories  []string          `json:"categories,omitempty"`
		Dates       []string          `json:"dates,omitempty"`
		Epoch       uint64            `json:"epoch"`
		SameAs      uint64            `json:"same_as_epoch,omitempty"`
		Source      map[string]string `json:"source"`
		Created     *time.Time        `json:"created"`
		Report      Report            `json:"report"`
		Conversion  *Conversion       `json:"conversion,omitempty"`
	}{
		Version: m.note.Version, Digest: m.Digest(), Method: c.Method, Map: m.Map(), Dim: m.Dim(),
		Features: c.Features, Classes: orEmpty(c.Classes), Unit: c.Unit, Wide: c.Float64, Mean: c.Mean, Scale: c.Scale,
		Eigenvalues: orEmpty(c.Eigenvalues), Rank: c.InformativeRank, Params: c.Params, Rows: c.Rows, Nulls: m.note.Nulls,
		Categories: m.note.Categories, Dates: m.note.Dates,
		Epoch: m.note.Epoch, SameAs: m.note.SameAs, Source: m.note.Source, Report: c.Report, Conversion: m.note.Conversion,
	}
	form.Version = cmp.Or(form.Version, m.Digest()[:16])
	if form.Params == nil {
		form.Params = map[string]string{}
	}
	if form.Source == nil {
		form.Source = map[string]string{}
	}
	if !m.note.Created.IsZero() {
		form.Created = &m.note.Created
	}
	switch a := m.mapping.(type) {
	case *mapping.Linear:
		form.Components = matrix(a.Components, a.D)
	case *mapping.Views:
		for c, name := range c.Classes {
			form.Views = append(form.Views, view{name, matrix(a.Of(c), a.D), a.Offset[c*a.D : (c+1)*a.D]})
		}
	}
	return json.Marshal(form)
}

// matrix is a view of row-major data as rows of d.
func matrix(data []float64, d int) [][]float64 {
	rows := make([][]float64, 0, len(data)/d)
	for len(data) > 0 {
		rows = append(rows, data[:d])
		data = data[d:]
	}
	return rows
}

// orEmpty makes JSON contain [] instead of null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
