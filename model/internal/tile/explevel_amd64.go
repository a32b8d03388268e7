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
