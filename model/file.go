package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
)

// The model file is described for other languages in docs/model-file.md: magic, version, then two sections. The
// content section is a JSON header and the float64 arrays that it names; its SHA-256 is the model's digest. The note
// section holds note and report as JSON, with a separate checksum.
const (
	magic  = "embedd\r\n" // detects transfers that rewrite line ends
	align8 = 8

	// DefaultFileLimit is the size in bytes above which Read refuses a model file.
	DefaultFileLimit = 256 << 20
)

// header is the JSON header of the content section. Equal content gives equal bytes: fields in this order, sorted map
// keys, and no escapes that JSON does not require except U+2028 and U+2029.
type header struct {
	Method   string            `json:"method"`
	Map      string            `json:"map"`
	Dim      int               `json:"dim"`
	Features []string          `json:"features"`
	Classes  []string          `json:"classes"`
	Unit     bool              `json:"unit"`
	Wide     bool              `json:"float64"`
	Rows     int               `json:"rows"`
	Rank     int               `json:"informative_rank"`
	Params   map[string]string `json:"params"`
	Arrays   []arrayHead       `json:"arrays"`
}

type arrayHead struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// noteSection is the note section.
type noteSection struct {
	Note   Note   `json:"note"`
	Report Report `json:"report"`
}

// newestVersion is the newest version of the file that this program reads.
const newestVersion = 2

// fileVersion is the version of a model's file: 2 where version 1 would have two arrays of one name, and otherwise 1,
// which older programs read too.
func (m *Model) fileVersion() uint64 {
	if g, ok := m.mapping.(*mapping.Geodesic); ok && !g.Version1 {
		return 2
	}
	return 1
}

// checkNames refuses two arrays of one name, since readers look arrays up by name. A map geodesic of version 1 has two
// arrays mean.
func checkNames(arrays []arrayHead, kind string, version uint64) error {
	known := map[string]bool{}
	for i, a := range arrays {
		if known[a.Name] && !(version == 1 && kind == "geodesic" && a.Name == "mean") {
			return fmt.Errorf("two arrays have the name %q, the second is array %d of %d of a map %s", a.Name, i+1, len(arrays),
				kind)
		}
		known[a.Name] = true
	}
	return nil
}

// allArrays are the arrays of the content: the arrays that every model has, then those of its map.
func (m *Model) allArrays() []mapping.Array {
	return append([]mapping.Array{
		{Name: "mean", Shape: []int{len(m.fitted.Mean)}, Data: m.fitted.Mean},
		{Name: "scale", Shape: []int{len(m.fitted.Scale)}, Data: m.fitted.Scale},
		{Name: "eigenvalues", Shape: []int{len(m.fitted.Eigenvalues)}, Data: m.fitted.Eigenvalues},
	}, m.mapping.Arrays()...)
}

// content is the content section.
func (m *Model) content() ([]byte, error) {
	h, arrays, err := m.header()
	if err != nil {
		return nil, err
	}
	size := 0
	for _, a := range arrays {
		size += 8 * len(a.Data)
	}
	b, err := section(h, size)
	if err != nil {
		return nil, err
	}
	for _, a := range arrays {
		for _, v := range a.Data {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b, nil
}

// header returns the header of the content, and the arrays that it names.
func (m *Model) header() (h header, arrays []mapping.Array, err error) {
	c := &m.fitted
	h = header{Method: c.Method, Map: m.mapping.Kind(), Dim: m.Dim(), Features: c.Features,
		Classes: orEmpty(c.Classes),
		Unit:    c.Unit, Wide: c.Float64, Rows: c.Rows, Rank: c.InformativeRank, Params: c.Params}
	if h.Params == nil {
		h.Params = map[string]string{}
	}
	arrays = m.allArrays()
	for _, a := range arrays {
		h.Arrays = append(h.Arrays, arrayHead{a.Name, a.Shape})
	}
	return h, arrays, checkNames(h.Arrays, h.Map, m.fileVersion())
}

// section starts a section: the length of its JSON and the JSON, padded with spaces to a multiple of 8 bytes, so that
// the arrays after it are aligned.
func section(v any, more int) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text.Truncate(text.Len() - 1) // the newline of the encoder
	for text.Len()%align8 != 0 {
		text.WriteByte(' ')
	}
	b := make([]byte, 0, 8+text.Len()+more)
	b = binary.LittleEndian.AppendUint64(b, uint64(text.Len()))
	return append(b, text.Bytes()...), nil
}

func digestOf(content []byte) [sha256.Size]byte { return sha256.Sum256(content) }

// Write writes the model file. The same model gives the same bytes.
func Write(w io.Writer, m *Model) error {
	if m == nil || m.mapping == nil {
		return errors.New("model file: there is no model to write")
	}
	digest := m.digest() // first: it may make a content too, which is then free
	content, err := m.content()
	if err != nil {
		return fmt.Errorf("model file: %w", err)
	}
	note, err := section(noteSection{m.note, m.fitted.Report}, 0)
	if err != nil {
		return fmt.Errorf("model file: note: %w", err)
	}
	b := make([]byte, 0, 32+len(content)+len(note)+2*sha256.Size)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, m.fileVersion())
	b = binary.LittleEndian.AppendUint64(b, uint64(len(content)))
	b = append(b, content...)
	b = append(b, digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(note)))
	b = append(b, note...)
	sum := sha256.Sum256(note)
	b = append(b, sum[:]...)
	_, err = w.Write(b)
	return err
}

