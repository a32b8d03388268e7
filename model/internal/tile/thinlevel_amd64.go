//go:build amd64 && !purego

package tile

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
