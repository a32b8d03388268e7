// Command ranktwo writes ranktwo_amd64.s of package tile. In the directory above:
//
//	go run ./ranktwo -out ../ranktwo_amd64.s -stubs ../ranktwo_amd64.go -pkg tile
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

var (
	zmm = []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10,
		reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20}
	ymm = []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10,
		reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	xmm = []reg.VecPhysical{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7, reg.X8, reg.X9, reg.X10,
		reg.X11, reg.X12, reg.X13, reg.X14, reg.X15}
)

func main() {
	ConstraintExpr("amd64,!purego")
	rankTwo(kernel{"AVX512", 64, 1, 4, zmm})
	rankTwo(kernel{"AVX2", 32, 2, 2, ymm})
	Generate()
}

// rankTwo emits rankTwoPortable for eight rows; v, w, x and y start at the first of the rows, and so do the columns.
func rankTwo(k kernel) {
	TEXT("rankTwo"+k.name, NOSPLIT, "func(n int, a *float64, stride int, v, w, x, y *float64)")
	Pragma("noescape")
	Doc(fmt.Sprintf("rankTwo%s is rankTwoPortable of n columns, a multiple of eight, the first eight the rows' own.",
		k.name))
	n, a, stride := Load(Param("n"), GP64()), Load(Param("a"), GP64()), Load(Param("stride"), GP64())
	v, w := Load(Param("v"), GP64()), Load(Param("w"), GP64())
	x, y := Load(Param("x"), GP64()), Load(Param("y"), GP64())
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
			VBROADCASTSD(Mem{Base: x, Disp: 8 * (first + r)}, of(r, 2))
			for p := range k.parts {
				sum := ymm[r*own+3+p]
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
				VMOVUPD(Mem{Base: x, Index: at, Scale: 1, Disp: disp}, xj)
				if others {
					VMOVUPD(Mem{Base: y, Index: at, Scale: 1, Disp: disp}, yj)
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
					VMOVUPD(yj, Mem{Base: y, Index: at, Scale: 1, Disp: disp})
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
				VEXTRACTF64X4(Imm(1), of(r, 3), ymm[half])
				VADDPD(ymm[half], ymm[low], ymm[low])
			} else {
				VADDPD(of(r, 4), ymm[low], ymm[low])
			}
			VEXTRACTF128(Imm(1), ymm[low], xmm[half])
			VADDPD(xmm[half], xmm[low], xmm[low])
			VPERMILPD(Imm(1), xmm[low], xmm[half])
			VADDSD(xmm[half], xmm[low], xmm[low])
			sum := Mem{Base: y, Disp: 8 * (first + r)}
			VADDSD(sum, xmm[low], xmm[low])
			VMOVSD(xmm[low], sum)
		}
	}
	VZEROUPPER()
	RET()
}
