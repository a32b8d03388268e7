package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx512 has 32 registers of 16 numbers. A sum of a list is half a register, so that both outputs in a register use
// the same eight features. In lists, registers 24 to 27 are weights, 28 is the mean, 29 and 30 are features and 31 is
// the flag.
type avx512 struct{}

func (avx512) name() string            { return "512" }
func (avx512) width() int              { return 16 }
func (avx512) vectors(outputs int) int { return outputs / 2 }
func (avx512) clear()                  { VPXORD(z(31), z(31), z(31)) }
func (avx512) zero(i int)              { VPXORD(z(i), z(i), z(i)) }
func (avx512) load(at Mem, i int)      { VMOVUPS(at, z(i)) }
func (avx512) add(at Mem, i int)       { VADDPS(at, z(i), z(i)) }
func (avx512) store(i int, at Mem)     { VMOVUPS(z(i), at) }
func (avx512) broadcast(at Mem, i int) { VBROADCASTSS(at, z(i)) }
func (avx512) multiply(a, b, sum int)  { VFMADD231PS(z(a), z(b), z(sum)) }

// masks sets K1 to the remaining features and K2 to the outputs in use.
func (avx512) masks() {
	lowest(7, reg.K1)
	MOVQ(ahead3, count)
	lowest(15, reg.K2)
}

// lowest sets the lowest R8 & bits bits of k.
func lowest(bits uint64, k reg.OpmaskPhysical) {
	MOVQ(count, reg.RCX)
	ANDQ(Imm(bits), reg.RCX)
	MOVL(U32(1), reg.EAX)
	SHLL(reg.CL, reg.EAX)
	DECL(reg.EAX)
	KMOVW(reg.EAX, k)
}

func (s avx512) eight(bits int, t tile, rows, nth int, last bool) {
	for p := range s.vectors(t.outputs) {
		VMOVUPS(Mem{Base: weights, Disp: nth*t.outputs*group + 64*p}, z(24+p))
	}
	disp := nth * lanes * bits / 8
	if bits == 32 {
		VBROADCASTF64X4(Mem{Base: means, Disp: disp}, z(28))
	} else {
		VMOVUPD(Mem{Base: means, Disp: disp}, z(28))
	}
	for r := range rows {
		v, at := 29+r%2, rowAt(r, disp)
		switch {
		case bits == 64 && last:
			VMOVUPD_Z(at, reg.K1, z(v))
			s.narrow(v)
		case bits == 64:
			VMOVUPD(at, z(v))
			s.narrow(v)
		case last:
			VMOVUPS_Z(at, reg.K1, y(v))
			VSUBPS(y(28), y(v), y(v))
			VINSERTF64X4(Imm(1), y(v), z(v), z(v))
		default:
			VBROADCASTF64X4(at, z(v))
			VSUBPS(z(28), z(v), z(v))
		}
		n := s.vectors(t.outputs)
		for p := range n {
			s.multiply(24+p, v, n*r+p)
		}
	}
}

// narrow centres eight float64 and puts them into both halves as float32.
func (avx512) narrow(v int) {
	VSUBPD(z(28), z(v), z(v))
	VCVTPD2PS(z(v), y(v))
	VINSERTF64X4(Imm(1), y(v), z(v), z(v))
}

// pairs adds neighbours in both vectors; the sums alternate between the first and the second, two at a time.
func (avx512) pairs(a, b int) {
	VSHUFPS(Imm(0x88), z(b), z(a), z(28))
	VSHUFPS(Imm(0xdd), z(b), z(a), z(a))
	VADDPS(z(28), z(a), z(a))
}

// halves adds neighbouring quarters, puts the results of both vectors side by side and the outputs in order.
func (avx512) halves(a, b int) {
	VSHUFF64X2(Imm(0x88), z(b), z(a), z(28))
	VSHUFF64X2(Imm(0xdd), z(b), z(a), z(a))
	VADDPS(z(28), z(a), z(a))
	VMOVDQU32(order, z(28))
	VPERMPS(z(a), z(28), z(a))
}

