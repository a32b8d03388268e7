package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of columns in addition to those of a list; row is the row in its column.
var (
	columnsAt = reg.R12
	column    = reg.R13
	sums      = reg.RBX
	aheadAt   = reg.RAX
	aheadRow  = reg.R11
)

// columns is the loop over rows whose features are columns: it adds the products of one lane to the sums of a block of
// rows. The sums start from load, or from zero if that is nil. After the last column of the lane it adds the sums of
// earlier lanes: adds blocks starting at pending, size bytes apart. It prefetches columns starting at ahead, from row
// aheadFirst on, at aheadShare/256 of the speed at which rows are processed.
func columns(s set, bits int, t tile) {
	TEXT(fmt.Sprintf("columns%sx%df%d", s.name(), t.outputs, bits), NOSPLIT,
		fmt.Sprintf("func(load, store, pending *float32, adds, size int, x **%[1]s, w *float32, mean *%[1]s, "+
			"features, first, rows int, ahead **%[1]s, aheadFirst, aheadShare int)", elem(bits)))
	Pragma("noescape")
	XORQ(sums, sums)
	Load(Param("first"), row)
	step := s.width() * t.rows
	next, left, done := fresh("next"), fresh("left"), fresh("done")

	Load(Param("aheadFirst"), aheadRow)
	Load(Param("rows"), count)
	Label(next)
	CMPQ(count, U32(uint32(step)))
	JLT(LabelRef(left))
	columnsOfRows(s, bits, t, false)
	ADDQ(U32(uint32(step)), row)
	ADDQ(U32(uint32(4*step)), sums)
	SUBQ(U32(uint32(step)), count)
	Load(Param("aheadShare"), reg.R10)
	IMUL3Q(U32(uint32(step)), reg.R10, reg.R10)
	SHRQ(Imm(8), reg.R10)
	ADDQ(reg.R10, aheadRow)
	JMP(LabelRef(next))

	Label(left)
	TESTQ(count, count)
	JLE(LabelRef(done))
	s.rowMask(bits)
	columnsOfRows(s, bits, tile{t.outputs, 1}, true)
	ADDQ(U32(uint32(s.width())), row)
	ADDQ(U32(uint32(4*s.width())), sums)
	SUBQ(U32(uint32(s.width())), count)
	JMP(LabelRef(left))

	Label(done)
	VZEROUPPER()
	RET()
}

// columnsOfRows is columns for a number of vectors of rows.
func columnsOfRows(s set, bits int, t tile, masked bool) {
	n := t.outputs * t.rows
	each := func(base reg.Register, do func(at Mem, i int)) {
		for r := range t.rows {
			for c := range t.outputs {
				do(Mem{Base: base, Index: sums, Scale: 1, Disp: c*block + 4*s.width()*r}, t.outputs*r+c)
			}
		}
	}
	zero, started := fresh("zero"), fresh("started")
	Load(Param("load"), reg.RAX)
	TESTQ(reg.RAX, reg.RAX)
	JZ(LabelRef(zero))
	each(reg.RAX, s.load)
	JMP(LabelRef(started))
	Label(zero)
	each(reg.RAX, func(_ Mem, i int) { s.zero(i) })
	Label(started)

	Load(Param("x"), columnsAt)
	Load(Param("w"), weights)
	Load(Param("mean"), means)
	Load(Param("features"), reg.RDX)
	if !masked {
		Load(Param("ahead"), aheadAt)
	}
	times(reg.RDX, func() {
		MOVQ(Mem{Base: columnsAt}, column)
		if !masked {
			MOVQ(Mem{Base: aheadAt}, reg.R10)
			ADDQ(U32(8*lanes), aheadAt)
			for line := 0; line < t.rows*s.width()*bits/8; line += 64 {
				PREFETCHT0(Mem{Base: reg.R10, Index: aheadRow, Scale: uint8(bits / 8), Disp: line})
			}
		}
		for r := range t.rows {
			s.centre(bits, r, n, masked)
		}
		for c := range t.outputs {
			w := 15
			if s.width() == 16 {
				w = 27 + c%4
				if n+t.rows > 27 {
					w = 30
				}
			}
			s.broadcast(Mem{Base: weights, Disp: c * group}, w)
			for r := range t.rows {
				s.multiply(w, n+r, t.outputs*r+c)
			}
		}
		ADDQ(U32(8*lanes), columnsAt)
		ADDQ(U32(uint32(t.outputs*group)), weights)
		ADDQ(U32(uint32(lanes*bits/8)), means)
	})

	Load(Param("adds"), reg.RDX)
	Load(Param("pending"), reg.RAX)
	Load(Param("size"), reg.RCX)
	times(reg.RDX, func() {
		each(reg.RAX, s.add)
		ADDQ(reg.RCX, reg.RAX)
	})
	Load(Param("store"), reg.RAX)
	each(reg.RAX, func(at Mem, i int) { s.store(i, at) })
}

