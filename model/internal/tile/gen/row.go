package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// row emits the products of one vector with a panel of others. A panel has as many chains of multiply-adds as one
// instruction takes cycles, so wider registers would not be faster.
func row() {
	TEXT("rowAVX2", NOSPLIT, "func(k int, x, table, dst *float64)")
	Pragma("noescape")
	Doc("rowAVX2 sets the 24 numbers of dst to the sums over k of x[k] times row k of a panel.")
	k, x := Load(Param("k"), GP64()), Load(Param("x"), GP64())
	table, dst := Load(Param("table"), GP64()), Load(Param("dst"), GP64())
	acc, number := registers(y, 6), y(6)
	for _, a := range acc {
		zero(32, a)
	}
	Label("loop")
	VBROADCASTSD(Mem{Base: x}, number)
	for v, a := range acc {
		VFMADD231PD(Mem{Base: table, Disp: 32 * v}, number, a)
	}
	ADDQ(Imm(8), x)
	ADDQ(U32(panel), table)
	DECQ(k)
	JNZ(LabelRef("loop"))
	for v, a := range acc {
		VMOVUPD(a, Mem{Base: dst, Disp: 32 * v})
	}
	VZEROUPPER()
	RET()
}

// distances emits v = max(a + b - 2 v, 0) rate.
func distances() {
	TEXT("distancesAVX2", NOSPLIT, "func(n int, v, a *float64, b, rate float64)")
	Pragma("noescape")
	Doc("distancesAVX2 sets v to max(a + b - 2 v, 0) rate, for n numbers, a multiple of four.")
	n, v, a := Load(Param("n"), GP64()), Load(Param("v"), GP64()), Load(Param("a"), GP64())
	other, rate, none, t, twice := y(0), y(1), y(2), y(3), y(4)
	VBROADCASTSD(argument("b"), other)
	VBROADCASTSD(argument("rate"), rate)
	zero(32, none)
	Label("loop")
	VADDPD(Mem{Base: a}, other, t)
	VMOVUPD(Mem{Base: v}, twice)
	VADDPD(twice, twice, twice)
	VSUBPD(twice, t, t)
	VMAXPD(none, t, t)
	VMULPD(rate, t, t)
	VMOVUPD(t, Mem{Base: v})
	ADDQ(Imm(32), a)
	ADDQ(Imm(32), v)
	SUBQ(Imm(4), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// standardise emits x = (x - mean)/scale, within the range of float64, and 0 where x is not finite.
func standardise() {
	TEXT("standardiseAVX2", NOSPLIT, "func(n int, x, mean, scale *float64)")
	Pragma("noescape")
	Doc("standardiseAVX2 sets x to (x - mean)/scale within the range of float64, and to 0 where x is not finite, for n",
		"numbers, a multiple of four.")
	n, at := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	mean, scale := Load(Param("mean"), GP64()), Load(Param("scale"), GP64())
	limits := GLOBL("limits", RODATA|NOPTR)
	for i, v := range []float64{math.MaxFloat64, -math.MaxFloat64} {
		for j := range 4 {
			DATA(32*i+8*j, U64(math.Float64bits(v)))
		}
	}
	most, least, v, t := y(0), y(1), y(2), y(3)
	VMOVUPD(limits.Offset(0), most)
	VMOVUPD(limits.Offset(32), least)
	Label("loop")
	VMOVUPD(Mem{Base: at}, v)
	VSUBPD(Mem{Base: mean}, v, t)
	VDIVPD(Mem{Base: scale}, t, t)
	VMINPD(most, t, t)
	VMAXPD(least, t, t)
	VSUBPD(v, v, v) // NaN if v is not finite
	const ordered = 7
	VCMPPD(Imm(ordered), v, v, v)
	VANDPD(v, t, t)
	VMOVUPD(t, Mem{Base: at})
	for _, p := range []Op{at, mean, scale} {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(4), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
