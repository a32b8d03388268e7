package product

import (
	"math/bits"
	"unsafe"

	"github.com/embedd/embedd/model/internal/linalg"
)

// This many rows of columns are summed at a time, some columns of a lane after the other: few enough that the sums
// stay in a cache, and enough that the processor recognises each column as a stream.
const (
	accRows     = 1024         // for two outputs; for more outputs
	accMany     = 512          // the sums would leave the cache,
	accFew      = 240          // and with few features most reads are sums: these stay in the first-level cache
	fewFeatures = 256          // up to which a lane has accFew rows
	accStride   = accRows + 16 // whole vectors of rows, and no two outputs at the same page offset
	together    = 32           // columns of a lane, or slightly fewer; with several tiles
	manyTiles   = 64           // that read them again more, because each iteration loads and stores all sums
	aheadRows   = 128          // that one tile of two outputs prefetches
	aheadMany   = 48           // that one of more outputs prefetches
	levels      = 4            // pending sums: of one lane, of two, of four, and the current one
	maxWidth    = 8            // outputs of the widest tile
	accTiles    = 4            // tiles that process the same columns while they are in a cache
)

// Sums is the memory that columns are summed in.
type Sums struct{ of []float32 }

// NewSums is enough for any weights.
func NewSums() *Sums { return &Sums{linalg.Aligned(accTiles * levels * maxWidth * accStride)} }

func columnsOf[T float32 | float64](p *Weights, s *tables[T], dst []float32, x []*T, from, rows int, sums *Sums) bool {
	if p.outputs == 0 {
		return true
	}
	_, _ = x[:p.features], dst[:rows*p.outputs]
	most := accRows
	switch {
	case p.tiles[0].width > 2 && p.features <= fewFeatures:
		most = accFew
	case p.tiles[0].width > 2:
		most = accMany
	}
	bad := 0
	for at := 0; at < rows; at += most {
		n := min(most, rows-at)
		for i := 0; i < len(p.tiles); i += accTiles {
			of := min(i+accTiles, len(p.tiles))
			for lane := range lanes {
				addLane(p, s, x, lane, i, of, from+at, n, sums)
			}
			for k := i; k < of; k++ {
				bad |= p.finish(dst[at*p.outputs:], k, sums.at(p, k-i, levels-1), n)
			}
		}
	}
	return bad == 0
}

// at is a level of the sums of tile i of those that process the same columns.
func (s *Sums) at(p *Weights, i, level int) *float32 {
	return &s.of[(i*levels+level)*p.tiles[0].width*accStride]
}

// addLane sums one lane of tiles [i, of), for rows starting at from. When a lane ends, it adds the sums of the lane
// that it forms a pair with, then of the pair's partner, and so on: as many levels as its number has trailing ones.
func addLane[T float32 | float64](p *Weights, s *tables[T], x []*T, lane, i, of, from, rows int, sums *Sums) {
	size := 4 * p.tiles[0].width * accStride
	all := (p.features + lanes - 1) / lanes
	most := together
	if of-i > 1 {
		most = manyTiles
	}
	turns := (all + most - 1) / most
	turn := (all + turns - 1) / turns
	for k := lane; ; k += turn * lanes {
		n := min((p.features-k+lanes-1)/lanes, turn)
		last := k+turn*lanes >= p.features
		// One tile prefetches in its own columns; several prefetch the next columns, if there are as many, a share each.
		// After the last lane come the rows of the next block.
		next, block, share := k, from, 256/(of-i)
		if of-i > 1 {
			if next = k + turn*lanes; last {
				next = (lane + 1) % lanes
			}
			if last && lane == lanes-1 {
				block += rows
			}
			if (p.features-next+lanes-1)/lanes < n {
				next, block = k, from
			}
		}
		for j := i; j < of; j++ {
			t := &p.tiles[j]
			load, store, adds := sums.at(p, j-i, levels-1), sums.at(p, j-i, levels-1), 0
			if k == lane {
				load = nil
			}
			if last {
				adds = bits.TrailingZeros(^uint(lane))
				store = sums.at(p, j-i, adds)
			}
			aheadFirst := from + aheadRows
			if p.tiles[0].width > 2 {
				aheadFirst = from + aheadMany
			}
			if of-i > 1 {
				aheadFirst = block + rows*(j-i)/(of-i)
			}
			if n > 0 {
				s.columns[j](load, store, sums.at(p, j-i, 0), adds, size, &x[k],
					&t.w[k/lanes*t.width*lanes+lane], &s.mean[k], n, from, rows,
					&x[next], aheadFirst, share)
			} else { // fewer features than lanes
				s.columns[j](load, store, sums.at(p, j-i, 0), adds, size, nil, nil, nil, 0, from, rows, nil, 0, 0)
			}
		}
		if last {
			return
		}
	}
}

// finish writes the sums of a tile to the rows of outputs.
func (p *Weights) finish(dst []float32, i int, sums *float32, rows int) (bad int) {
	t := &p.tiles[i]
	stride := 4 * p.outputs
	if t.width == 2 {
		return p.scatter.of2(&dst[t.first], sums, &t.offset[0], rows, stride, t.used)
	}
	acc := unsafe.Slice(sums, t.width*accStride)
	for c := 0; c < t.used; c += 4 {
		bad |= p.scatter.of4(&dst[t.first+c], &acc[c*accStride], &t.offset[c], rows, stride, min(t.used-c, 4))
	}
	return bad
}
