package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// thin emits the products of a matrix with eight vectors.
func thin() {
	along("AVX512", 8, 64, registers(z, 10))
	along("AVX2", 4, 32, registers(y, 12))
	across("AVX512", 8, 64, registers(z, 10))
	across("AVX2", 4, 32, registers(y, 12))
}

// entries are the memory operands of one column of rows of a, stride bytes apart.
func entries(a, stride reg.GPVirtual, rows int) []Mem {
	var all []Mem
	base := a
	for r := range rows {
		switch r % 3 {
		case 0:
			if r > 0 {
				next := GP64()
				LEAQ(Mem{Base: base, Index: stride, Scale: 2}, next)
				ADDQ(stride, next)
				base = next
			}
			all = append(all, Mem{Base: base})
		case 1:
			all = append(all, Mem{Base: base, Index: stride, Scale: 1})
		case 2:
			all = append(all, Mem{Base: base, Index: stride, Scale: 2})
		}
	}
	return all
}

// step moves the bases of entries to the next column.
func step(all []Mem) {
	for r := 0; r < len(all); r += 3 {
		ADDQ(Imm(8), all[r].Base)
	}
}

// along emits dst += alpha a x: the rows of a go along those of x.
func along(name string, rows, bytes int, register []reg.VecPhysical) {
	TEXT("along"+name, NOSPLIT, "func(k int, a *float64, stride int, x, dst *float64, alpha float64)")
	Doc(fmt.Sprintf("along%s adds alpha a x to the %d x 8 numbers of dst: a is %d x k, its rows stride apart, "+
		"x is k x 8.", name, rows, rows))
	parts := line / bytes
	acc, free := register[:rows*parts], register[rows*parts:]
	x, dst := Load(Param("x"), GP64()), Load(Param("dst"), GP64())
	for _, v := range acc {
		zero(bytes, v)
	}
	columns(rows, bytes, x, free, func(i, p int) (x, sum reg.VecPhysical) { return free[p], acc[i*parts+p] }, func() {})
	VBROADCASTSD(argument("alpha"), free[0])
	for i, v := range acc {
		m := Mem{Base: dst, Disp: i * bytes}
		VMOVUPD(m, free[1])
		VFMADD231PD(v, free[0], free[1])
		VMOVUPD(free[1], m)
	}
	VZEROUPPER()
	RET()
}

// across emits dst += a'x: the columns of a.
func across(name string, rows, bytes int, register []reg.VecPhysical) {
	TEXT("across"+name, NOSPLIT, "func(k int, a *float64, stride int, x, dst *float64)")
	Doc(fmt.Sprintf("across%s adds a'x to the k x 8 numbers of dst: a is %d x k, its rows stride apart, x is %d x 8.",
		name, rows, rows))
	parts := line / bytes
	own, free := register[:rows*parts], register[rows*parts:]
	x, dst := Load(Param("x"), GP64()), Load(Param("dst"), GP64())
	for i, v := range own {
		VMOVUPD(Mem{Base: x, Disp: i * bytes}, v)
	}
	columns(rows, bytes, dst, free, func(i, p int) (x, sum reg.VecPhysical) { return own[i*parts+p], free[p] }, func() {
		for p := range parts {
			VMOVUPD(free[p], Mem{Base: dst, Disp: p * bytes})
		}
	})
	VZEROUPPER()
	RET()
}

// columns emits a loop over the columns of a: it loads the line at moving into free, adds the product of each entry i
// and each part p of a vector to a sum, and ends with after and the next line.
func columns(rows, bytes int, moving reg.Register, free []reg.VecPhysical,
	product func(i, p int) (x, sum reg.VecPhysical), after func()) {
	Pragma("noescape")
	k, a, stride := Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(3), stride)
	from, parts := entries(a.(reg.GPVirtual), stride.(reg.GPVirtual), rows), line/bytes
	Label("loop")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	for p := range parts {
		VMOVUPD(Mem{Base: moving, Disp: p * bytes}, free[p])
	}
	for i, m := range from {
		if bytes == line {
			x, sum := product(i, 0)
			VFMADD231PD_BCST(m, x, sum)
			continue
		}
		VBROADCASTSD(m, free[parts])
		for p := range parts {
			x, sum := product(i, p)
			VFMADD231PD(x, free[parts], sum)
		}
	}
	after()
	step(from)
	ADDQ(Imm(line), moving)
	DECQ(k)
	JMP(LabelRef("loop"))
	Label("done")
}
