package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2 has 16 registers of eight numbers; a sum of a list is one of them. In lists, the registers after the sums are
// features, and the last is for everything else. The flag of lists is in the frame.
type avx2 struct{}

func (avx2) name() string            { return "256" }
func (avx2) width() int              { return 8 }
func (avx2) vectors(outputs int) int { return outputs }
func (avx2) zero(i int)              { VXORPS(y(i), y(i), y(i)) }
func (avx2) load(at Mem, i int)      { VMOVUPS(at, y(i)) }
func (avx2) add(at Mem, i int)       { VADDPS(at, y(i), y(i)) }
func (avx2) store(i int, at Mem)     { VMOVUPS(y(i), at) }
func (avx2) broadcast(at Mem, i int) { VBROADCASTSS(at, y(i)) }
func (avx2) multiply(a, b, sum int)  { VFMADD231PS(y(a), y(b), y(sum)) }

var flag2 Mem

func (avx2) masks() {}

func (avx2) clear() {
	flag2 = AllocLocal(8)
	MOVQ(U32(0), flag2)
}

func (s avx2) eight(bits int, t tile, rows, nth int, last bool) {
	first := s.vectors(t.outputs) * rows
	if rows == 1 {
		first = 12
	}
	var mask Mem
	if last {
		Load(Param("features"), count)
		ANDQ(Imm(7), count)
		NEGQ(count)
		mask = Mem{Base: ahead0, Index: count, Scale: uint8(bits / 8)}
		if bits == 32 {
			LEAQ(masks32.Offset(32), ahead0)
		} else {
			LEAQ(masks64.Offset(64), ahead0)
		}
	}
	disp := nth * lanes * bits / 8
	for r := range rows {
		at, v := rowAt(r, disp), y(first+r)
		switch {
		case bits == 32 && last:
			VMOVUPS(mask, y(15))
			VMASKMOVPS(at, y(15), v)
		case bits == 32:
			VMOVUPS(at, v)
		case last:
			VMOVUPD(mask, y(15))
			VMASKMOVPD(at, y(15), v)
			VMOVUPD(mask.Offset(32), y(15))
			VMASKMOVPD(at.Offset(32), y(15), y(15))
		default:
			VMOVUPD(at, v)
			VMOVUPD(at.Offset(32), y(15))
		}
		if bits == 32 {
			VSUBPS(Mem{Base: means, Disp: disp}, v, v)
			continue
		}
		VSUBPD(Mem{Base: means, Disp: disp}, v, v)
		VSUBPD(Mem{Base: means, Disp: disp + 32}, y(15), y(15))
		VCVTPD2PSY(v, x(first+r))
		VCVTPD2PSY(y(15), x(15))
		VINSERTF128(Imm(1), x(15), v, v)
	}
	for c := range t.outputs {
		VMOVUPS(Mem{Base: weights, Disp: (nth*t.outputs + c) * group}, y(15))
		for r := range rows {
			s.multiply(15, first+r, t.outputs*r+c)
		}
	}
}

func (s avx2) reduce(t tile, rows int) {
	Load(Param("used"), count)
	NEGQ(count)
	LEAQ(masks32.Offset(32), ahead0)
	VMOVUPS(Mem{Base: ahead0, Index: count, Scale: 4}, x(15))
	VMOVUPS(Mem{Base: weights}, x(14))
	VXORPS(x(13), x(13), x(13))
	step := 4 / t.outputs
	for r := 0; r < rows; r += step {
		v := t.outputs * r
		VHADDPS(y(v+1), y(v), y(v))
		other := v
		if t.outputs == 4 || rows > 1 {
			other = v + 2
			VHADDPS(y(v+3), y(other), y(other))
		}
		VHADDPS(y(other), y(v), y(v))
		VEXTRACTF128(Imm(1), y(v), x(12))
		VADDPS(x(12), x(v), x(v))
		VADDPS(x(14), x(v), x(v))
		VMULPS(x(13), x(v), x(12))
		VCMPPS(Imm(3), x(12), x(12), x(12))
		VMOVMSKPS(x(12), reg.R11.As32())
		ORQ(reg.R11, flag2)
		VMASKMOVPS(x(v), x(15), Mem{Base: out})
		ADDQ(outStride, out)
		if step == 2 && rows > 1 {
			VPERMILPD(Imm(1), x(v), x(v))
			VMASKMOVPS(x(v), x(15), Mem{Base: out})
			ADDQ(outStride, out)
		}
	}
}

func (avx2) flag() { MOVQ(flag2, reg.R11) }

func (s avx2) centre(bits, i, first int, masked bool) {
	v, at := y(first+i), Mem{Base: column, Index: row, Scale: uint8(bits / 8), Disp: bits * i}
	if i == 0 && bits == 32 {
		VBROADCASTSS(Mem{Base: means}, y(15))
	} else if i == 0 {
		VBROADCASTSD(Mem{Base: means}, y(15))
	}
	switch {
	case bits == 32 && masked:
		VMASKMOVPS(at, y(13), v)
	case bits == 32:
		VMOVUPS(at, v)
	case masked:
		VMASKMOVPD(at, y(13), v)
		VMASKMOVPD(at.Offset(32), y(12), y(14))
	default:
		VMOVUPD(at, v)
		VMOVUPD(at.Offset(32), y(14))
	}
	if bits == 32 {
		VSUBPS(y(15), v, v)
		return
	}
	VSUBPD(y(15), v, v)
	VSUBPD(y(15), y(14), y(14))
	VCVTPD2PSY(v, x(first+i))
	VCVTPD2PSY(y(14), x(14))
	VINSERTF128(Imm(1), x(14), v, v)
}

func (avx2) rowMask(bits int) {
	MOVQ(U32(8), reg.R11)
	CMPQ(count, reg.R11)
	CMOVQLT(count, reg.R11)
	NEGQ(reg.R11)
	if bits == 32 {
		LEAQ(masks32.Offset(32), reg.R10)
		VMOVUPS(Mem{Base: reg.R10, Index: reg.R11, Scale: 4}, y(13))
		return
	}
	LEAQ(masks64.Offset(64), reg.R10)
	VMOVUPD(Mem{Base: reg.R10, Index: reg.R11, Scale: 8}, y(13))
	VMOVUPD(Mem{Base: reg.R10, Index: reg.R11, Scale: 8, Disp: 32}, y(12))
}
