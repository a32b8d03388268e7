package model

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/mapping"
)

// TestBadRowsAreNamed: errors of rows, and of memory for outputs, have the block and its sizes.
func TestBadRowsAreNamed(t *testing.T) {
	m := randomLinear(t, 4, 2, 0, 1)
	f32, f64, raw := make([]float32, 8), make([]float64, 8), make([]byte, 8)
	one := func(b Block) Rows { return Rows{N: 2, Blocks: []Block{b}} }
	of := func(change func(b *Block)) Rows {
		b := Block{F32: f32, Cols: 4, RowStride: 4, ColStride: 1}
		change(&b)
		return one(b)
	}
	for _, c := range []struct {
		rows Rows
		want string
	}{
		{of(func(*Block) {}), ""},
		{Rows{N: -1}, "rows: n is -1; it must not be negative"},
		{of(func(b *Block) { b.Cols = 3 }),
			"rows: 3 features, the model has 4; give the features it was fitted on, in its order"},
		{of(func(b *Block) { b.F64 = f64 }), "rows: block 0 has data of two types; give one of F32, F64 and Raw"},
		{of(func(b *Block) { b.Raw = raw }), "rows: block 0 has data of two types; give one of F32, F64 and Raw"},
		{of(func(b *Block) { b.F32, b.F64, b.Raw = nil, f64, raw }), "rows: block 0 has data of two types;"},
		{of(func(b *Block) { b.F32, b.Raw = nil, raw }), "rows: block 0 has raw numbers of format 0, which is unknown"},
		{of(func(b *Block) { b.F32, b.Raw, b.Format = nil, raw, RawFloat16+1 }), "rows: block 0 has raw numbers of format"},
		{of(func(b *Block) { b.F32, b.Raw, b.Format = nil, raw, RawInt8 }), ""},
		{of(func(b *Block) { b.F32, b.Raw, b.Format = nil, raw, RawInt16 }),
			"rows: block 0 holds 4 values, too few for 2 rows x 4"},
		{of(func(b *Block) { b.RowStride = -4 }), "rows: block 0 has a negative size or stride"},
		{of(func(b *Block) { b.ColStride = -1 }), "rows: block 0 has a negative size or stride"},
		{Rows{N: 2, Blocks: []Block{{F32: f32, Cols: 5, RowStride: 1}, {Cols: -1}}},
			"rows: block 1 has a negative size or stride"},
		{of(func(b *Block) { b.RowStride = 5 }),
			"rows: block 0 holds 8 values, too few for 2 rows x 4 columns at strides 5 and 1"},
		{of(func(b *Block) { b.RowStride, b.ColStride = 1, 2 }), ""}, // the last one is number 1 + 3*2
		{of(func(b *Block) { b.RowStride, b.ColStride = 2, 2 }), "rows: block 0 holds 8 values, too few for 2 rows x 4"},
		{of(func(b *Block) { b.F32 = nil }), "rows: block 0 holds 0 values, too few"},
		{Rows{N: 2, Blocks: []Block{{Cols: 0}, {F32: f32, Cols: 4, RowStride: 4, ColStride: 1}, {Cols: 0}}}, ""},
	} {
		err := m.Project(make([]float32, 4), c.rows)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	rows := of(func(*Block) {})
	short := "project: dst holds 3 values, 2 rows x 2 outputs need 4"
	_, suspects := m.ProjectSuspects(make([]float32, 3), rows)
	for what, err := range map[string]error{"Project": m.Project(make([]float32, 3), rows), "ProjectSuspects": suspects,
		"ProjectClasses": m.ProjectClasses(t.Context(), make([]float32, 3), nil, rows)} {
		if err == nil || err.Error() != short {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := m.ScaledTo(make([]float64, 7), rows); err == nil ||
		err.Error() != "scale: dst holds 7 values, 2 rows x 4 features need 8" {
		t.Error(err)
	}
	if err := m.ScaledTo(nil, Rows{N: -1}); err == nil || err.Error() != "rows: n is -1; it must not be negative" {
		t.Error(err)
	}
	if _, err := m.Content().ViewOutputs(t.Context(), rows); err == nil ||
		err.Error() != "a map without views; give content whose map is views" {
		t.Error(err)
	}
	if got := (&RowError{3, "output 1 is large"}).Error(); got != "row 3: output 1 is large" {
		t.Error(got)
	}
	if got := (&DimError{Asked: 4, Max: 2, What: "rank 2"}).Error(); got != "dim 4 exceeds rank 2" {
		t.Error(got)
	}
}

// TestOutputsBeyondFloat32: the error is that of the first row, and names the output and its value.
func TestOutputsBeyondFloat32(t *testing.T) {
	m := randomLinear(t, 1, 1, 0, 1)
	m.mapping = &mapping.Linear{D: 1, Components: []float64{2}}
	m.fitted.Mean, m.fitted.Scale = []float64{0}, []float64{1}
	m = seal(t, m)
	err := m.Project(make([]float32, 3), DenseRows([]float64{1, 1e39, -2e39}, 3, 1))
	if want := "row 1: output 0 is 2e+39, which float32 cannot represent; look for a feature far outside the range of " +
		"the fit"; err == nil || err.Error() != want {
		t.Error(err)
	}
	y := make([]float32, 2)
	if err := m.Project(y, DenseRows([]float64{math.MaxFloat32 / 2, -math.MaxFloat32 / 2}, 2, 1)); err != nil ||
		y[0] != math.MaxFloat32 || y[1] != -math.MaxFloat32 {
		t.Errorf("the largest numbers: %v, %v", y, err)
	}
}

// TestMatricesOfGonum: a view of a matrix with gaps between rows, and outputs as a matrix.
func TestMatricesOfGonum(t *testing.T) {
	x := mat.NewDense(2, 4, []float64{1, 2, 9, 9, 3, 4, 9, 9}).Slice(0, 2, 0, 2).(*mat.Dense)
	rows, row := FromDense(x), make([]float64, 2)
	if rows.row(row, 1); rows.N != 2 || rows.M() != 2 || !slices.Equal(row, []float64{3, 4}) {
		t.Errorf("%d rows of %d, the second is %v", rows.N, rows.M(), row)
	}
	if y := ToDense([]float32{1, 2, 3, 4, 5, 6}, 2); !mat.Equal(y, mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})) {
		t.Errorf("%v", mat.Formatted(y))
	}
	if !ToDense(nil, 2).IsEmpty() {
		t.Error("no outputs are a matrix")
	}
	d := &Data{N: 3, M: 2, X: []float64{1, 2, 3, 4, 5, 6}, Y: []int{0, 1, -1}, Classes: []string{"a", "b"},
		Groups: []int{7, 8, 9}, Features: []string{"x", "y"}}
	s := d.Subset([]int{2, 0})
	if s.N != 2 || s.M != 2 || !slices.Equal(s.X, []float64{5, 6, 1, 2}) || !slices.Equal(s.Y, []int{-1, 0}) ||
		!slices.Equal(s.Groups, []int{9, 7}) || !slices.Equal(s.Classes, d.Classes) || !slices.Equal(s.Features, d.Features) {
		t.Errorf("%+v", s)
	}
	if d.Groups = nil; d.Subset([]int{0}).Groups != nil {
		t.Error("rows without groups have some")
	}
}

// TestDamagedFilesAreNamed: what is wrong with a file, and what to do.
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

// TestAlignNamesItsRows: which model, or which rows, an alignment or a conversion cannot use.
func TestAlignNamesItsRows(t *testing.T) {
	huge := func(of float64) *Model {
		m := randomLinear(t, 1, 1, 0, 1)
		m.mapping = &mapping.Linear{D: 1, Components: []float64{of}}
		m.fitted.Mean, m.fitted.Scale = []float64{0}, []float64{1}
		return seal(t, m)
	}
	rows := DenseRows([]float64{1, 2, 1e20}, 3, 1)
	small, large := huge(1), huge(1e20)
	for want, call := range map[string]func() error{
		`align: unknown mode "best"; give none, sign, block or rigid`: func() error {
			_, _, err := Align(t.Context(), small, large, rows, "best")
			return err
		},
		"align: 1 anchor rows; give at least 2, better a few hundred": func() error {
			_, _, err := Align(t.Context(), small, large, DenseRows([]float64{1}, 1, 1), AlignSign)
			return err
		},
		"align: candidate: rows: 2 features, the model has 1": func() error {
			_, _, err := Align(t.Context(), small, large, DenseRows(make([]float64, 4), 2, 2), AlignSign)
			return err
		},
		"align: candidate: row 2: output 0 is 1e+40": func() error {
			_, _, err := Align(t.Context(), large, small, rows, AlignSign)
			return err
		},
		"align: live: row 2: output 0 is 1e+40": func() error {
			_, _, err := Align(t.Context(), small, large, rows, AlignNone)
			return err
		},
		"conversion: row 2: output 0 is 1e+40": func() error {
			_, err := FitConversion(t.Context(), large, small, rows)
			return err
		},
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := FitConversion(t.Context(), small, large, rows); err == nil ||
		!strings.HasPrefix(err.Error(), "conversion: row 2") {
		t.Error(err)
	}
	if c, err := FitConversion(t.Context(), small, huge(2), DenseRows([]float64{1}, 1, 1)); c != nil || err != nil {
		t.Errorf("one row gives the map %v, %v", c, err)
	}
	c := &Conversion{Matrix: [][]float64{{1, 2, 3}, {4, 5, 6}}, Shift: []float64{10, 20, 30}}
	if got := c.Apply([]float64{1, 0, 0, 2, 9}); !slices.Equal(got, []float64{11, 22, 33, 18, 30, 42}) {
		t.Errorf("outputs %v", got)
	}
	if got := (&Conversion{}).Apply([]float64{1}); len(got) != 0 {
		t.Errorf("an empty map gives %v", got)
	}
}
