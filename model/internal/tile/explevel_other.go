//go:build !amd64 || purego

package tile

func exponentials(v []float64) { expPortable(v) }
