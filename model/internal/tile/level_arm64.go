//go:build !purego

package tile

// neon is the level of arm64 processors, all of which have it.
const neon = portable + 1

var level = best()

func best() int { return neon }

// updateNEON adds alpha a'b to the 4 x 12 numbers of c, whose rows are stride apart: a and b are panels.
//
//go:noescape
func updateNEON(k int, a, b, c *float64, stride int, alpha float64)

// productsNEON sets 4 rows of 24 numbers of c, 48 numbers apart, to a'b.
//
//go:noescape
func productsNEON(k int, a, b, c *float32)

// rowNEON sets the 24 numbers of dst to the sums over k of x[k] times row k of a panel.
//
//go:noescape
func rowNEON(k int, x, table, dst *float64)

func row(k int, x, table, dst []float64) {
	if level == portable {
		rowPortable(k, x, table, dst)
		return
	}
	rowNEON(k, &x[0], &table[0], &dst[0])
}

func update(k int, a, b, c []float64, stride int, alpha float64, _ []float64) {
	if level == portable {
		updatePortable(k, a, b, c, stride, alpha)
		return
	}
	for i := 0; i < blockRows; i += 4 {
		for j := 0; j < panel; j += 12 {
			updateNEON(k, &a[i], &b[j], &c[i*stride+j], stride, alpha)
		}
	}
}

func compare(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	if level == portable {
		comparePortable(k, a, b, out, rows, columns)
		return
	}
	for i := 0; i < blockRows; i += 4 {
		for j := 0; j < PointPanel; j += 24 {
			productsNEON(k, &a[i], &b[j], &out.Dot[i*PointPanel+j])
		}
	}
	out.mark(rows, columns)
}

func compareFirst(k int, a, b []float32, out *Products, rows []float32, columns *Bounds) {
	compare(k, a, b, out, rows, columns)
}
