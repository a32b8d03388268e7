package model

import (
	"slices"
	"testing"
)

// TestLayouts: rows of one block, or columns, are read in place; others are widened or copied.
func TestLayouts(t *testing.T) {
	f32, f64, raw := make([]float32, 64), make([]float64, 64), make([]byte, 64)
	row := func(b Block) Block { b.Cols, b.RowStride, b.ColStride = 4, 4, 1; return b }
	column := func(b Block) Block { b.Cols, b.RowStride, b.ColStride = 4, 1, 8; return b }
	narrow := Block{Raw: raw, Format: RawInt8}
	type found struct {
		list32, list64, columns32, columns64, wide, widened bool
	}
	for what, c := range map[string]struct {
		n      int
		blocks []Block
		want   found
	}{
		"rows":             {8, []Block{row(Block{F32: f32})}, found{list32: true}},
		"rows of float64":  {8, []Block{row(Block{F64: f64})}, found{list64: true, wide: true}},
		"and empty blocks": {8, []Block{{}, row(Block{F32: f32}), {}}, found{list32: true}},
		"one column, far apart": {8, []Block{{F32: f32, Cols: 1, RowStride: 8, ColStride: 9}},
			found{list32: true}},
		"two blocks of rows":    {8, []Block{row(Block{F32: f32}), row(Block{F32: f32})}, found{}},
		"no rows":               {0, []Block{row(Block{F32: f32})}, found{}},
		"columns":               {8, []Block{column(Block{F32: f32})}, found{columns32: true}},
		"columns of float64":    {8, []Block{column(Block{F64: f64})}, found{columns64: true, wide: true}},
		"columns of both":       {8, []Block{column(Block{F64: f64}), column(Block{F32: f32})}, found{wide: true}},
		"narrow columns":        {8, []Block{column(narrow)}, found{widened: true}},
		"narrow and float32":    {8, []Block{column(narrow), column(Block{F32: f32})}, found{widened: true}},
		"narrow and float64":    {8, []Block{column(narrow), column(Block{F64: f64})}, found{wide: true}},
		"narrow rows":           {8, []Block{row(narrow)}, found{}},
		"one narrow row":        {1, []Block{column(narrow)}, found{}},
		"one row of two blocks": {1, []Block{row(Block{F32: f32}), row(Block{F32: f32})}, found{columns32: true}},
	} {
		var l layout
		l.find(Rows{N: c.n, Blocks: c.blocks})
		got := found{l.list32 != nil, l.list64 != nil, len(l.columns32) > 0, len(l.columns64) > 0, l.wide, l.widened}
		inPlace := c.want.list32 || c.want.list64 || c.want.columns32 || c.want.columns64
		if got != c.want || l.inPlace() != inPlace {
			t.Errorf("%s: %+v, in place %v", what, got, l.inPlace())
		}
		if l.forget(); l.inPlace() || l.wide || l.widened {
			t.Errorf("%s: rows are kept", what)
		}
	}
	blocks := []Block{{}, {F64: []float64{0, 1, 2, 3, 4, 5}, Cols: 2, RowStride: 1, ColStride: 3},
		{Raw: []byte{7, 8, 9}, Format: RawUint8, Cols: 1, RowStride: 1, ColStride: 1},
		{F32: []float32{6, 0, 7, 0, 8, 0}, Cols: 1, RowStride: 2, ColStride: 1}}
	if got := gather[float64](nil, Rows{N: 3, Blocks: blocks}, 4, 1, 2); !slices.Equal(got,
		[]float64{1, 4, 8, 7, 2, 5, 9, 8}) {
		t.Errorf("gathered %v", got)
	}
	columns := Rows{N: 3, Blocks: []Block{{Raw: []byte{1, 2, 3, 4, 5, 6}, Format: RawUint8, Cols: 2, RowStride: 1,
		ColStride: 3},
		{F32: []float32{7, 8, 9}, Cols: 1, RowStride: 1, ColStride: 3}}}
	wide, at := widenColumns(nil, nil, columns, 3, 1, 2)
	if !slices.Equal(wide[:4], []float32{2, 3, 5, 6}) || len(at) != 3 || *at[0] != 2 || *at[1] != 5 || *at[2] != 8 {
		t.Errorf("widened %v", wide)
	}
	for _, c := range []struct {
		i, si, j, sj, size int
		want               bool
	}{{0, 9, 0, 9, 1, true}, {0, 9, 0, 9, 0, false}, {2, 3, 1, 1, 8, true}, {2, 3, 1, 1, 7, false}, {1, 1 << 62, 0, 0,
		9, false},
		{0, 0, 3, 3, 10, true}, {0, 0, 3, 3, 9, false}, {1, 5, 1, 5, 10, false}, {1, 5, 1, 5, 11, true}} {
		if fits(c.i, c.si, c.j, c.sj, c.size) != c.want {
			t.Errorf("%+v", c)
		}
	}
}
