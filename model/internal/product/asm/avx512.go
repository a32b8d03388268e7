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

func (s avx512) half(bits int, t tile, rows, nth int) {
	s.weights(t, nth)
	disp := nth * lanes * bits / 8
	if bits == 32 {
		VBROADCASTF64X4(Mem{Base: means, Disp: disp}, z(28))
	} else {
		VMOVUPD(Mem{Base: means, Disp: disp}, z(28))
	}
	for r := range rows {
		v := 29 + r%2
		at := rowAt(r, disp)
		if bits == 32 {
			VBROADCASTF64X4(at, z(v))
			VSUBPS(z(28), z(v), z(v))
		} else {
			VMOVUPD(at, z(v))
			s.narrow(v)
		}
		s.products(t, r, v)
	}
}

func (s avx512) tail(bits int, t tile, rows int) {
	s.weights(t, 0)
	if bits == 32 {
		VMOVUPS(Mem{Base: means}, y(28))
	} else {
		VMOVUPD(Mem{Base: means}, z(28))
	}
	for r := range rows {
		v := 29 + r%2
		at := rowAt(r, 0)
		if bits == 32 {
			VMOVUPS_Z(at, reg.K1, y(v))
			VSUBPS(y(28), y(v), y(v))
			VINSERTF64X4(Imm(1), y(v), z(v), z(v))
		} else {
			VMOVUPD_Z(at, reg.K1, z(v))
			s.narrow(v)
		}
		s.products(t, r, v)
	}
}

// narrow centres eight float64 and puts them into both halves as float32.
func (avx512) narrow(v int) {
	VSUBPD(z(28), z(v), z(v))
	VCVTPD2PS(z(v), y(v))
	VINSERTF64X4(Imm(1), y(v), z(v), z(v))
}

func (s avx512) weights(t tile, nth int) {
	for p := range s.vectors(t.outputs) {
		VMOVUPS(Mem{Base: weights, Disp: nth*t.outputs*group + 64*p}, z(24+p))
	}
}

func (s avx512) products(t tile, r, v int) {
	n := s.vectors(t.outputs)
	for p := range n {
		s.multiply(24+p, v, n*r+p)
	}
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
		switch t.outputs {
		case 8:
			for r := range 2 {
				s.pairs(at(r), at(r)+1)
				s.pairs(at(r)+2, at(r)+3)
				s.pairs(at(r), at(r)+2)
			}
			s.halves(at(0), at(1))
		case 4:
			for r := range 4 {
				s.pairs(at(r), at(r)+1)
			}
			s.pairs(at(0), at(1))
			s.pairs(at(2), at(3))
			s.halves(at(0), at(2))
		case 2:
			for r := 0; r < 8; r += 2 {
				s.pairs(at(r), at(r+1))
			}
			s.pairs(at(0), at(2))
			s.pairs(at(4), at(6))
			s.halves(at(0), at(4))
		}
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
	at := Mem{Base: out}
	switch t.outputs {
	case 8:
		if r == 1 {
			VEXTRACTF64X4(Imm(1), z(v), y(28))
			v = 28
		}
		VMOVUPS(y(v), reg.K2, at)
	case 4:
		if r > 0 {
			VEXTRACTF32X4(Imm(uint64(r)), z(v), x(28))
			v = 28
		}
		VMOVUPS(x(v), reg.K2, at)
	case 2:
		if r > 1 && r%2 == 0 {
			VEXTRACTF32X4(Imm(uint64(r/2)), z(v), x(28))
		}
		if r == 1 {
			VMOVAPS(x(v), x(28))
		}
		if r%2 == 1 {
			VPERMILPD(Imm(1), x(28), x(28))
		}
		if r > 0 {
			v = 28
		}
		VMOVUPS(x(v), reg.K2, at)
	}
}

func (avx512) flag() {
	VCMPPS(Imm(3), z(31), z(31), reg.K3)
	KMOVW(reg.K3, reg.R11.As32().(reg.GPPhysical))
}

func (avx512) centre(bits, i, first int) {
	v := first + i
	if bits == 32 {
		VMOVUPS(Mem{Base: column, Index: row, Scale: 4, Disp: 64 * i}, z(v))
		VSUBPS_BCST(Mem{Base: means}, z(v), z(v))
		return
	}
	VMOVUPD(Mem{Base: column, Index: row, Scale: 8, Disp: 128 * i}, z(v))
	VMOVUPD(Mem{Base: column, Index: row, Scale: 8, Disp: 128*i + 64}, z(31))
	join512(v)
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

func (avx512) centreMasked(bits, v int) {
	if bits == 32 {
		VMOVUPS_Z(Mem{Base: column, Index: row, Scale: 4}, reg.K1, z(v))
		VSUBPS_BCST(Mem{Base: means}, z(v), z(v))
		return
	}
	VMOVUPD_Z(Mem{Base: column, Index: row, Scale: 8}, reg.K1, z(v))
	VMOVUPD_Z(Mem{Base: column, Index: row, Scale: 8, Disp: 64}, reg.K2, z(31))
	join512(v)
}

// join512 centres the float64 in v and 31 and makes one vector of them.
func join512(v int) {
	VSUBPD_BCST(Mem{Base: means}, z(v), z(v))
	VSUBPD_BCST(Mem{Base: means}, z(31), z(31))
	VCVTPD2PS(z(v), y(v))
	VCVTPD2PS(z(31), y(31))
	VINSERTF64X4(Imm(1), y(31), z(v), z(v))
}
