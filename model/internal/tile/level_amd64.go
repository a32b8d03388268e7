//go:build amd64 && !purego

package tile

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

const (
	avx2 = portable + 1 + iota
	avx512
)

// level is the best kernel set that the machine supports.
var level = best()

func best() int {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return portable
}

// update adds alpha a'b to a block of c, whose rows are stride numbers apart; a and b are k rows of panels. It
// prefetches k cache lines from next.
func update(k int, a, b, c []float64, stride int, alpha float64, next []float64) {
	switch level {
	case avx512:
		updateAVX512(k, &a[0], &b[0], &c[0], stride, alpha, &next[0])
	case avx2:
		for i := 0; i < blockRows; i += 4 {
			for j := 0; j < panel; j += 12 {
				updateAVX2(k, &a[i], &b[j], &c[i*stride+j], stride, alpha, &next[0])
			}
		}
	default:
		updatePortable(k, a, b, c, stride, alpha)
	}
}

// compare compares eight points, the first at a, with a panel.
func compare(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	switch level {
	case avx512:
		compareAVX512(k, &a[0], &b[0], &out.Dot[0], &rows[0], &columns[0], (*byte)(unsafe.Pointer(&out.Mask)))
	case avx2:
		masks := (*[8 * blockRows]byte)(unsafe.Pointer(&out.Mask))
		for i := 0; i < blockRows; i += 4 {
			for j := 0; j < PointPanel; j += 24 {
				compareAVX2(k, &a[i], &b[j], &out.Dot[i*PointPanel+j], &rows[i], &columns[j], &masks[8*i+j/8])
			}
		}
	default:
		comparePortable(k, a, b, out, rows, columns)
	}
}

// compareFirst compares the point at a alone, if there are instructions for it.
func compareFirst(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	switch level {
	case avx512:
		compareOneAVX512(k, &a[0], &b[0], &out.Dot[0], &rows[0], &columns[0], (*byte)(unsafe.Pointer(&out.Mask)))
	case avx2:
		masks := (*[8 * blockRows]byte)(unsafe.Pointer(&out.Mask))
		for j := 0; j < PointPanel; j += 24 {
			compareOneAVX2(k, &a[0], &b[j], &out.Dot[j], &rows[0], &columns[j], &masks[j/8])
		}
	default:
		comparePortable(k, a, b, out, rows, columns)
	}
}
