package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel is for vectors of a number of bytes, parts of which hold eight numbers; rows is how many rows are processed at
// once.
type kernel struct {
	name               string
	bytes, parts, rows int
	register           []reg.VecPhysical
}

func rankTwos() {
	rankTwo(kernel{"AVX512", 64, 1, 4, registers(z, 21)})
	rankTwo(kernel{"AVX2", 32, 2, 2, registers(y, 16)})
}

// rankTwo emits rankTwoPortable for eight rows; v, w, x and y start at the first of the rows, and so do the columns.
func rankTwo(k kernel) {
	TEXT("rankTwo"+k.name, NOSPLIT, "func(n int, a *float64, stride int, v, w, x, y *float64)")
	Pragma("noescape")
	Doc(fmt.Sprintf("rankTwo%s is rankTwoPortable of n columns, a multiple of eight, the first eight the rows' own.",
		k.name))
	n, a, stride := Load(Param("n"), GP64()), Load(Param("a"), GP64()), Load(Param("stride"), GP64())
	v, w := Load(Param("v"), GP64()), Load(Param("w"), GP64())
	xs, ys := Load(Param("x"), GP64()), Load(Param("y"), GP64())
	SHLQ(Imm(3), stride)
	SHLQ(Imm(3), n)
	at := GP64()
	row := make([]reg.GPVirtual, k.rows)
	for r := range row {
		row[r] = GP64()
	}
	// For each row: its entries of v, w and x, and its eight sums.
	own := 3 + k.parts
	of := func(r, i int) reg.VecPhysical { return k.register[r*own+i] }
	vj, wj, xj, yj, element := of(k.rows, 0), of(k.rows, 1), of(k.rows, 2), of(k.rows, 3), k.register[k.rows*own+4]
	for first := 0; first < 8; first += k.rows {
		for r := range k.rows {
			VBROADCASTSD(Mem{Base: v, Disp: 8 * (first + r)}, of(r, 0))
			VBROADCASTSD(Mem{Base: w, Disp: 8 * (first + r)}, of(r, 1))
			VBROADCASTSD(Mem{Base: xs, Disp: 8 * (first + r)}, of(r, 2))
			for p := range k.parts {
				sum := y(r*own + 3 + p)
				VXORPD(sum, sum, sum) // all of the register
			}
			if first == 0 && r == 0 {
				MOVQ(a, row[0])
			} else if r == 0 {
				LEAQ(Mem{Base: row[k.rows-1], Index: stride, Scale: 1}, row[0])
			} else {
				LEAQ(Mem{Base: row[r-1], Index: stride, Scale: 1}, row[r])
			}
		}
		eight := func(others bool) {
			for p := range k.parts {
				disp := p * k.bytes
				VMOVUPD(Mem{Base: v, Index: at, Scale: 1, Disp: disp}, vj)
				VMOVUPD(Mem{Base: w, Index: at, Scale: 1, Disp: disp}, wj)
				VMOVUPD(Mem{Base: xs, Index: at, Scale: 1, Disp: disp}, xj)
				if others {
					VMOVUPD(Mem{Base: ys, Index: at, Scale: 1, Disp: disp}, yj)
				}
				for r := range k.rows {
					m := Mem{Base: row[r], Index: at, Scale: 1, Disp: disp}
					VMOVUPD(m, element)
					VFNMADD231PD(of(r, 0), wj, element)
					VFNMADD231PD(of(r, 1), vj, element)
					VMOVUPD(element, m)
					VFMADD231PD(xj, element, of(r, 3+p))
					if others {
						VFMADD231PD(of(r, 2), element, yj)
					}
				}
				if others {
					VMOVUPD(yj, Mem{Base: ys, Index: at, Scale: 1, Disp: disp})
				}
			}
			ADDQ(Imm(64), at)
		}
		XORQ(at, at)
		eight(false)
		loop, done := fmt.Sprintf("loop%d", first), fmt.Sprintf("done%d", first)
		CMPQ(at, n)
		JGE(LabelRef(done))
		Label(loop)
		eight(true)
		CMPQ(at, n)
		JL(LabelRef(loop))
		Label(done)
		for r := range k.rows {
			low, half := r*own+3, 0 // a free register
			if k.parts == 1 {
				VEXTRACTF64X4(Imm(1), of(r, 3), y(half))
				VADDPD(y(half), y(low), y(low))
			} else {
				VADDPD(of(r, 4), y(low), y(low))
			}
			VEXTRACTF128(Imm(1), y(low), x(half))
			VADDPD(x(half), x(low), x(low))
			VPERMILPD(Imm(1), x(low), x(half))
			VADDSD(x(half), x(low), x(low))
			sum := Mem{Base: ys, Disp: 8 * (first + r)}
			VADDSD(sum, x(low), x(low))
			VMOVSD(x(low), sum)
		}
	}
	VZEROUPPER()
	RET()
}
