//go:build amd64 && !purego

package tile

// gather computes the leading elements of dst that fill vectors, and returns how many.
func gather(dst []float64, index []int, value, x []float64, stride int) (done int) {
	if wide := len(dst) &^ 7; level == avx512 && wide > 0 {
		gatherAVX512(len(index), &index[0], &value[0], &x[0], stride, &dst[0], wide)
		done = wide
	}
	if narrow := (len(dst) - done) &^ 3; level > portable && narrow > 0 {
		gatherAVX2(len(index), &index[0], &value[0], &x[done], stride, &dst[done], narrow)
		done += narrow
	}
	return done
}
