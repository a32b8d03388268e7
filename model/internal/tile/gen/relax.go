package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanes is how many numbers a row of paths has.
const lanes = 32

func relaxes() {
	relax("AVX512", 64, z)
	relax("AVX2", 32, y)
}

// relax emits a step of shortest paths. The row stays in registers.
func relax(name string, bytes int, register func(int) reg.VecPhysical) {
	TEXT("relax"+name, NOSPLIT, "func(k int, index *int, value, x, dst *float64) bool")
	Pragma("noescape")
	Doc(fmt.Sprintf("relax%s lowers the %d numbers of dst to value[k] plus row index[k] of x, for each k, and reports",
		name, lanes), "whether one changed.")
	acc := registers(register, 8*lanes/bytes)
	weight, sum, changed := register(len(acc)), register(len(acc)+1), register(len(acc)+2)
	k, index, value := Load(Param("k"), GP64()), Load(Param("index"), GP64()), Load(Param("value"), GP64())
	x, dst := Load(Param("x"), GP64()), Load(Param("dst"), GP64())
	for v, a := range acc {
		VMOVUPD(Mem{Base: dst, Disp: v * bytes}, a)
	}
	p, row := GP64(), GP64()
	XORQ(p, p)
	Label("rows")
	CMPQ(p, k)
	JGE(LabelRef("end"))
	MOVQ(Mem{Base: index, Index: p, Scale: 8}, row)
	SHLQ(Imm(8), row) // 8 bytes for each lane
	ADDQ(x, row)
	VBROADCASTSD(Mem{Base: value, Index: p, Scale: 8}, weight)
	for v, a := range acc {
		VADDPD(Mem{Base: row, Disp: v * bytes}, weight, sum)
		VMINPD(sum, a, a)
	}
	INCQ(p)
	JMP(LabelRef("rows"))
	Label("end")
	zero(bytes, changed)
	for v, a := range acc {
		m := Mem{Base: dst, Disp: v * bytes}
		if bytes == line {
			VPXORQ(m, a, sum)
			VPORQ(sum, changed, changed)
		} else {
			VXORPD(m, a, sum)
			VORPD(sum, changed, changed)
		}
		VMOVUPD(a, m)
	}
	if bytes == line {
		any := GP32()
		VPTESTMQ(changed, changed, reg.K1)
		KMOVW(reg.K1, any)
		TESTL(any, any)
	} else {
		VPTEST(changed, changed)
	}
	out, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	SETNE(out.Addr)
	VZEROUPPER()
	RET()
}
