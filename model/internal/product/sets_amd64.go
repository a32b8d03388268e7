//go:build !purego

package product

import "golang.org/x/sys/cpu"

var avx512 = set{
	name:   "AVX-512",
	widths: []int{8, 4, 2},
	list32: map[int]list[float32]{8: list512x8f32, 4: list512x4f32, 2: list512x2f32},
	list64: map[int]list[float64]{8: list512x8f64, 4: list512x4f64, 2: list512x2f64},
	cols32: map[int]columns[float32]{8: columns512x8f32, 4: columns512x4f32, 2: columns512x2f32},
	cols64: map[int]columns[float64]{8: columns512x8f64, 4: columns512x4f64, 2: columns512x2f64},

	scatter: scatters{of4: scatter4, of2: scatter2},
}

var avx2 = set{
	name:   "AVX2",
	widths: []int{4, 2},
	list32: map[int]list[float32]{4: list256x4f32, 2: list256x2f32},
	list64: map[int]list[float64]{4: list256x4f64, 2: list256x2f64},
	cols32: map[int]columns[float32]{4: columns256x4f32, 2: columns256x2f32},
	cols64: map[int]columns[float64]{4: columns256x4f64, 2: columns256x2f64},

	scatter: scatters{of4: scatter4, of2: scatter2},
}

// sets are the implementations that this machine supports, the fastest first.
func sets() []set {
	all := []set{portable}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		all = append([]set{avx2}, all...)
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ {
			all = append([]set{avx512}, all...)
		}
	}
	return all
}
