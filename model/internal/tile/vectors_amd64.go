//go:build amd64 && !purego

package tile

func exponentials(v []float64) {
	switch {
	case len(v) == 0:
	case level == avx512:
		expAVX512(&v[0], len(v))
	case level == avx2:
		expAVX2(&v[0], len(v))
	default:
		expPortable(v)
	}
}

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

func relax(dst []float64, index []int, value, x []float64) bool {
	switch level {
	case avx512:
		return relaxAVX512(len(index), &index[0], &value[0], &x[0], &dst[0])
	case avx2:
		return relaxAVX2(len(index), &index[0], &value[0], &x[0], &dst[0])
	}
	return relaxPortable(dst, index, value, x)
}

func rankTwo(n int, a []float64, stride int, v, w, x, y []float64) {
	switch level {
	case avx512:
		rankTwoAVX512(n, &a[0], stride, &v[0], &w[0], &x[0], &y[0])
	case avx2:
		rankTwoAVX2(n, &a[0], stride, &v[0], &w[0], &x[0], &y[0])
	default:
		rankTwoPortable(n, a, stride, v, w, x, y)
	}
}

// depth is how many of k rows of panels multiply gets at a time: with AVX2 few enough for two panels to stay in the
// first cache, of 32 KB.
func depth(k int) int {
	const rows = 72
	if level == avx2 {
		return rows
	}
	return k
}

// multiply adds a'b to a block of c, a panel that begins with zeros.
func multiply(k int, a, b, c []float64) {
	if level != avx2 {
		update(k, a, b, c, panel, 1, b)
		return
	}
	for i := 0; i < blockRows; i += 4 {
		for j := 0; j < panel; j += 12 {
			extendAVX2(k, &a[i], &b[j], &c[i*panel+j])
		}
	}
}

func row(k int, x, table, dst []float64) {
	if level == portable {
		rowPortable(k, x, table, dst)
		return
	}
	rowAVX2(k, &x[0], &table[0], &dst[0])
}

// distances processes leading numbers, and returns how many.
func distances(v, a []float64, b, rate float64) (done int) {
	if done = len(v) &^ 3; level == portable || done == 0 {
		return 0
	}
	distancesAVX2(done, &v[0], &a[0], b, rate)
	return done
}

// standardise processes leading numbers, and returns how many.
func standardise(x, mean, scale []float64) (done int) {
	if done = len(x) &^ 3; level == portable || done == 0 {
		return 0
	}
	standardiseAVX2(done, &x[0], &mean[0], &scale[0])
	return done
}

// along processes leading rows, and returns how many.
func along(dst, a []float64, n, k, stride int, x []float64, alpha float64) (done int) {
	for ; level == avx512 && done+8 <= n; done += 8 {
		alongAVX512(k, &a[done*stride], stride, &x[0], &dst[done*Thin], alpha)
	}
	for ; level > portable && done+4 <= n; done += 4 {
		alongAVX2(k, &a[done*stride], stride, &x[0], &dst[done*Thin], alpha)
	}
	return done
}

func across(dst, a []float64, n, k, stride int, x []float64) (done int) {
	for ; level == avx512 && done+8 <= n; done += 8 {
		acrossAVX512(k, &a[done*stride], stride, &x[done*Thin], &dst[0])
	}
	for ; level > portable && done+4 <= n; done += 4 {
		acrossAVX2(k, &a[done*stride], stride, &x[done*Thin], &dst[0])
	}
	return done
}
