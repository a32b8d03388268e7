//go:build !purego

package product

var neon = set{
	name:   "NEON",
	widths: []int{4, 2},
	list32: map[int]list[float32]{4: listNEONx4f32, 2: listNEONx2f32},
	list64: map[int]list[float64]{4: listNEONx4f64, 2: listNEONx2f64},
	cols32: map[int]columns[float32]{4: columnsNEONx4f32, 2: columnsNEONx2f32},
	cols64: map[int]columns[float64]{4: columnsNEONx4f64, 2: columnsNEONx2f64},

	scatter: scatters{of4: scatterGo, of2: scatterGo},
}

// sets are the implementations that this machine supports, the fastest first.
func sets() []set { return []set{neon, portable} }
