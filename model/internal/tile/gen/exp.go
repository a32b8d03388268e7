package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// constants are in memory eight times each, so that either vector size can use them as an operand; see exp.go.
var constants = []float64{3 << 51, math.Log2E, -6.93147180369123816490e-01, -1.90821492927058770002e-10, -708,
	1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
	1.0 / 6, 0.5, 1, 1}

const (
	shift = iota
	log2e
	high
	low
	least
	first // coefficient of the polynomial
)

func exponentials() {
	table := GLOBL("exponents", RODATA|NOPTR)
	for i, v := range constants {
		for j := range 8 {
			DATA(8*(8*i+j), U64(math.Float64bits(v)))
		}
	}
	at := func(i int) Mem { return table.Offset(64 * i) }
	exp("AVX512", 64, registers(z, 5), at, func(x, p reg.VecPhysical) {
		VCMPPD(Imm(5), at(least), x, reg.K1) // not below
		VMOVAPD_Z(p, reg.K1, p)
	})
	exp("AVX2", 32, registers(y, 5), at, func(x, p reg.VecPhysical) {
		VCMPPD(Imm(5), at(least), x, x)
		VANDPD(x, p, p)
	})
}

func exp(name string, bytes int, v []reg.VecPhysical, at func(int) Mem, clear func(x, p reg.VecPhysical)) {
	x, t, n, r, p := v[0], v[1], v[2], v[3], v[4]
	TEXT("exp"+name, NOSPLIT, "func(v *float64, n int)")
	Pragma("noescape")
	Doc("exp" + name + " takes the exponentials of n numbers, a multiple of eight, none above 0.")
	from, left := Load(Param("v"), GP64()), Load(Param("n"), GP64())
	loop := "loop"
	Label(loop)
	VMOVUPD(Mem{Base: from}, x)
	VMOVUPD(at(shift), t)
	VFMADD231PD(at(log2e), x, t)
	VSUBPD(at(shift), t, n)
	VMOVAPD(x, r)
	VFMADD231PD(at(high), n, r)
	VFMADD231PD(at(low), n, r)
	VMOVUPD(at(first), p)
	for i := first + 1; i < len(constants); i++ {
		VFMADD213PD(at(i), r, p)
	}
	VPSLLQ(Imm(52), t, t)
	VPADDQ(t, p, p)
	clear(x, p)
	VMOVUPD(p, Mem{Base: from})
	ADDQ(Imm(uint64(bytes)), from)
	SUBQ(Imm(uint64(bytes/8)), left)
	JNZ(LabelRef(loop))
	VZEROUPPER()
	RET()
}
