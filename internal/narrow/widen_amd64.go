//go:build amd64 && !purego

package narrow

import "golang.org/x/sys/cpu"

var (
	hasVectors = cpu.X86.HasAVX2
	hasHalves  = hasVectors && hasF16C()
)

// hasF16C reports whether the processor has VCVTPH2PS, for which package cpu has no field.
func hasF16C() bool

// The loops convert n numbers, a multiple of eight and not 0.

//go:noescape
func int8AVX2(dst *float32, raw *byte, n int)

//go:noescape
func uint8AVX2(dst *float32, raw *byte, n int)

//go:noescape
func int16AVX2(dst *float32, raw *byte, n int)

//go:noescape
func uint16AVX2(dst *float32, raw *byte, n int)

//go:noescape
func float16F16C(dst *float32, raw *byte, n int)

var loops = [...]func(dst *float32, raw *byte, n int){Int8: int8AVX2, Uint8: uint8AVX2, Int16: int16AVX2,
	Uint16: uint16AVX2, Float16: float16F16C}

// widen converts leading numbers, and returns how many.
func widen(f Format, dst []float32, raw []byte) int {
	n := len(dst) &^ 7
	if n == 0 || !hasVectors || f == Float16 && !hasHalves {
		return 0
	}
	loops[f](&dst[0], &raw[0], n)
	return n
}
