// Command gen writes the kernels of package tile for amd64. It is a separate module, so that users of the library do
// not get its dependency. In this directory:
//
//	go run . -out ../kernel_amd64.s -stubs ../kernel_amd64.go -pkg tile
//
// Vector registers are named here, not allocated: avo assigns registers above 15 to instructions that cannot encode
// them.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// shape is the block of the result that one call computes: rows x vectors, and the bytes of a vector.
type shape struct {
	rows, vectors, bytes int
	register             func(int) reg.VecPhysical
}

var (
	zmm    = shape{rows: 8, vectors: 3, bytes: 64, register: z}
	ymm    = shape{rows: 4, vectors: 3, bytes: 32, register: y}
	oneZMM = shape{rows: 1, vectors: 3, bytes: 64, register: z}
	oneYMM = shape{rows: 1, vectors: 3, bytes: 32, register: y}
)

func vector(i int, s reg.Spec) reg.VecPhysical {
	return reg.LookupPhysical(reg.KindVector, reg.Index(i), s).(reg.VecPhysical)
}

func z(i int) reg.VecPhysical { return vector(i, reg.S512) }
func y(i int) reg.VecPhysical { return vector(i, reg.S256) }
func x(i int) reg.VecPhysical { return vector(i, reg.S128) }

// registers are the first n of a size.
func registers(register func(int) reg.VecPhysical, n int) []reg.VecPhysical {
	all := make([]reg.VecPhysical, n)
	for i := range all {
		all[i] = register(i)
	}
	return all
}

// zero clears a register of a number of bytes.
func zero(bytes int, x reg.VecPhysical) {
	if bytes == line {
		VPXORQ(x, x, x)
	} else {
		VXORPS(x, x, x)
	}
}

// argument loads a parameter that instructions read from memory.
func argument(name string) Mem {
	at, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return at.Addr
}

const (
	panel = 192 // bytes of one row of a packed panel
	line  = 64  // bytes of a line of the cache, and of eight numbers: a row of the thin operands
)

func main() {
	ConstraintExpr("amd64,!purego")
	for _, s := range []shape{zmm, ymm} {
		update(s)
		compare("compare", s)
	}
	for _, s := range []shape{oneZMM, oneYMM} {
		compare("compareOne", s)
	}
	thin()
	rankTwos()
	exponentials()
	gathers()
	relaxes()
	extend(ymm)
	row()
	distances()
	standardise()
	Generate()
}

func (s shape) name() string {
	if s.bytes == 64 {
		return "AVX512"
	}
	return "AVX2"
}

// sum emits acc += the sums over k of a[k, row] b[k, column], one step after the other for each element, from what
// begin puts into the accumulators. It returns these, row by row; later registers are free. Each step also executes
// what ahead emits.
func (s shape) sum(size int, broadcast, load, fma func(...Op), begin func(acc []reg.VecPhysical),
	ahead func()) []reg.VecPhysical {
	acc := registers(s.register, s.rows*s.vectors)
	begin(acc)
	k := Load(Param("k"), GP64())
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	row := make([]reg.VecPhysical, s.vectors)
	for v := range row {
		row[v] = s.register(len(acc) + v)
	}
	free := len(acc) + s.vectors
	spare := 16
	if s.bytes == 64 {
		spare = 32
	}
	loop, done := "loop", "done"
	TESTQ(k, k)
	JZ(LabelRef(done))
	Label(loop)
	ahead()
	for v := range row {
		load(Mem{Base: b, Disp: v * s.bytes}, row[v])
	}
	for r := range s.rows {
		x := s.register(free + r%(spare-free))
		broadcast(Mem{Base: a, Disp: r * size}, x)
		for v := range row {
			fma(row[v], x, acc[r*s.vectors+v])
		}
	}
	ADDQ(Imm(panel), a)
	ADDQ(Imm(panel), b)
	DECQ(k)
	JNZ(LabelRef(loop))
	Label(done)
	return acc
}

// clear sets accumulators to zero.
func (s shape) clear(acc []reg.VecPhysical) {
	for _, v := range acc {
		zero(s.bytes, v)
	}
}

