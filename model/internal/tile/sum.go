package tile

import (
	"context"
	"sync"
	"unsafe"

	"github.com/embedd/embedd/model/internal/parallel"
)

const (
	panel     = 24 // numbers of a row of a panel
	blockRows = 8  // rows of the block that a kernel makes; its columns are a panel's

	// Depth is how many rows of the operands one block of a sum has.
	Depth = 256

	stripRows   = 4 * panel // rows and columns of the result that one piece of work makes
	stripPanels = 8
	packed      = 1 << 19 // numbers that are packed at a time: 4 MB
	serial      = 1 << 20 // multiply-adds that one core does alone
)

// Operand is K rows of M numbers, finite or not. Row writes row k to dst; it is called on several goroutines.
type Operand struct {
	K, M int
	Row  func(dst []float64, k int)

	columns []float64 // in place of Row: row k is what stands at k of M columns, stride apart
	stride  int
}

// Dense is the operand of rows of m numbers that are stride apart in data.
func Dense(data []float64, k, m, stride int) *Operand {
	return &Operand{K: k, M: m, Row: func(dst []float64, i int) { copy(dst, data[i*stride:i*stride+m]) }}
}

// Columns is the operand of which row k is column k of data: m rows of it, stride apart.
func Columns(data []float64, k, m, stride int) *Operand {
	return &Operand{K: k, M: m, columns: data, stride: stride}
}

// Sum is C += Alpha A'B, of operands with as many rows. C is row-major, Stride numbers a row. Upper leaves out what is
// below the diagonal: it is for results that are symmetric, as where B is A.
type Sum struct {
	C      []float64
	Stride int
	Alpha  float64
	A, B   *Operand
	Upper  bool
}

// Add does all sums, each of its own C, on as many cores as ctx allows. It goes to its end whether or not ctx does: no
// half of a sum is added.
func Add(ctx context.Context, sums ...Sum) error {
	ctx = context.WithoutCancel(ctx)
	workers, work := 1, 0.0
	for i := range sums {
		work += float64(sums[i].A.K) * float64(sums[i].A.M) * float64(sums[i].B.M)
	}
	if work > serial {
		workers = parallel.Workers(ctx)
	}
	buffer, _ := buffers.Get().(*[]float64)
	if buffer == nil {
		buffer = new([]float64)
	}
	defer buffers.Put(buffer)
	var b batch
	for i := range sums {
		s := &sums[i]
		size := panels(s.A.M) * panel
		if s.B != s.A {
			size += panels(s.B.M) * panel
		}
		for from := 0; from < s.A.K; from += Depth {
			rows := min(Depth, s.A.K-from)
			if len(b.blocks) > 0 && b.size+rows*size > packed {
				if err := b.run(ctx, workers, buffer); err != nil {
					return err
				}
			}
			b.blocks = append(b.blocks, block{sum: s, from: from, rows: rows, at: b.size})
			b.size += rows * size
		}
	}
	return b.run(ctx, workers, buffer)
}

var buffers sync.Pool // of *[]float64, for packed panels

// block is up to Depth rows of the operands of a sum, packed from at on: the panels of A, then those of B.
type block struct {
	sum        *Sum
	from, rows int
	at         int
}

// batch is the blocks that are packed at one time.
type batch struct {
	blocks []block
	size   int
}

// strip is a piece of work: some rows and panels of the result of blocks [from, to), which are of one sum.
type strip struct{ from, to, row, panel int }

