package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow/array"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// KernelBytes is the size of the rows that are projected, one message after the other: larger than the caches.
const KernelBytes = 256 << 20

// kernel measures the projection of rows from memory on one core, compared with reading the same memory.
func (b run) kernel(ctx context.Context, fitted *model.Model) ([]Ratio, error) {
	s := b.shape
	size := s.Rows * s.Features * s.width()
	count := max(KernelBytes/size, 1)
	if !isLinear(fitted) {
		count = max(count/16, 1) // memory does not bound it, and it takes long
	}
	ring, err := s.ring(count)
	if err != nil {
		return nil, err
	}
	ctx = model.Limit(ctx, 1)
	y := make([]float32, s.Rows*s.Dim)
	project := func() (float64, error) {
		begin := time.Now()
		for i := range count {
			if err := fitted.ProjectContext(ctx, y, s.view(ring[i*size:(i+1)*size])); err != nil {
				return 0, err
			}
		}
		return time.Since(begin).Seconds(), nil
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&ring[0])), len(ring)/8)
	read := func() (float64, error) {
		begin := time.Now()
		runtime.KeepAlive(touchLines(words))
		return time.Since(begin).Seconds(), nil
	}
	took, err := b.turns(ctx, "projecting", lineWait, project, read)
	if err != nil {
		return nil, err
	}
	gigabytes := float64(len(ring)) / 1e9
	r := compare("projection, one core", "GB/s", "memory", took, [2]float64{gigabytes, gigabytes})
	if s.Type == TypeFloat32 && isLinear(fitted) {
		switch s.Dim {
		case 2:
			r.aim(0.8, false)
		case 8:
			r.aim(0.6, false)
		}
	}
	return []Ratio{r}, nil
}

// isLinear reports whether the goals are for such a model.
func isLinear(m *model.Model) bool { return m.Map() == "linear" }

// cacheLine is the number of words in a cache line of 64 bytes.
const cacheLine = 8

// touchLines reads a word of each cache line, so that only memory bounds it. A sum of all words is slower by a third:
// it would measure its loop.
func touchLines(words []uint64) (sum uint64) {
	var a, b, c, d uint64
	for ; len(words) >= 4*cacheLine; words = words[4*cacheLine:] {
		lines := (*[4 * cacheLine]uint64)(words)
		a += lines[0]
		b += lines[cacheLine]
		c += lines[2*cacheLine]
		d += lines[3*cacheLine]
	}
	for i := 0; i < len(words); i += cacheLine {
		a += words[i]
	}
	return a + b + c + d
}

// ring is the features of count messages, one after the other.
func (s Shape) ring(count int) ([]byte, error) {
	msg, err := s.message(s.rows(rand.New(rand.NewPCG(5, 6))))
	if err != nil {
		return nil, err
	}
	defer msg.Release()
	var one []byte
	for _, column := range msg.Columns()[1:] {
		if list, is := column.(*array.FixedSizeList); is {
			column = list.ListValues()
		}
		one = append(one, column.Data().Buffers()[1].Bytes()[:column.Len()*s.width()]...)
	}
	words := make([]uint64, (count*len(one)+7)/8) // aligned for any type
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), count*len(one))
	for at := 0; at < len(bytes); at += len(one) {
		copy(bytes[at:], one)
	}
	return bytes, nil
}

// view interprets the features of one message as rows.
func (s Shape) view(data []byte) model.Rows {
	v := model.Block{Cols: s.Features, RowStride: s.Features, ColStride: 1}
	if s.Layout == LayoutColumns {
		v.RowStride, v.ColStride = 1, s.Rows
	}
	n := s.Rows * s.Features
	if format, is := narrow[s.Type]; is {
		v.Raw, v.Format = data[:n*s.width()], format
	} else if s.Type == TypeFloat64 {
		v.F64 = unsafe.Slice((*float64)(unsafe.Pointer(&data[0])), n)
	} else {
		v.F32 = unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), n)
	}
	return model.Rows{N: s.Rows, Blocks: []model.Block{v}}
}

// A fit has up to maxFitRows rows, fewer if their product X'X would take more than fitProducts multiply-adds.
const (
	maxFitRows  = 5000
	fitProducts = 1 << 30
	fitClasses  = 10
)

// fitRows is the number of rows that are fitted, at least enough for the outputs.
func (s Shape) fitRows() int {
	return max(min(maxFitRows, fitProducts/(s.Features*s.Features)), 4*fitClasses, 2*s.Dim)
}

// fits measures fits on all cores, compared with a matrix product of the same order, X'X.
func (b run) fits(ctx context.Context, _ *model.Model) (all []Ratio, err error) {
	m, n := b.shape.Features, b.shape.fitRows()
	d := &model.Data{N: n, M: m, X: make([]float64, n*m), Y: make([]int, n)}
	r := rand.New(rand.NewPCG(7, 8))
	for c := range fitClasses {
		d.Classes = append(d.Classes, string(rune('a'+c)))
	}
	for i := range n {
		d.Y[i] = i % fitClasses
		for j := range m {
			d.X[i*m+j] = r.NormFloat64()
			if j%fitClasses == d.Y[i] {
				d.X[i*m+j] += 2
			}
		}
	}
	x := blas64.General{Rows: n, Cols: m, Stride: m, Data: d.X}
	into := blas64.General{Rows: m, Cols: m, Stride: m, Data: make([]float64, m*m)}
	product := func() (float64, error) {
		begin := time.Now()
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, x, x, 0, into)
		return time.Since(begin).Seconds(), nil
	}
	for _, c := range []fit.Config{{Method: "pca", Dim: min(b.shape.Dim, m)}, {Method: "lda"},
		{Method: "lda", Params: map[string]string{"ridge": "0"}}} {
		what := "fit of " + c.Method
		if c.Params != nil {
			what += ", ridge 0"
		}
		took, err := b.turns(ctx, "fitting "+c.Method, lineWait, func() (float64, error) {
			begin := time.Now()
			_, err := fit.Fit(ctx, d, c)
			return time.Since(begin).Seconds(), err
		}, product)
		if err != nil {
			return nil, err
		}
		line := compare(what, "ms", "gonum X'X", took, [2]float64{1, 1})
		line.Ours, line.Scale, line.Ratio = 1e3/line.Ours, 1e3/line.Scale, 1/line.Ratio // as a multiple of the product
		all = append(all, line)
	}
	return all, nil
}
