//go:build (!amd64 && !arm64) || purego

package tile

// level is the only one here.
var level = portable

func best() int { return portable }

func update(k int, a, b, c []float64, stride int, alpha float64, _ []float64) {
	updatePortable(k, a, b, c, stride, alpha)
}

func row(k int, x, table, dst []float64) { rowPortable(k, x, table, dst) }

func compare(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	comparePortable(k, a, b, out, rows, columns)
}

func compareFirst(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	compare(k, a, b, out, rows, columns)
}