// Read reads a model file of at most DefaultFileLimit bytes. The input need not be trusted: memory is bounded by the
// bytes that arrive, and a returned model has passed its checksums and every check of a fitted one. Nothing may follow
// the model.
func Read(r io.Reader) (*Model, error) { return ReadLimit(r, DefaultFileLimit) }

// ReadLimit is Read with another limit in bytes.
func ReadLimit(r io.Reader, limit int64) (_ *Model, err error) {
	defer parallel.Recover(&err, "model file")
	b, err := io.ReadAll(io.LimitReader(r, limit))
	if err != nil {
		return nil, fmt.Errorf("model file: %w", err)
	}
	if int64(len(b)) == limit {
		if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
			return nil, fmt.Errorf("model file: more than %d bytes; raise the limit if the model should be this large", limit)
		}
	}
	m, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("model file: %w", err)
	}
	return m, nil
}

var errTruncated = errors.New("truncated; copy or export it again")

func parse(b []byte) (_ *Model, err error) {
	defer fail.Catch(&err)
	if !bytes.HasPrefix(b, []byte(magic)) {
		panic(fail.With(errors.New("not a model file: it does not start with the magic bytes; name another file")))
	}
	b = b[len(magic):]
	if len(b) < 8 {
		panic(fail.With(errTruncated))
	}
	version := binary.LittleEndian.Uint64(b)
	if version < 1 || version > newestVersion {
		panic(fail.With(fmt.Errorf("version %d, this program reads versions 1 to %d; use the release that wrote it", version,
			newestVersion)))
	}
	content, sum, rest := cut(b[8:])
	if digestOf(content) != sum {
		panic(fail.With(errors.New("the content does not match its digest; the file is damaged: copy or export it again")))
	}
	note, noteSum, rest := cut(rest)
	if sha256.Sum256(note) != noteSum {
		panic(fail.With(errors.New("the note does not match its checksum; the file is damaged")))
	}
	if len(rest) > 0 {
		panic(fail.With(fmt.Errorf("%d bytes follow the model", len(rest))))
	}
	m := parseContent(content, version)
	if v := m.fileVersion(); v != version {
		panic(fail.With(fmt.Errorf("it says version %d, and the arrays of its map %s are those of version %d", version,
			m.mapping.Kind(), v)))
	}
	if again, err := m.content(); err != nil || !bytes.Equal(again, content) {
		panic(fail.With(errors.New("the header is not in its one canonical form")))
	}
	var remarks noteSection
	text, rest := cutLength(note)
	if len(rest) > 0 {
		panic(fail.With(errors.New("note: bytes follow the JSON")))
	}
	if err := json.Unmarshal(text, &remarks); err != nil {
		panic(fail.With(fmt.Errorf("note: %w", err)))
	}
	if c := remarks.Note.Conversion; c != nil {
		if err := c.check(m.Dim()); err != nil {
			panic(fail.With(fmt.Errorf("note: %w", err)))
		}
	}
	if year := remarks.Note.Created.UTC().Year(); year < 0 || year > 9999 { // which JSON cannot have, in UTC
		panic(fail.With(fmt.Errorf("note: created in the year %d in UTC, and years have four digits", year)))
	}
	if n := remarks.Note.Nulls; !slices.Contains([]string{"", "reject", "impute", "skip"}, n) {
		panic(fail.With(fmt.Errorf("note: nulls %q is unknown to this program; use the release that wrote it", n)))
	}
	m.fitted.Report = remarks.Report
	return m.WithNote(remarks.Note), nil
}

