package model

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/embedd/embedd/internal/bound"
	"github.com/embedd/embedd/model/internal/mapping"
)

// fileModels are one model of each kind, with everything set that a file holds.
func fileModels(t testing.TB) []*Model {
	lin := randomLinear(t, 5, 2, 1e4, 1)
	lin.fitted.Classes = []string{"a<b>&c", "é\u2028\"\\"}
	lin.fitted.Params = map[string]string{"ridge": "auto", "alpha": "1"}
	lin.fitted.Eigenvalues = []float64{3, math.Copysign(0, -1), 5e-324}
	lin.fitted.InformativeRank = 1
	lin.fitted.Unit = true
	lin.fitted.Report = Report{Rows: 10, Notes: []string{"one note"}, Phases: []Phase{{"eigen", 0.25}}}
	lin = seal(t, lin).WithNote(Note{Created: time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.FixedZone("x", 3600)),
		Version: "v7", Epoch: 3, Source: map[string]string{"stream": "FEATURES", "first": "18446744073709551615"}})
	x := randomLinear(t, 4, 1, 0, 1)
	_, w := rowsOf(x, 6)
	all := []*Model{lin, randomViews(t, 4, 2, 3, DenseRows(w, 6, 4), []int{0, 1, 2, 0, 1, 2})}
	mappings := rowMappings(4, 2)
	for _, name := range slices.Sorted(maps.Keys(mappings)) {
		all = append(all, withMapping(t, 2, mappings[name]))
	}
	return all
}

