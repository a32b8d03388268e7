// This program writes the loops of package product for processors of type amd64. In this directory:
//
//	go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg product
//
// It is a separate module, so that users of the library do not get its dependencies.
//
// Registers are named, not allocated: the tiles are designed to fill them, and avo v0.5 assigns registers above 15 to
// instructions that cannot encode them.
package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile is how much a loop computes at once: outputs of rows or, for columns, of vectors of rows.
type tile struct{ outputs, rows int }

const (
	lanes = 8         // partial sums of an output
	group = 4 * lanes // bytes of the weights of one output for as many features

	// block is the distance in bytes between the sums of one output and those of the next, which columns write and
	// scatter reads: accStride numbers of package product.
	block = 4 * (1024 + 16)
)

var order, masks32, masks64 Mem

func main() {
	ConstraintExpr("amd64,!purego")
	tables()
	for _, bits := range []int{32, 64} {
		for _, t := range []tile{{8, 6}, {4, 8}, {2, 8}} {
			list(avx512{}, bits, t)
		}
		for _, t := range []tile{{8, 3}, {4, 6}, {2, 8}} {
			columns(avx512{}, bits, t)
		}
		for _, t := range []tile{{4, 3}, {2, 4}} {
			list(avx2{}, bits, t)
		}
	}
	columns(avx2{}, 32, tile{4, 3})
	columns(avx2{}, 32, tile{2, 4})
	columns(avx2{}, 64, tile{4, 2})
	columns(avx2{}, 64, tile{2, 4})
	scatter(4)
	scatter(2)
	Generate()
}

// tables are the constants: the order of the outputs after a reduction, and windows of masks.
func tables() {
	order = GLOBL("order", attr.RODATA|attr.NOPTR)
	for i, v := range []int{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15} {
		DATA(4*i, U32(v))
	}
	masks32 = GLOBL("masks32", attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(4*i, U32((i/8-1)&(1<<32-1))) // ones, then zeros
	}
	masks64 = GLOBL("masks64", attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(8*i, U64(uint64(i/8-1)))
	}
}

// set is an instruction set.
type set interface {
	name() string
	width() int // float32 in a vector

	// of lists
	vectors(outputs int) int // for the sums of a row
	masks()                  // for the last eight and reduce: the features in R8 and the outputs in use in R11
	clear()                  // the flag
	// eight adds the products of the first or the second eight features, or of the last, fewer than eight.
	eight(bits int, t tile, rows, nth int, last bool)
	reduce(t tile, rows int) // sums to outputs, stored at out; values that are not finite set the flag
	flag()                   // to R11

	// of columns: vector i of a group, which end as centred float32 in one register each; masked: by rowMask
	centre(bits, i, first int, masked bool)
	rowMask(bits int)        // of the rows in R8
	broadcast(at Mem, i int) // a weight
	multiply(a, b, sum int)  // sum += a b
	zero(i int)
	load(at Mem, i int)
	add(at Mem, i int)
	store(i int, at Mem)
}

func vec(i int, s reg.Spec) reg.VecPhysical {
	return reg.LookupPhysical(reg.KindVector, reg.Index(i), s).(reg.VecPhysical)
}

func z(i int) reg.VecPhysical { return vec(i, reg.S512) }
func y(i int) reg.VecPhysical { return vec(i, reg.S256) }
func x(i int) reg.VecPhysical { return vec(i, reg.S128) }

var labels int

// fresh is a unique label.
func fresh(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}

// times runs body count times and decrements count; not at all for 0.
func times(count reg.Register, body func()) {
	again, done := fresh("again"), fresh("done")
	TESTQ(count, count)
	JZ(LabelRef(done))
	Label(again)
	body()
	DECQ(count)
	JNZ(LabelRef(again))
	Label(done)
}

// Registers of a list: rows 0 to 2 from one base, 3 to 5 from another, and 6 and 7 from either.
var (
	base0, base3     = reg.RAX, reg.RBX
	stride1, stride3 = reg.RCX, reg.RDX
	weights, means   = reg.RSI, reg.RDI
	count            = reg.R8
	row              = reg.R9
	ahead0, ahead3   = reg.R10, reg.R11
	line1, line3     = reg.R12, reg.R13 // while sums are made
	out, outStride   = reg.R12, reg.R13 // after
)

// rowAt is an element of row r.
func rowAt(r, disp int) Mem { return nth(r, disp, base0, base3, stride1, stride3) }

// nth is the operand r strides from b0; b3 is b0 plus three strides, s3 three strides.
func nth(r, disp int, b0, b3, s1, s3 reg.Register) Mem {
	m := Mem{Base: b0, Disp: disp, Index: s1, Scale: uint8(r % 3)}
	switch {
	case r == 6:
		m.Index, m.Scale = s3, 2
	case r == 7:
		m.Base, m.Scale = b3, 4
	case r >= 3:
		m.Base = b3
	}
	if m.Scale == 0 {
		m.Index = nil
	}
	return m
}

