// Command gather writes gather_amd64.s of package tile. In this directory:
//
//	go run . -out ../../gather_amd64.s -stubs ../../gather_amd64.go -pkg tile
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wide is how many vectors of the result are summed side by side: the latency of a multiply-add times two per cycle.
const wide = 8

func main() {
	ConstraintExpr("amd64,!purego")
	gather("AVX512", 64, []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7}, reg.Z8)
	gather("AVX2", 32, []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7}, reg.Y8)
	Generate()
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
			if bytes == 64 {
				VPXORQ(a, a, a)
			} else {
				VXORPS(a, a, a)
			}
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