// extend emits sums that continue from c, so that the operands of a part of them can stay in the first cache.
func extend(s shape) {
	TEXT("extend"+s.name(), NOSPLIT, "func(k int, a, b, c *float64)")
	Pragma("noescape")
	Doc(fmt.Sprintf("extend%s adds the k steps of a'b to the %d x %d numbers of c one after the other: a, b and c are",
		s.name(), s.rows, s.vectors*s.bytes/8), "panels.")
	c := Load(Param("c"), GP64())
	at := func(i int) Mem { return Mem{Base: c, Disp: i/s.vectors*panel + i%s.vectors*s.bytes} }
	acc := s.sum(8, VBROADCASTSD, VMOVUPD, VFMADD231PD, func(acc []reg.VecPhysical) {
		for i, v := range acc {
			VMOVUPD(at(i), v)
		}
	}, func() {})
	for i, v := range acc {
		VMOVUPD(v, at(i))
	}
	VZEROUPPER()
	RET()
}

// update emits c += alpha a'b of float64.
func update(s shape) {
	TEXT("update"+s.name(), NOSPLIT, "func(k int, a, b, c *float64, stride int, alpha float64, next *float64)")
	Pragma("noescape")
	Doc(fmt.Sprintf("update%s adds alpha a'b to the %d x %d numbers of c, whose rows are stride apart: "+
		"a and b are panels.", s.name(), s.rows, s.vectors*s.bytes/8),
		"It has the cache fetch c, and k lines from next on.")
	stride, row, next := Load(Param("stride"), GP64()), Load(Param("c"), GP64()), Load(Param("next"), GP64())
	SHLQ(Imm(3), stride)
	for range s.rows {
		for at := 0; at < s.vectors*s.bytes; at += line {
			PREFETCHT0(Mem{Base: row, Disp: at})
		}
		ADDQ(stride, row)
	}
	acc := s.sum(8, VBROADCASTSD, VMOVUPD, VFMADD231PD, s.clear, func() {
		PREFETCHT1(Mem{Base: next})
		ADDQ(Imm(line), next)
	})
	c := Load(Param("c"), GP64())
	alpha, old := s.register(len(acc)), s.register(len(acc)+1)
	VBROADCASTSD(argument("alpha"), alpha)
	for r := range s.rows {
		for v := range s.vectors {
			m := Mem{Base: c, Disp: v * s.bytes}
			VMOVUPD(m, old)
			VFMADD231PD(acc[r*s.vectors+v], alpha, old)
			VMOVUPD(old, m)
		}
		ADDQ(stride, c)
	}
	VZEROUPPER()
	RET()
}

// compare emits code that multiplies in float32 and marks the products that reach a bound.
func compare(name string, s shape) {
	TEXT(name+s.name(), NOSPLIT, "func(k int, a, b, c, row, column *float32, mask *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s%s sets %d rows of c, %d numbers apart, to a'b, and bit j of mask i where", name, s.name(),
		s.rows, panel/4),
		"c[i, j] >= min(row[i] + column[48+j], row[48+i] + column[j]). Masks are 8 bytes apart.")
	acc := s.sum(4, VBROADCASTSS, VMOVUPS, VFMADD231PS, s.clear, func() {})
	c, row, column := Load(Param("c"), GP64()), Load(Param("row"), GP64()), Load(Param("column"), GP64())
	mask := Load(Param("mask"), GP64())
	bits := GP32()
	n := len(acc)
	r0, r1, t0, t1 := s.register(n), s.register(n+1), s.register(n+2), s.register(n+3)
	for r := range s.rows {
		VBROADCASTSS(Mem{Base: row, Disp: 4 * r}, r0)
		VBROADCASTSS(Mem{Base: row, Disp: panel + 4*r}, r1)
		for v := range s.vectors {
			x := acc[r*s.vectors+v]
			VMOVUPS(x, Mem{Base: c, Disp: r*panel + v*s.bytes})
			VADDPS(Mem{Base: column, Disp: panel + v*s.bytes}, r0, t0)
			VADDPS(Mem{Base: column, Disp: v * s.bytes}, r1, t1)
			VMINPS(t1, t0, t0)
			const greaterOrEqual = 0x1d // false for NaN
			if s.bytes == 64 {
				VCMPPS(Imm(greaterOrEqual), t0, x, reg.K1)
				KMOVW(reg.K1, bits)
				MOVW(bits.As16(), Mem{Base: mask, Disp: 8*r + 2*v})
			} else {
				VCMPPS(Imm(greaterOrEqual), t0, x, t0)
				VMOVMSKPS(t0, bits)
				MOVB(bits.As8(), Mem{Base: mask, Disp: 8*r + v})
			}
		}
	}
	VZEROUPPER()
	RET()
}