func fileOf(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is read equals what was written, and writes the same bytes again.
func TestFileRoundTrip(t *testing.T) {
	for _, m := range []*Model{nil, {}} {
		if err := Write(io.Discard, m); err == nil || !strings.Contains(err.Error(), "no model") {
			t.Errorf("a model without content: %v", err)
		}
	}
	for _, m := range fileModels(t) {
		b := fileOf(t, m)
		got, err := Read(iotest.OneByteReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fileOf(t, got), b) {
			t.Error("a model that was read writes other bytes")
		}
		if got.Digest() != m.Digest() || !reflect.DeepEqual(got.Note(), m.Note()) ||
			!reflect.DeepEqual(got.Report(), m.Report()) {
			t.Errorf("digest, note or report differ: %+v, %+v", got.Note(), m.Note())
		}
		a, _ := m.MarshalJSON()
		c, _ := got.MarshalJSON()
		if !bytes.Equal(a, c) {
			t.Errorf("shown differently:\n%s\n%s", a, c)
		}
		x := make([]float64, 3*m.M())
		for i := range x {
			x[i] = math.Cos(float64(i))
		}
		rows := DenseRows(x, 3, m.M())
		if !sameBits(project(t, m, rows), project(t, got, rows)) {
			t.Error("a model that was read projects differently")
		}
	}
}

// The digest is that of the content: it changes with every part of it, and not with the note and the report.
func TestDigest(t *testing.T) {
	m := fileModels(t)[0]
	if m.WithNote(Note{Version: "other"}).Digest() != m.Digest() {
		t.Error("the note changes the digest")
	}
	change := func(name string, f func(c *Model)) {
		c := *m
		f(&c)
		if seal(t, &c).Digest() == m.Digest() {
			t.Errorf("%s does not change the digest", name)
		}
	}
	change("method", func(c *Model) { c.fitted.Method = "other" })
	change("params", func(c *Model) { c.fitted.Params = nil })
	change("features", func(c *Model) { c.fitted.Features = names("g", 5) })
	change("classes", func(c *Model) { c.fitted.Classes = nil })
	change("rows", func(c *Model) { c.fitted.Rows++ })
	change("unit", func(c *Model) { c.fitted.Unit = !c.fitted.Unit })
	change("wide", func(c *Model) { c.fitted.Float64 = true })
	change("mean", func(c *Model) { c.fitted.Mean = append([]float64{m.fitted.Mean[0] + 1e-11}, m.fitted.Mean[1:]...) })
	change("scale", func(c *Model) { c.fitted.Scale = append([]float64{m.fitted.Scale[0] * 2}, m.fitted.Scale[1:]...) })
	change("eigenvalues", func(c *Model) { c.fitted.Eigenvalues = nil })
	change("rank", func(c *Model) { c.fitted.InformativeRank = 2 })
	change("components", func(c *Model) {
		c.mapping = &mapping.Linear{D: 2, Components: append([]float64{0},
			m.mapping.(*mapping.Linear).Components[1:]...)}
	})
}

// Every truncation and every flipped bit of a file is an error, none a panic.
func TestFileDamage(t *testing.T) {
	for _, m := range fileModels(t) {
		b := fileOf(t, m)
		for n := range b {
			if _, err := Read(bytes.NewReader(b[:n])); err == nil {
				t.Fatalf("cut to %d of %d bytes: no error", n, len(b))
			}
		}
		for i := range b {
			for bit := range 8 {
				b[i] ^= 1 << bit
				if _, err := Read(bytes.NewReader(b)); err == nil {
					t.Fatalf("bit %d of byte %d flipped: no error", bit, i)
				}
				b[i] ^= 1 << bit
			}
		}
		if _, err := Read(bytes.NewReader(append(b, 0))); err == nil {
			t.Fatal("a byte behind the model: no error")
		}
	}
}

func TestFileLimit(t *testing.T) {
	b := fileOf(t, fileModels(t)[0])
	if _, err := ReadLimit(bytes.NewReader(b), int64(len(b))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := ReadLimit(bytes.NewReader(b), int64(len(b)-1)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := Read(iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil {
		t.Error("the reader's error is lost")
	}
}

// wrap makes a file with good checksums of any content and note.
func wrap(content, note []byte) []byte {
	b := binary.LittleEndian.AppendUint64([]byte(magic), 1)
	for _, s := range [][]byte{content, note} {
		sum := sha256.Sum256(s)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(append(b, s...), sum[:]...)
	}
	return b
}

// craft is a file with a header and given numbers and valid checksums.
func craft(t *testing.T, head string, numbers int) []byte {
	t.Helper()
	content, err := section(json.RawMessage(head), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range numbers {
		content = binary.LittleEndian.AppendUint64(content, math.Float64bits(1))
	}
	note, _ := section(noteSection{}, 0)
	return wrap(content, note)
}

// A file with valid checksums and a wrong header is an error, and nothing is allocated by its sizes.
func TestFileLies(t *testing.T) {
	head := func(dim, rows, mean, components string) string {
		return `{"method":"x","map":"linear","dim":` + dim +
			`,"features":["a"],"classes":[],"unit":false,"float64":false,"rows":` + rows +
			`,"informative_rank":0,"params":{},"arrays":[{"name":"mean","shape":` + mean +
			`},{"name":"scale","shape":[1]},{"name":"eigenvalues","shape":[0]},{"name":"components","shape":` +
			components + `}]}`
	}
	if _, err := Read(bytes.NewReader(craft(t, head("1", "1", "[1]", "[1,1]"), 3))); err != nil {
		t.Fatalf("the honest form is refused: %v", err)
	}
	for name, b := range map[string][]byte{
		"huge mean":       craft(t, head("1", "1", "[1152921504606846976]", "[1,1]"), 3),
		"huge components": craft(t, head("4611686018427387904", "1", "[1]", "[0,4611686018427387904]"), 2),
		"overflow":        craft(t, head("1", "1", "[1]", "[4294967296,4294967296]"), 3),
		"negative":        craft(t, head("1", "1", "[1]", "[-1,-1]"), 3),
		"negative rows":   craft(t, head("1", "-1", "[1]", "[1,1]"), 3),
		"other dim":       craft(t, head("2", "1", "[1]", "[1,1]"), 3),
		"other shape":     craft(t, head("1", "1", "[1]", "[1]"), 3),
		"spare numbers":   craft(t, head("1", "1", "[1]", "[1,1]"), 4),
		"few numbers":     craft(t, head("1", "1", "[1]", "[1,1]"), 2),
		"unknown field":   craft(t, strings.Replace(head("1", "1", "[1]", "[1,1]"), `"unit"`, `"x":1,"unit"`, 1), 3),
		"unknown map":     craft(t, strings.Replace(head("1", "1", "[1]", "[1,1]"), `"linear"`, `"kernel"`, 1), 3),
		"second form": craft(t, strings.Replace(head("1", "1", "[1]", "[1,1]"), `"rows":1`,
			`"rows":1,"rows":1`, 1), 3),
		"views, no arrays": craft(t, strings.Replace(head("1", "1", "[1]", "[1,1]"), `"linear"`, `"views"`, 1), 3),
	} {
		if m, err := Read(bytes.NewReader(b)); err == nil {
			t.Errorf("%s: no error, %s", name, m.Method())
		}
	}
}

// TestNumberThatIsMissing: an array without axes has one number, and a file without that number is damaged, which is no
// panic of the reader.
func TestNumberThatIsMissing(t *testing.T) {
	head := `{"method":"x","map":"linear","dim":1,"features":["a"],"classes":[],"unit":false,"float64":false,"rows":1,` +
		`"informative_rank":0,"params":{},"arrays":[{"name":"mean","shape":[1]},{"name":"scale","shape":[1]},` +
		`{"name":"eigenvalues","shape":[0]},{"name":"components","shape":[]}]}`
	_, err := Read(bytes.NewReader(craft(t, head, 2)))
	if err == nil || !strings.Contains(err.Error(), `"components" of shape [] is larger than the file`) {
		t.Errorf("%v", err)
	}
}

// TestYearsOfNotes: what is read can be written again, also if its time is in another year in UTC.
func TestYearsOfNotes(t *testing.T) {
	head, data, _ := parts(fileOf(t, fileModels(t)[0]))
	for created, isGood := range map[string]bool{"9999-12-31T11:59:59-12:00": true, "9999-12-31T12:00:00-12:00": false,
		"0000-01-01T12:00:00+12:00": true, "0000-01-01T11:59:59+12:00": false} {
		note := []byte(`{"note":{"created":"` + created + `"},"report":{}}`)
		if tryRead(t, assemble(head, data, note)) != isGood {
			t.Errorf("created %s: it is read: %t", created, !isGood)
		}
	}
}

// repeating is a map with two arrays of one name.
type repeating struct{ mapping.Map }

func (r repeating) Arrays() []mapping.Array {
	a := r.Map.Arrays()
	return append(a, mapping.Array{Name: "scale", Shape: []int{1}, Data: []float64{1}})
}

// TestRepeatedNames: neither reader nor writer accepts two arrays of one name, and both name it. The maps have none.
func TestRepeatedNames(t *testing.T) {
	head := `{"method":"x","map":"linear","dim":1,"features":["a"],"classes":[],"unit":false,"float64":false,"rows":1,` +
		`"informative_rank":0,"params":{},"arrays":[{"name":"mean","shape":[1]},{"name":"scale","shape":[1]},` +
		`{"name":"eigenvalues","shape":[0]},{"name":"components","shape":[1,1]},{"name":"components","shape":[1,1]}]}`
	if _, err := Read(bytes.NewReader(craft(t, head, 4))); err == nil || !strings.Contains(err.Error(), `"components"`) {
		t.Errorf("the reader: %v", err)
	}
	for kind, mp := range rowMappings(12, 3) {
		m := &Model{fitted: Content{Method: "x", Features: []string{"a", "b", "c"}, Rows: 12,
			Mean: make([]float64, 3), Scale: []float64{1, 1, 1}},
			mapping: mp}
		if _, err := m.seal(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		m.mapping = repeating{mp}
		if _, err := m.content(); err == nil || !strings.Contains(err.Error(), `"scale"`) {
			t.Errorf("the writer, of a map %s: %v", kind, err)
		}
	}
}

// tryRead reads an arbitrary file: an error, or a model that projects and can be written again.
func tryRead(t *testing.T, b []byte) bool {
	t.Helper()
	m, err := ReadLimit(bytes.NewReader(b), 1<<20)
	if err != nil {
		return false
	}
	_ = m.Project(make([]float32, m.Dim()), DenseRows(make([]float64, m.M()), 1, m.M()))
	if _, err := m.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := Write(&again, m); err != nil {
		t.Fatal(err)
	}
	if m2, err := Read(&again); err != nil || m2.Digest() != m.Digest() {
		t.Fatalf("does not read itself back: %v", err)
	}
	return true
}

// parts are the header, the arrays and the note of a file, and assemble puts
// such parts under good checksums.
func parts(b []byte) (head, data, note []byte) {
	content, _, rest := cut(b[16:])
	head, data = cutLength(content)
	note, _, _ = cut(rest)
	note, _ = cutLength(note)
	return bytes.Clone(head), bytes.Clone(data), bytes.Clone(note)
}

func assemble(head, data, note []byte) []byte {
	content := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	return wrap(append(content, data...), append(binary.LittleEndian.AppendUint64(nil, uint64(len(note))), note...))
}

// Header, numbers and note are changed at random under valid checksums: many are still models, none panics.
func TestFileMutants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	letters := []byte("0123456789-,[]{}\":.e ")
	read, n := 0, 5000
	var files [][]byte
	for _, m := range fileModels(t) {
		files = append(files, fileOf(t, m))
	}
	for i := range n {
		head, data, note := parts(files[i%len(files)])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(head))
			switch r.IntN(4) {
			case 0:
				head[at] = letters[r.IntN(len(letters))]
			case 1: // a longer number
				if head[at] >= '0' && head[at] <= '9' {
					head = slices.Insert(head, at, letters[r.IntN(10)])
				}
			case 2:
				data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			case 3:
				note[r.IntN(len(note))] = letters[r.IntN(len(letters))]
			}
		}
		if tryRead(t, assemble(head, data, note)) {
			read++
		}
	}
	t.Logf("%d of %d mutants are models", read, n)
	if read < n/10 || read > n*9/10 {
		t.Error("the mutants do not reach past the checks, or all pass them")
	}
}

// Any bytes give an error or a model that projects and can be written again. In addition to whole files it tries
// headers, arrays and notes under valid checksums.
func FuzzRead(f *testing.F) {
	for _, m := range fileModels(f) {
		b := fileOf(f, m)
		f.Add(b, []byte{}, []byte{}, []byte{})
		head, data, note := parts(b)
		f.Add([]byte{}, head, data, note)
	}
	f.Fuzz(func(t *testing.T, b, head, data, note []byte) {
		if len(b) == 0 {
			b = assemble(head, data, note)
		}
		// It is read twice, projected and written; a model that projects has tables in addition to the numbers of the file.
		bound.Check(t, 64<<20+64*uint64(len(b)), func() { tryRead(t, b) })
	})
}

// The form of `model show` has the names that scripts read, and the map that
// they represent: y = ((x - mean) / scale) · components.
func TestMarshalJSON(t *testing.T) {
	m := randomLinear(t, 4, 2, 3, 2)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Version, Digest, Method  string
		Dim                      int
		Features, Classes        []string
		Mean, Scale, Eigenvalues []float64
		Components               [][]float64
		Rank                     *int `json:"informative_rank"`
		Params, Source           map[string]string
		Rows                     int
		Created                  *time.Time
	}
	if err := json.Unmarshal(b, &form); err != nil {
		t.Fatal(err)
	}
	if form.Digest != m.Digest() || form.Version != m.Digest()[:16] || form.Dim != 2 || form.Rank == nil ||
		form.Created != nil ||
		form.Params == nil || form.Source == nil || form.Classes == nil || form.Eigenvalues == nil ||
		len(form.Features) != 4 {
		t.Errorf("form is %s", b)
	}
	x, x64 := rowsOf(m, 1)
	y := project(t, m, rowMajor(x, 1, 4))
	for c := range 2 {
		var want float64
		for j := range 4 {
			want += (x64[j] - form.Mean[j]) / form.Scale[j] * form.Components[j][c]
		}
		if !(math.Abs(want-float64(y[c])) <= 1e-6) {
			t.Errorf("output %d is %g, the form gives %g", c, y[c], want)
		}
	}
}

// TestVersions: a file of version 1 in which two arrays have the name mean is read, keeps its digest and is written as
// it was; the same model of version 2 has unique names and the same outputs. A version that its arrays contradict is
// refused, so no file of version 2 has a name twice.
func TestVersions(t *testing.T) {
	old, err := os.ReadFile("testdata/geodesic-version1.embedd")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read(bytes.NewReader(old))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := Write(&again, m); err != nil || !bytes.Equal(again.Bytes(), old) {
		t.Errorf("it is not written as it was read (%v)", err)
	}
	newer := *m
	geodesic := *m.mapping.(*mapping.Geodesic)
	geodesic.Version1, newer.mapping = false, &geodesic
	sealed, err := newer.seal()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, sealed); err != nil {
		t.Fatal(err)
	}
	if v := binary.LittleEndian.Uint64(b.Bytes()[8:]); v != 2 {
		t.Errorf("it is written as version %d", v)
	}
	back, err := Read(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range back.allArrays() {
		if names[a.Name] {
			t.Errorf("version 2 has two arrays %s", a.Name)
		}
		names[a.Name] = true
	}
	x := []float64{0.5, -1, 0.2, 3, 2, 0.9}
	one, two := make([]float32, 4), make([]float32, 4)
	if err := m.Project(one, DenseRows(x, 2, 3)); err != nil {
		t.Fatal(err)
	}
	if err := back.Project(two, DenseRows(x, 2, 3)); err != nil || !slices.Equal(one, two) {
		t.Errorf("version 1 projects to %v, version 2 to %v (%v)", one, two, err)
	}
	for name, file := range map[string][]byte{"1 as 2": old, "2 as 1": b.Bytes(), "3": old} {
		c := slices.Clone(file)
		c[8] = map[string]byte{"1 as 2": 2, "2 as 1": 1, "3": 3}[name]
		want := map[string]string{"1 as 2": `two arrays have the name "mean"`}[name]
		if _, err := Read(bytes.NewReader(c)); err == nil || !strings.Contains(err.Error(), cmp.Or(want, "version")) {
			t.Errorf("version %s: %v", name, err)
		}
	}
}

// TestDamagedFilesAreNamed: the error of a damaged file says what is wrong and what to do.
func TestDamagedFilesAreNamed(t *testing.T) {
	head := func(arrays string) string {
		return `{"method":"x","map":"linear","dim":1,"features":["a"],"classes":[],"unit":false,"float64":false,"rows":1,` +
			`"informative_rank":0,"params":{},"arrays":[` + arrays + `]}`
	}
	const mean, scale, values, components = `{"name":"mean","shape":[1]}`, `{"name":"scale","shape":[1]}`,
		`{"name":"eigenvalues","shape":[0]}`, `{"name":"components","shape":[1,1]}`
	good := craft(t, head(strings.Join([]string{mean, scale, values, components}, ",")), 3)
	at := func(b []byte, i int, v byte) []byte {
		b = slices.Clone(b)
		b[i] = v
		return b
	}
	content, err := section(json.RawMessage(head(strings.Join([]string{mean, scale, values, components}, ","))), 0)
	if err != nil {
		t.Fatal(err)
	}
	note, err := section(noteSection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]byte, 24)
	numbers[6], numbers[7], numbers[14], numbers[15], numbers[22], numbers[23] = 0xf0, 0x3f, 0xf0, 0x3f, 0xf0, 0x3f
	unknown, err := section(noteSection{Note: Note{Nulls: "drop"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	full := slices.Concat(content, numbers)
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{good, ""},
		{wrap(full, note), ""},
		{at(good, 0, 'E'), "not a model file: it does not start with the magic bytes; name another file"},
		{nil, "not a model file"},
		{good[:8], "truncated; copy or export it again"},
		{good[:15], "truncated"},
		{good[:20], "truncated"},
		{at(good, 8, 0), "version 0, this program reads versions 1 to 2; use the release that wrote it"},
		{at(good, 8, 3), "version 3, this program reads"},
		{at(good, 8, 2), "it says version 2, and the arrays of its map linear are those of version 1"},
		{at(good, 40, 'X'), "the content does not match its digest; the file is damaged: copy or export it again"},
		{at(good, len(good)-1, good[len(good)-1]+1), "the note does not match its checksum; the file is damaged"},
		{append(slices.Clone(good), 1, 2), "2 bytes follow the model"},
		{wrap(full, append(slices.Clone(note), 7)), "note: bytes follow the JSON"},
		{wrap(full, unknown), `note: nulls "drop" is unknown to this program; use the release that wrote it`},
		{wrap(full[:len(full)-1], note), "truncated"},
		{wrap(append(slices.Clone(full), 1, 2, 3, 4, 5, 6, 7, 8), note), "8 bytes belong to no array"},
		{craft(t, head(strings.Join([]string{scale, mean, values, components}, ",")), 3),
			"header: the arrays do not start with mean, scale and eigenvalues"},
		{craft(t, head(mean+","+scale), 2), "header: the arrays do not start with"},
		{craft(t, head(strings.Join([]string{mean, scale, values, `{"name":"components","shape":[1,2]}`}, ",")), 3),
			`array "components" of shape [1 2] is larger than the file`},
		{craft(t, head(strings.Join([]string{mean, scale, values, `{"name":"components","shape":[-1]}`}, ",")), 3),
			`array "components" of shape [-1] is larger than the file`},
		{craft(t, strings.Replace(head(strings.Join([]string{mean, scale, values, components}, ",")), `"dim":1`, `"dim":2`,
			1),
			3), "header: dim is 2, the arrays have 1"},
		{craft(t, strings.Replace(head(strings.Join([]string{mean, scale, values, components}, ",")), "linear", "curved", 1),
			3), `header: map "curved" is not known to this program; use a newer release`},
	} {
		_, err := Read(bytes.NewReader(c.b))
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), "model file: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