// list is the loop over row-major rows. The remaining rows at the end are computed together with some rows before them
// again, with the same result; if there are fewer than a tile, one by one. For row r, memory is prefetched from ahead +
// r aheadRow bytes after the first, one cache line every aheadLine bytes, and aheadStep bytes later the next time.
func list(s set, bits int, t tile) {
	TEXT(fmt.Sprintf("list%sx%df%d", s.name(), t.outputs, bits), NOSPLIT,
		fmt.Sprintf("func(dst *float32, x *%[1]s, w *float32, mean *%[1]s, offset *float32, "+
			"rows, features, xStride, dstStride, used, ahead, aheadRow, aheadLine, aheadStep int) int", elem(bits)))
	Pragma("noescape")
	single, next, done := fresh("single"), fresh("next"), fresh("done")
	Load(Param("features"), count)
	Load(Param("used"), ahead3)
	s.masks()
	s.clear()
	Load(Param("xStride"), stride1)
	LEAQ(Mem{Base: stride1, Index: stride1, Scale: 2}, stride3)
	XORQ(row, row)
	Load(Param("rows"), count)
	CMPQ(count, U32(uint32(t.rows)))
	JLT(LabelRef(single))

	Label(next)
	rowsOfList(s, bits, t, t.rows)
	ADDQ(U32(uint32(t.rows)), row)
	Load(Param("rows"), count)
	SUBQ(row, count)
	JLE(LabelRef(done))
	CMPQ(count, U32(uint32(t.rows)))
	JGE(LabelRef(next))
	LEAQ(Mem{Base: row, Index: count, Scale: 1, Disp: -t.rows}, row)
	JMP(LabelRef(next))

	Label(single)
	one := fresh("one")
	Label(one)
	Load(Param("rows"), count)
	CMPQ(row, count)
	JGE(LabelRef(done))
	rowsOfList(s, bits, t, 1)
	INCQ(row)
	JMP(LabelRef(one))

	Label(done)
	s.flag()
	Store(reg.R11, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// rowsOfList computes the sums and the outputs of a number of rows.
func rowsOfList(s set, bits int, t tile, rows int) {
	bytes := bits / 8
	MOVQ(row, base0)
	IMULQ(stride1, base0)
	Load(Param("x"), base3)
	ADDQ(base3, base0)
	LEAQ(Mem{Base: base0, Index: stride3, Scale: 1}, base3)
	if rows > 1 {
		Load(Param("aheadRow"), ahead0)
		IMULQ(row, ahead0)
		Load(Param("ahead"), ahead3)
		ADDQ(ahead3, ahead0)
		Load(Param("x"), ahead3)
		ADDQ(ahead3, ahead0)
		Load(Param("aheadLine"), line1)
		LEAQ(Mem{Base: line1, Index: line1, Scale: 2}, line3)
		LEAQ(Mem{Base: ahead0, Index: line3, Scale: 1}, ahead3)
	}
	Load(Param("w"), weights)
	Load(Param("mean"), means)
	for i := range rows * s.vectors(t.outputs) {
		s.zero(i)
	}
	forward := func(features int) {
		ADDQ(U32(uint32(features*bytes)), base0)
		ADDQ(U32(uint32(features*bytes)), base3)
		ADDQ(U32(uint32(features/lanes*t.outputs*group)), weights)
		ADDQ(U32(uint32(features*bytes)), means)
	}
	Load(Param("features"), count)
	SHRQ(Imm(4), count)
	times(count, func() {
		if rows > 1 {
			for r := range rows {
				for line := 0; line < 16*bytes; line += 64 {
					PREFETCHT0(nth(r, line, ahead0, ahead3, line1, line3))
				}
			}
			step, err := Param("aheadStep").Resolve()
			if err != nil {
				panic(err)
			}
			ADDQ(step.Addr, ahead0)
			ADDQ(step.Addr, ahead3)
		}
		s.eight(bits, t, rows, 0, false)
		s.eight(bits, t, rows, 1, false)
		forward(16)
	})
	even, whole := fresh("even"), fresh("whole")
	Load(Param("features"), count)
	TESTQ(U32(8), count)
	JZ(LabelRef(even))
	s.eight(bits, t, rows, 0, false)
	forward(8)
	Label(even)
	Load(Param("features"), count)
	TESTQ(U32(7), count)
	JZ(LabelRef(whole))
	s.eight(bits, t, rows, 0, true)
	Label(whole)
	Load(Param("offset"), weights)
	Load(Param("dst"), out)
	Load(Param("dstStride"), outStride)
	MOVQ(row, count)
	IMULQ(outStride, count)
	ADDQ(count, out)
	s.reduce(t, rows)
}

func elem(bits int) string { return fmt.Sprintf("float%d", bits) }