func (s avx512) reduce(t tile, rows int) {
	VMOVUPS(Mem{Base: weights}, z(27))
	VPXORD(z(26), z(26), z(26))
	n := s.vectors(t.outputs)
	together := 16 / t.outputs // rows whose outputs fill a vector
	for from := 0; from < rows; from += together {
		at := func(r int) int { return n * min(from+r, rows-1) }
		if rows == 1 && together > 1 {
			for r := 1; r < together; r++ { // all are the same row: pairs must not read what it has written
				for p := range n {
					VMOVAPS(z(p), z(n*r+p))
				}
			}
			at = func(r int) int { return n * r }
		}
		var sums [8]int
		for i := range sums {
			sums[i] = at(i/n) + i%n
		}
		for i := 0; i < 8; i += 4 {
			s.pairs(sums[i], sums[i+1])
			s.pairs(sums[i+2], sums[i+3])
			s.pairs(sums[i], sums[i+2])
		}
		s.halves(sums[0], sums[4])
		v := at(0)
		VADDPS(z(27), z(v), z(v))
		VFMADD231PS(z(26), z(v), z(31))
		for r := range min(together, rows) {
			s.put(t, v, r)
			ADDQ(outStride, out)
		}
	}
}

// put stores the outputs of row r of those in vector v.
func (avx512) put(t tile, v, r int) {
	if t.outputs == 8 {
		if r == 1 {
			VEXTRACTF64X4(Imm(1), z(v), y(28))
			v = 28
		}
		VMOVUPS(y(v), reg.K2, Mem{Base: out})
		return
	}
	from, quarter, second := x(v), r*t.outputs/4, r*t.outputs%4 > 0
	if quarter > 0 {
		from = x(28) // for the second half, the row before has extracted it
		if !second {
			VEXTRACTF32X4(Imm(uint64(quarter)), z(v), from)
		}
	}
	if second {
		VPERMILPD(Imm(1), from, x(28))
		from = x(28)
	}
	VMOVUPS(from, reg.K2, Mem{Base: out})
}

func (avx512) flag() {
	VCMPPS(Imm(3), z(31), z(31), reg.K3)
	KMOVW(reg.K3, reg.R11.As32().(reg.GPPhysical))
}

func (avx512) centre(bits, i, first int, masked bool) {
	v, at := z(first+i), Mem{Base: column, Index: row, Scale: uint8(bits / 8), Disp: 2 * bits * i}
	switch {
	case bits == 32 && masked:
		VMOVUPS_Z(at, reg.K1, v)
	case bits == 32:
		VMOVUPS(at, v)
	case masked:
		VMOVUPD_Z(at, reg.K1, v)
		VMOVUPD_Z(at.Offset(64), reg.K2, z(31))
	default:
		VMOVUPD(at, v)
		VMOVUPD(at.Offset(64), z(31))
	}
	if bits == 32 {
		VSUBPS_BCST(Mem{Base: means}, v, v)
		return
	}
	VSUBPD_BCST(Mem{Base: means}, v, v)
	VSUBPD_BCST(Mem{Base: means}, z(31), z(31))
	VCVTPD2PS(v, y(first+i))
	VCVTPD2PS(z(31), y(31))
	VINSERTF64X4(Imm(1), y(31), v, v)
}

func (avx512) rowMask(bits int) {
	MOVQ(U32(16), reg.R11)
	CMPQ(count, reg.R11)
	CMOVQLT(count, reg.R11)
	MOVQ(reg.R11, reg.RCX)
	MOVL(U32(1), reg.EAX)
	SHLL(reg.CL, reg.EAX)
	DECL(reg.EAX)
	KMOVW(reg.EAX, reg.K1)
	KSHIFTRW(Imm(8), reg.K1, reg.K2)
}