// cut takes a length n, n bytes and their checksum from b.
func cut(b []byte) (body []byte, sum [sha256.Size]byte, rest []byte) {
	body, rest = cutLength(b)
	if len(rest) < len(sum) {
		panic(fail.With(errTruncated))
	}
	return body, [sha256.Size]byte(rest), rest[len(sum):]
}

// cutLength takes a length n and n bytes from b.
func cutLength(b []byte) (body, rest []byte) {
	if len(b) < 8 {
		panic(fail.With(errTruncated))
	}
	n := binary.LittleEndian.Uint64(b)
	b = b[8:]
	if n > uint64(len(b)) {
		panic(fail.With(errTruncated))
	}
	return b[:n], b[n:]
}

func parseContent(content []byte, version uint64) *Model {
	text, data := cutLength(content)
	var h header
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		panic(fail.With(fmt.Errorf("header: %w", err)))
	}
	fail.Check(checkNames(h.Arrays, h.Map, version))
	arrays := parseArrays(h.Arrays, data)
	if len(arrays) < 3 || arrays[0].Name != "mean" || arrays[1].Name != "scale" || arrays[2].Name != "eigenvalues" {
		panic(fail.With(errors.New("header: the arrays do not start with mean, scale and eigenvalues")))
	}
	rebuild, ok := mapping.Kinds[h.Map]
	if !ok {
		panic(fail.With(fmt.Errorf("header: map %q is not known to this program; use a newer release", h.Map)))
	}
	mp := rebuild(arrays[3:])
	if h.Dim != mp.Dim() {
		panic(fail.With(fmt.Errorf("header: dim is %d, the arrays have %d", h.Dim, mp.Dim())))
	}
	m := &Model{mapping: mp, fitted: Content{Method: h.Method, Params: h.Params, Features: h.Features, Classes: h.Classes,
		Rows: h.Rows, Unit: h.Unit, Float64: h.Wide, Mean: arrays[0].Data, Scale: arrays[1].Data,
		Eigenvalues: arrays[2].Data, InformativeRank: h.Rank}}
	if len(h.Classes) == 0 {
		m.fitted.Classes = nil
	}
	if len(m.fitted.Eigenvalues) == 0 {
		m.fitted.Eigenvalues = nil
	}
	return fail.Must(m.seal())
}

// parseArrays cuts data into the arrays that the heads name. It allocates no more than the size of data.
func parseArrays(heads []arrayHead, data []byte) []mapping.Array {
	if len(data)%8 != 0 {
		panic(fail.With(errTruncated))
	}
	arrays := make([]mapping.Array, len(heads))
	for i, h := range heads {
		count := 1
		for _, n := range h.Shape {
			if n < 0 || (n > 0 && count > len(data)/8/n) {
				panic(fail.With(fmt.Errorf("array %q of shape %v is larger than the file", h.Name, h.Shape)))
			}
			count *= n
		}
		if count > len(data)/8 { // of no axes it is 1
			panic(fail.With(fmt.Errorf("array %q of shape %v is larger than the file", h.Name, h.Shape)))
		}
		v := make([]float64, count)
		for k := range v {
			v[k] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*k:]))
		}
		data = data[8*count:]
		arrays[i] = mapping.Array{Name: h.Name, Shape: h.Shape, Data: v}
	}
	if len(data) > 0 {
		panic(fail.With(fmt.Errorf("%d bytes belong to no array", len(data))))
	}
	return arrays
}