func (b *batch) run(ctx context.Context, workers int, buffer *[]float64) error {
	if b.size == 0 {
		return nil
	}
	data := aligned(buffer, b.size)
	err := parallel.EachOn(ctx, workers, 2*len(b.blocks), func(i int) {
		k := &b.blocks[i/2]
		switch own := panels(k.sum.A.M) * panel * k.rows; {
		case i%2 == 0:
			k.pack(k.sum.A, data[k.at:])
		case k.sum.B != k.sum.A:
			k.pack(k.sum.B, data[k.at+own:])
		}
	})
	if err != nil {
		return err
	}
	var strips []strip
	for from := 0; from < len(b.blocks); {
		s, to := b.blocks[from].sum, from+1
		for to < len(b.blocks) && b.blocks[to].sum == s {
			to++
		}
		for i := 0; i < s.A.M; i += stripRows {
			for j := 0; j < panels(s.B.M); j += stripPanels {
				if !s.Upper || (j+stripPanels)*panel > i {
					strips = append(strips, strip{from: from, to: to, row: i, panel: j})
				}
			}
		}
		from = to
	}
	err = parallel.EachOn(ctx, workers, len(strips), func(i int) {
		t := strips[i]
		var edge [blockRows * panel]float64
		for k := t.from; k < t.to; k++ {
			b.blocks[k].multiply(t.row, t.panel, data[b.blocks[k].at:], edge[:])
		}
	})
	b.blocks, b.size = b.blocks[:0], 0
	return err
}

// pack writes rows of an operand as panels: k.rows rows of the first 24 numbers, then those of the next.
func (k *block) pack(o *Operand, dst []float64) {
	if o.columns != nil {
		k.packColumns(o, dst)
		return
	}
	count := panels(o.M)
	row := make([]float64, count*panel)
	for r := range k.rows {
		o.Row(row[:o.M], k.from+r)
		for p := range count {
			copy(dst[(p*k.rows+r)*panel:][:panel], row[p*panel:])
		}
	}
}

// packColumns is pack of columns, eight at a time: reads go along them, and writes fill a cache line.
func (k *block) packColumns(o *Operand, dst []float64) {
	const together = 8
	var zeros [Depth]float64
	for j := 0; j < panels(o.M)*panel; j += together {
		var from [together][]float64
		for i := range from {
			from[i] = zeros[:k.rows]
			if j+i < o.M {
				from[i] = o.columns[(j+i)*o.stride+k.from:][:k.rows]
			}
		}
		f0, f1, f2, f3, f4, f5, f6, f7 := from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]
		at := dst[j/panel*panel*k.rows+j%panel:]
		for r, v := range f0 {
			line := at[r*panel:][:together]
			line[0], line[1], line[2], line[3] = v, f1[r], f2[r], f3[r]
			line[4], line[5], line[6], line[7] = f4[r], f5[r], f6[r], f7[r]
		}
	}
}

// multiply adds what the block gives to stripRows rows from row on and stripPanels panels.
func (k *block) multiply(row, first int, data, edge []float64) {
	s, height := k.sum, k.rows*panel
	right := data
	if s.B != s.A {
		right = data[panels(s.A.M)*height:]
	}
	for p := first; p < min(first+stripPanels, panels(s.B.M)); p++ {
		b := right[p*height : (p+1)*height]
		column := p * panel
		width := min(panel, s.B.M-column)
		for i := row; i < min(row+stripRows, s.A.M); i += blockRows {
			if s.Upper && column+panel <= i {
				break
			}
			a := data[i/panel*height+i%panel : (i/panel+1)*height]
			if i+blockRows <= s.A.M && width == panel && !(s.Upper && column < i+blockRows) {
				update(k.rows, a, b, s.C[i*s.Stride+column:], s.Stride, s.Alpha)
				continue
			}
			for r := i; r < min(i+blockRows, s.A.M); r++ {
				copy(edge[(r-i)*panel:], s.C[r*s.Stride+column:][:width])
			}
			update(k.rows, a, b, edge, panel, s.Alpha)
			for r := i; r < min(i+blockRows, s.A.M); r++ {
				from := 0
				if s.Upper {
					from = min(max(r-column, 0), width)
				}
				copy(s.C[r*s.Stride+column:][from:width], edge[(r-i)*panel+from:])
			}
		}
	}
}

func panels(m int) int { return (m + panel - 1) / panel }

// aligned is n numbers of the buffer, which it makes larger where need be, from a cache line on.
func aligned(buffer *[]float64, n int) []float64 {
	const line = 64
	if len(*buffer) < n+line/8 {
		*buffer = make([]float64, n+line/8)
	}
	skip := (line - int(uintptr(unsafe.Pointer(unsafe.SliceData(*buffer)))%line)) % line / 8
	return (*buffer)[skip : skip+n : skip+n]
}
