package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wide is how many vectors of the result are summed side by side: the latency of a multiply-add times two per cycle.
const wide = 8

func gathers() {
	gather("AVX512", 64, registers(z, wide), z(wide))
	gather("AVX2", 32, registers(y, wide), y(wide))
}

func gather(name string, bytes int, acc []reg.VecPhysical, weight reg.VecPhysical) {
	TEXT("gather"+name, NOSPLIT, "func(k int, index *int, value, x *float64, stride int, dst *float64, n int)")
	Pragma("noescape")
	Doc("gather"+name+" sets n numbers of dst, a multiple of the vector's, to the sum over k of value[k] times the row",
		"index[k] of x, whose rows are stride numbers apart.")
	x, stride, dst, left := Load(Param("x"), GP64()), Load(Param("stride"), GP64()), Load(Param("dst"), GP64()),
		Load(Param("n"), GP64())
	index, value, k := Load(Param("index"), GP64()), Load(Param("value"), GP64()), Load(Param("k"), GP64())
	SHLQ(Imm(3), stride)
	part := func(label, next string, vectors int) {
		columns := vectors * bytes / 8
		Label(label)
		CMPQ(left, Imm(uint64(columns)))
		JL(LabelRef(next))
		for _, a := range acc[:vectors] {
			zero(bytes, a)
		}
		p, row := GP64(), GP64()
		XORQ(p, p)
		Label(label + "_rows")
		CMPQ(p, k)
		JGE(LabelRef(label + "_end"))
		MOVQ(Mem{Base: index, Index: p, Scale: 8}, row)
		IMULQ(stride, row)
		ADDQ(x, row)
		VBROADCASTSD(Mem{Base: value, Index: p, Scale: 8}, weight)
		for v, a := range acc[:vectors] {
			VFMADD231PD(Mem{Base: row, Disp: v * bytes}, weight, a)
		}
		INCQ(p)
		JMP(LabelRef(label + "_rows"))
		Label(label + "_end")
		for v, a := range acc[:vectors] {
			VMOVUPD(a, Mem{Base: dst, Disp: v * bytes})
		}
		ADDQ(U32(vectors*bytes), x)
		ADDQ(U32(vectors*bytes), dst)
		SUBQ(Imm(uint64(columns)), left)
		JMP(LabelRef(label))
	}
	part("wide", "narrow", wide)
	part("narrow", "done", 1)
	Label("done")
	VZEROUPPER()
	RET()
}