// scatter turns the sums that columns computes into rows of outputs, with their offset. It returns nonzero if an output
// is not finite.
func scatter(outputs int) {
	TEXT(fmt.Sprintf("scatter%d", outputs), NOSPLIT,
		"func(dst, sums, offset *float32, rows, dstStride, used int) int")
	Pragma("noescape")
	Load(Param("dst"), out)
	Load(Param("dstStride"), outStride)
	Load(Param("sums"), sums)
	Load(Param("offset"), means)
	Load(Param("rows"), count)
	Load(Param("used"), reg.RAX)
	NEGQ(reg.RAX)
	LEAQ(masks32.Offset(32), reg.R10)
	VMOVUPS(Mem{Base: reg.R10, Index: reg.RAX, Scale: 4}, x(15))
	VXORPS(y(14), y(14), y(14))
	VXORPS(y(13), y(13), y(13))
	for c := range outputs {
		VBROADCASTSS(Mem{Base: means, Disp: 4 * c}, y(8+c))
	}
	next, done := fresh("next"), fresh("done")
	Label(next)
	TESTQ(count, count)
	JLE(LabelRef(done))
	for c := range outputs {
		VADDPS(Mem{Base: sums, Disp: c * block}, y(8+c), y(c))
		VFMADD231PS(y(14), y(c), y(13))
	}
	put := func(v int) {
		VMASKMOVPS(x(v), x(15), Mem{Base: out})
		ADDQ(outStride, out)
		DECQ(count)
		JZ(LabelRef(done))
	}
	if outputs == 4 {
		VUNPCKLPS(y(1), y(0), y(4)) // rows 0, 1; 4, 5 of outputs 0 and 1
		VUNPCKHPS(y(1), y(0), y(5))
		VUNPCKLPS(y(3), y(2), y(6))
		VUNPCKHPS(y(3), y(2), y(7))
		VUNPCKLPD(y(6), y(4), y(0)) // rows 0; 4 of all
		VUNPCKHPD(y(6), y(4), y(1))
		VUNPCKLPD(y(7), y(5), y(2))
		VUNPCKHPD(y(7), y(5), y(3))
		for v := range 4 {
			put(v)
		}
		for v := range 4 {
			VEXTRACTF128(Imm(1), y(v), x(v))
			put(v)
		}
	} else {
		VUNPCKLPS(y(1), y(0), y(4)) // rows 0, 1; 4, 5
		VUNPCKHPS(y(1), y(0), y(5)) // rows 2, 3; 6, 7
		for half := range 2 {
			for v := 4; v < 6; v++ {
				if half == 1 {
					VEXTRACTF128(Imm(1), y(v), x(v))
				}
				put(v)
				VPERMILPD(Imm(1), x(v), x(6))
				put(6)
			}
		}
	}
	ADDQ(Imm(32), sums)
	JMP(LabelRef(next))

	Label(done)
	VCMPPS(Imm(3), y(13), y(13), y(13))
	VMOVMSKPS(y(13), reg.EAX)
	Store(reg.RAX, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
