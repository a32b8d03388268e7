package model

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/mapping"
)

// TestConversion: outputs of a model that is another one turned and shifted are converted exactly, and the residual of
// a model of other directions is near 1. A model file keeps the map, and refuses one of another shape.
func TestConversion(t *testing.T) {
	from, anchors := live(t)
	to, err := turnedBy(t, from, rotation(5, 4), nil).shifted([]float64{1, -2, 3, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	c, err := FitConversion(t.Context(), from, to, anchors)
	if err != nil || c == nil || !(c.Residual <= 1e-5) {
		t.Fatalf("%+v, %v", c, err)
	}
	y0, err := outputs(t.Context(), from, anchors, 4)
	if err != nil {
		t.Fatal(err)
	}
	y1, err := outputs(t.Context(), to, anchors, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range c.Apply(y0.RawMatrix().Data) {
		if want := y1.RawMatrix().Data[i]; !(math.Abs(got-want) <= 1e-4) {
			t.Fatalf("number %d is converted to %g, want %g", i, got, want)
		}
	}
	shuffled := *from
	components := from.Components()
	slices.Reverse(components)
	shuffled.mapping = &mapping.Linear{D: 4, Components: components}
	other := seal(t, &shuffled)
	if worse, err := FitConversion(t.Context(), from, other, anchors); err != nil || worse == nil ||
		!(worse.Residual >= 0.1) || !(worse.Residual <= 1) {
		t.Errorf("of another model: %+v, %v", worse, err)
	}
	if none, err := FitConversion(t.Context(), from, to, DenseRows(nil, 0, 10)); none != nil || err != nil {
		t.Errorf("of no rows: %+v, %v", none, err)
	}
	c.FromEpoch = 3
	var file bytes.Buffer
	if err := Write(&file, to.WithNote(Note{Epoch: 4, Conversion: c})); err != nil {
		t.Fatal(err)
	}
	read, err := Read(&file)
	if err != nil || read.Digest() != to.Digest() || read.Note().Conversion.Matrix[3][2] != c.Matrix[3][2] {
		t.Fatalf("read %v, %v", read, err)
	}
	for _, bad := range []*Conversion{{}, {Shift: make([]float64, 4)}, {Matrix: c.Matrix, Shift: c.Shift[:3]},
		{Matrix: [][]float64{{1}}, Shift: c.Shift}} {
		file.Reset()
		if err := Write(&file, to.WithNote(Note{Conversion: bad})); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&file); err == nil || !strings.Contains(err.Error(), "does not lead to the 4 outputs") {
			t.Errorf("%+v is read: %v", bad, err)
		}
	}
}

// TestConversionOfManyOutputs: models of more than 256 outputs have no map, whose size grows with the square.
func TestConversionOfManyOutputs(t *testing.T) {
	for d, want := range map[int]bool{256: true, 257: false} {
		m := randomLinear(t, d, d, 5, 2)
		_, x := rowsOf(m, 300)
		m = seal(t, m)
		c, err := FitConversion(t.Context(), m, m, DenseRows(x, 300, d))
		if err != nil || (c != nil) != want {
			t.Errorf("%d outputs: a map %v, %v", d, c != nil, err)
		}
	}
}
