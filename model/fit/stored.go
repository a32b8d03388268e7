package fit

import (
	"slices"

	"github.com/embedd/embedd/model"
)

// load returns the data with its rows in memory, unless they are stored and can be read a block at a time.
func load(c Config, d *model.Data) (*model.Data, error) {
	if d == nil || d.Stored == nil || d.N < 0 || d.M < 1 {
		return d, nil
	}
	if c.Streams() {
		m, err := c.method()
		if err != nil {
			return nil, err
		}
		if used(d, m.Supervised) > d.M { // fewer rows than features are expressed in the space that they span
			return d, nil
		}
	}
	loaded := *d
	loaded.Stored, loaded.X = nil, slices.Grow([]float64(nil), d.N*d.M)[:d.N*d.M]
	return &loaded, d.Stored.ReadRows(loaded.X, 0)
}

// used is the number of rows that a method uses.
func used(d *model.Data, supervised bool) int {
	if !supervised {
		return d.N
	}
	n := 0
	for _, class := range d.Y {
		if class >= 0 {
			n++
		}
	}
	return n
}
