//go:build !amd64 || purego

package tile

func along([]float64, []float64, int, int, int, []float64, float64) (done int) { return 0 }

func across([]float64, []float64, int, int, int, []float64) (done int) { return 0 }
