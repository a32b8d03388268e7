//go:build arm64 && !purego

package narrow

// The loops convert n numbers, a multiple of eight and not 0.

//go:noescape
func int8NEON(dst *float32, raw *byte, n int)

//go:noescape
func uint8NEON(dst *float32, raw *byte, n int)

//go:noescape
func int16NEON(dst *float32, raw *byte, n int)

//go:noescape
func uint16NEON(dst *float32, raw *byte, n int)

//go:noescape
func float16NEON(dst *float32, raw *byte, n int)

var loops = [...]func(dst *float32, raw *byte, n int){Int8: int8NEON, Uint8: uint8NEON, Int16: int16NEON,
	Uint16: uint16NEON, Float16: float16NEON}

// widen converts leading numbers, and returns how many.
func widen(f Format, dst []float32, raw []byte) int {
	n := len(dst) &^ 7
	if n > 0 {
		loops[f](&dst[0], &raw[0], n)
	}
	return n
}
