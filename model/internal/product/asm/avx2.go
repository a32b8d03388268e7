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

func (s avx2) half(bits int, t tile, rows, nth int) {
	first := s.vectors(t.outputs) * rows
	if rows == 1 {
		first = 12
	}
	disp := nth * lanes * bits / 8
	for r := range rows {
		at := rowAt(r, disp)
		if bits == 32 {
			VMOVUPS(at, y(first+r))
			VSUBPS(Mem{Base: means, Disp: disp}, y(first+r), y(first+r))
		} else {
			VMOVUPD(at, y(first+r))
			VMOVUPD(at.Offset(32), y(15))
			s.narrow(first+r, disp)
		}
	}
	s.products(t, rows, first, nth)
}

func (s avx2) tail(bits int, t tile, rows int) {
	first := s.vectors(t.outputs) * rows
	if rows == 1 {
		first = 12
	}
	Load(Param("features"), count)
	ANDQ(Imm(7), count)
	NEGQ(count)
	if bits == 32 {
		LEAQ(masks32.Offset(32), ahead0)
	} else {
		LEAQ(masks64.Offset(64), ahead0)
	}
	mask := Mem{Base: ahead0, Index: count, Scale: uint8(bits / 8)}
	for r := range rows {
		at := rowAt(r, 0)
		if bits == 32 {
			VMOVUPS(mask, y(15))
			VMASKMOVPS(at, y(15), y(first+r))
			VSUBPS(Mem{Base: means}, y(first+r), y(first+r))
		} else {
			VMOVUPD(mask, y(15))
			VMASKMOVPD(at, y(15), y(first+r))
			VMOVUPD(mask.Offset(32), y(15))
			VMASKMOVPD(at.Offset(32), y(15), y(15))
			s.narrow(first+r, 0)
		}
	}
	s.products(t, rows, first, 0)
}

// narrow centres the eight float64 in v and 15 and makes float32 of them.
func (avx2) narrow(v, disp int) {
	VSUBPD(Mem{Base: means, Disp: disp}, y(v), y(v))
	VSUBPD(Mem{Base: means, Disp: disp + 32}, y(15), y(15))
	VCVTPD2PSY(y(v), x(v))
	VCVTPD2PSY(y(15), x(15))
	VINSERTF128(Imm(1), x(15), y(v), y(v))
}

func (s avx2) products(t tile, rows, first, nth int) {
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
		switch {
		case t.outputs == 4:
			VHADDPS(y(v+3), y(v+2), y(v+2))
			VHADDPS(y(v+2), y(v), y(v))
		case rows > 1:
			VHADDPS(y(v+3), y(v+2), y(v+2))
			VHADDPS(y(v+2), y(v), y(v))
		default:
			VHADDPS(y(v), y(v), y(v))
		}
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

func (s avx2) centre(bits, i, first int) {
	v := first + i
	if bits == 32 {
		if i == 0 {
			VBROADCASTSS(Mem{Base: means}, y(15))
		}
		VMOVUPS(Mem{Base: column, Index: row, Scale: 4, Disp: 32 * i}, y(v))
		VSUBPS(y(15), y(v), y(v))
		return
	}
	if i == 0 {
		VBROADCASTSD(Mem{Base: means}, y(15))
	}
	VMOVUPD(Mem{Base: column, Index: row, Scale: 8, Disp: 64 * i}, y(v))
	VMOVUPD(Mem{Base: column, Index: row, Scale: 8, Disp: 64*i + 32}, y(14))
	join2(v)
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

func (avx2) centreMasked(bits, v int) {
	if bits == 32 {
		VBROADCASTSS(Mem{Base: means}, y(15))
		VMASKMOVPS(Mem{Base: column, Index: row, Scale: 4}, y(13), y(v))
		VSUBPS(y(15), y(v), y(v))
		return
	}
	VBROADCASTSD(Mem{Base: means}, y(15))
	VMASKMOVPD(Mem{Base: column, Index: row, Scale: 8}, y(13), y(v))
	VMASKMOVPD(Mem{Base: column, Index: row, Scale: 8, Disp: 32}, y(12), y(14))
	join2(v)
}

// join2 centres the float64 in v and 14 by 15 and makes one vector of them.
func join2(v int) {
	VSUBPD(y(15), y(v), y(v))
	VSUBPD(y(15), y(14), y(14))
	VCVTPD2PSY(y(v), x(v))
	VCVTPD2PSY(y(14), x(14))
	VINSERTF128(Imm(1), x(14), y(v), y(v))
}
