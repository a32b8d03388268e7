package tile

import "gonum.org/v1/gonum/floats"

// pack packs the part of an operand that the task names into panels: the block's rows of the first 24 numbers, then
// those of the next.
func (k *block) pack(t *task, data []float64) {
	o, dst := k.sum.A, data[k.at:]
	if t.right {
		dst = dst[panels(o.M)*k.height():]
		o = k.sum.B
	}
	switch {
	case o.Column != nil:
		k.packColumns(o, t.first, t.count, dst)
	case o.At != nil:
		k.packRows(o, t.first, t.count, dst)
	default:
		row := make([]float64, panels(o.M)*panel)
		for r := t.first; r < t.first+t.count; r++ {
			o.Row(row[:o.M], k.from+r)
			k.packRow(row, r, dst)
		}
	}
}

// packRow writes whole panels.
func (k *block) packRow(row []float64, r int, dst []float64) {
	for at := r * panel; len(row) >= panel; row, at = row[panel:], at+k.height() {
		*(*[panel]float64)(dst[at:]) = [panel]float64(row)
	}
}

func (k *block) packRows(o *Operand, first, count int, dst []float64) {
	whole := o.M / panel * panel
	last := dst[o.M/panel*k.height():]
	for r := first; r < first+count; r++ {
		row := o.At(k.from + r)
		if o.About == nil {
			k.packRow(row[:whole], r, dst)
		} else {
			for j, at := 0, r*panel; j < whole; j, at = j+panel, at+k.height() {
				floats.SubTo(dst[at:at+panel], row[j:j+panel], o.About[j:j+panel])
			}
		}
		if whole == o.M {
			continue
		}
		end := last[r*panel:][:panel]
		n := copy(end, row[whole:o.M])
		clear(end[n:])
		if o.About != nil {
			for l, v := range o.About[whole:o.M] {
				end[l] -= v
			}
		}
	}
}

// packColumns packs columns, eight at a time: reads are sequential in each, and writes fill a cache line.
func (k *block) packColumns(o *Operand, first, count int, dst []float64) {
	const together = 8 // numbers of a cache line
	var zeros [Depth]float64
	about := zeros[:k.rows]
	if o.About != nil {
		about = o.About[k.from:][:k.rows]
	}
	for j := first; j < first+count; j += together {
		var from [together][]float64
		for i := range from {
			from[i] = about // minus itself: padding with 0
			if j+i < o.M {
				from[i] = o.Column(j + i)[k.from:][:k.rows]
			}
		}
		f0, f1, f2, f3, f4, f5, f6, f7 := from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]
		at := dst[j/panel*k.height()+j%panel:]
		for r, c := range about {
			line := at[r*panel:][:together]
			line[0], line[1], line[2], line[3] = f0[r]-c, f1[r]-c, f2[r]-c, f3[r]-c
			line[4], line[5], line[6], line[7] = f4[r]-c, f5[r]-c, f6[r]-c, f7[r]-c
		}
	}
}
