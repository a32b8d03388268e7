package model

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/embedd/embedd/model/internal/mapping"
)

// Numbers of one or two bytes have the outputs of the same numbers as float32, in every layout and for every way of
// projecting, in batches and alone.
func TestProjectRaw(t *testing.T) {
	const n, m, d = 300, 29, 3
	r := rand.New(rand.NewPCG(1, 2))
	unit, far := randomLinear(t, m, d, 1, 1), randomLinear(t, m, d, 1, 1)
	unit = seal(t, &Model{fitted: Content{Method: "test", Rows: 10, Features: unit.fitted.Features,
		Mean: unit.fitted.Mean, Scale: unit.fitted.Scale, Unit: true},
		mapping: unit.mapping})
	kernel := seal(t, &Model{fitted: Content{Method: "test", Rows: 10, Features: far.fitted.Features,
		Mean: far.fitted.Mean, Scale: far.fitted.Scale},
		mapping: &mapping.KernelMap{D: d, Rows: normals(r, 5*m), Coefficients: normals(r, 5*d),
			K: mapping.Kernel{Name: "gauss", Param: []float64{1e4}}}})
	for _, f := range []RawFormat{RawInt8, RawUint8, RawInt16, RawUint16, RawFloat16} {
		raw := make([]byte, n*m*f.Size())
		for i := range n * m {
			if f.Size() == 1 {
				raw[i] = byte(r.Uint32())
			} else { // float16 of any size; some are not finite
				binary.LittleEndian.PutUint16(raw[2*i:], uint16(r.Uint32()))
			}
		}
		x := make([]float32, n*m)
		f.Widen(x, raw)
		size := f.Size()
		narrowed := func(cols, rowStride, colStride, from int) Block {
			return Block{Raw: raw[from*size:], Format: f, Cols: cols, RowStride: rowStride, ColStride: colStride}
		}
		wide := func(cols, rowStride, colStride, from int) Block {
			return Block{F32: x[from:], Cols: cols, RowStride: rowStride, ColStride: colStride}
		}
		double := make([]float64, n*m)
		for i, v := range x {
			double[i] = float64(v)
		}
		for _, c := range []struct {
			name      string
			got, want []Block
		}{
			{"list", []Block{narrowed(m, m, 1, 0)}, []Block{wide(m, m, 1, 0)}},
			{"columns", []Block{narrowed(m, 1, n, 0)}, []Block{wide(m, 1, n, 0)}},
			{"columns of both", []Block{narrowed(4, 1, n, 0), wide(5, 1, n, 4*n), narrowed(m-9, 1, n, 9*n)},
				[]Block{wide(m, 1, n, 0)}},
			{"lists of both", []Block{narrowed(4, m, 1, 0), wide(m-4, m, 1, 4)}, []Block{wide(m, m, 1, 0)}},
			{"lists and float64", []Block{narrowed(4, m, 1, 0),
				{F64: double[4:], Cols: m - 4, RowStride: m, ColStride: 1}}, []Block{wide(m, m, 1, 0)}},
			{"strides", []Block{narrowed(m/2, m, 2, 0), narrowed(m-m/2, m, 1, 0)},
				[]Block{wide(m/2, m, 2, 0), wide(m-m/2, m, 1, 0)}},
		} {
			for name, mo := range map[string]*Model{"linear": randomLinear(t, m, d, 1, 1),
				"far": randomLinear(t, m, d, 1e9, 1), "unit": unit, "kernel": kernel} {
				want := project(t, mo, Rows{n, c.want})
				if got := project(t, mo, Rows{n, c.got}); !sameBits(got, want) {
					t.Errorf("format %d, %s, %s: the outputs differ from those of float32", f, name, c.name)
				}
				for _, i := range []int{0, 7, n - 1} {
					blocks := make([]Block, len(c.got))
					for k, b := range c.got {
						if blocks[k] = b; b.Raw != nil {
							blocks[k].Raw = b.Raw[i*b.RowStride*size:]
						} else if b.F64 != nil {
							blocks[k].F64 = b.F64[i*b.RowStride:]
						} else {
							blocks[k].F32 = b.F32[i*b.RowStride:]
						}
					}
					if got := project(t, mo, Rows{1, blocks}); !sameBits(got, want[i*d:(i+1)*d]) {
						t.Errorf("format %d, %s, %s: row %d alone has other bits", f, name, c.name, i)
					}
				}
			}
		}
		if err := kernel.Project(make([]float32, n*d), Rows{n + 1, []Block{narrowed(m, m, 1, 0)}}); err == nil {
			t.Errorf("format %d: rows beyond the memory are not refused", f)
		}
	}
	for _, b := range []Block{{Raw: make([]byte, 2*m), F32: make([]float32, m), Format: RawInt16},
		{Raw: make([]byte, 2*m)}, {Raw: make([]byte, 2*m), Format: 77}} {
		b.Cols, b.RowStride, b.ColStride = m, m, 1
		if err := kernel.Project(make([]float32, d), Rows{1, []Block{b}}); err == nil {
			t.Errorf("no error for format %d with %d float32", b.Format, len(b.F32))
		}
	}
}

// TestWidenedIsBounded: columns of narrow numbers are widened some rows at a time, however many there are, with the
// outputs of float32 columns.
func TestWidenedIsBounded(t *testing.T) {
	const n, m = 256, 20_000
	model := randomLinear(t, m, 2, 0, 1)
	raw, wide := make([]byte, n*m), make([]float32, n*m)
	for i := range raw {
		raw[i] = byte(i * 31)
		wide[i] = float32(int8(raw[i]))
	}
	columns := func(b Block) Rows {
		b.Cols, b.RowStride, b.ColStride = m, 1, n
		return Rows{N: n, Blocks: []Block{b}}
	}
	have, want := make([]float32, 2*n), make([]float32, 2*n)
	if err := model.Project(want, columns(Block{F32: wide})); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // empties the pools
	runtime.ReadMemStats(&before)
	if err := model.Project(have, columns(Block{Raw: raw, Format: RawInt8})); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if !slices.Equal(have, want) {
		t.Error("the outputs differ from those of float32 columns")
	}
	if size := after.TotalAlloc - before.TotalAlloc; size > 8*maxWidened {
		t.Errorf("%d bytes were allocated for %d bytes of features", size, len(raw))
	}
}
