package product

import (
	"unsafe"
)

// portable is the set for every processor. It rounds products explicitly: otherwise a compiler may fuse them with the
// sum where the processor can, and the bits would differ.
var portable = set{
	name:    "portable",
	widths:  []int{2},
	list32:  map[int]list[float32]{2: listGo[float32]},
	list64:  map[int]list[float64]{2: listGo[float64]},
	cols32:  map[int]columns[float32]{2: columnsGo[float32]},
	cols64:  map[int]columns[float64]{2: columnsGo[float64]},
	scatter: scatters{of2: scatterGo},
}

// width is that of the portable tile. It only affects the layout of the weights.
const width = 2

func listGo[T float32 | float64](dst *float32, x *T, w *float32, mean *T, offset *float32,
	rows, features, xStride, dstStride, used, _, _, _, _ int) (bad int) {
	groups := (features + lanes - 1) / lanes
	weights := unsafe.Slice(w, groups*width*lanes)
	means := unsafe.Slice(mean, groups*lanes)
	offsets := unsafe.Slice(offset, width)
	for r := range rows {
		row := unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(x), r*xStride)), features)
		out := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), r*dstStride)), used)
		for c := range out {
			out[c] = sumOf(row, means, weights[c*lanes:]) + offsets[c]
			bad |= notFinite(out[c])
		}
	}
	return bad
}

// sumOf is the sum of the lanes of one output.
func sumOf[T float32 | float64](x, mean []T, w []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(x) >= lanes {
		m, v := mean[:lanes], w[:lanes]
		s0 += float32(float32(x[0]-m[0]) * v[0])
		s1 += float32(float32(x[1]-m[1]) * v[1])
		s2 += float32(float32(x[2]-m[2]) * v[2])
		s3 += float32(float32(x[3]-m[3]) * v[3])
		s4 += float32(float32(x[4]-m[4]) * v[4])
		s5 += float32(float32(x[5]-m[5]) * v[5])
		s6 += float32(float32(x[6]-m[6]) * v[6])
		s7 += float32(float32(x[7]-m[7]) * v[7])
		if x, mean = x[lanes:], mean[lanes:]; len(x) > 0 {
			w = w[width*lanes:]
		}
	}
	s := [lanes]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	for l, v := range x {
		s[l] += float32(float32(v-mean[l]) * w[l])
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

func columnsGo[T float32 | float64](load, store, pending *float32, adds, size int,
	x **T, w *float32, mean *T, features, first, rows int, _ **T, _, _ int) {
	for c := range width {
		at := func(base *float32) []float32 {
			return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(base), 4*c*accStride)), rows)
		}
		sums := at(store)
		if load == nil {
			clear(sums)
		} else {
			copy(sums, at(load))
		}
		for k := range features {
			column := *(**T)(unsafe.Add(unsafe.Pointer(x), k*lanes*int(unsafe.Sizeof(x))))
			weight := *(*float32)(unsafe.Add(unsafe.Pointer(w), 4*lanes*(k*width+c)))
			mu := *(*T)(unsafe.Add(unsafe.Pointer(mean), k*lanes*int(unsafe.Sizeof(*mean))))
			rest := unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(column), first*int(unsafe.Sizeof(mu)))), rows)
			for i, v := range rest {
				sums[i] += float32(float32(v-mu) * weight)
			}
		}
		for i := range adds {
			for r, v := range at((*float32)(unsafe.Add(unsafe.Pointer(pending), i*size))) {
				sums[r] += v
			}
		}
	}
}

func scatterGo(dst, sums, offset *float32, rows, dstStride, used int) (bad int) {
	offsets := unsafe.Slice(offset, used)
	for c := range used {
		sum := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(sums), 4*c*accStride)), rows)
		for r, v := range sum {
			y := v + offsets[c]
			bad |= notFinite(y)
			*(*float32)(unsafe.Add(unsafe.Pointer(dst), r*dstStride+4*c)) = y
		}
	}
	return bad
}

func notFinite(v float32) int {
	if v-v != 0 {
		return 1
	}
	return 0
}
