package window

import "time"

// Config bounds a window.
type Config struct {
	Features      int           // of a row
	Rows          int           // maximum number of rows
	Age           time.Duration // rows older than this, relative to the newest row, leave; 0: no bound
	Bytes         int64         // maximum memory of rows, moments and copies, which may reduce the rows; 0: no bound
	Classes       int           // maximum number of classes
	Holdout       float64       // share of the rows that no fit sees
	Balance       bool          // each class has a quota; otherwise the oldest row of any class leaves
	Share         float64       // of a class's quota, and of the classes, that one source may have; 0: no bound
	Labelled      bool          // rows have labels
	Moments       bool          // fits are made from the moments of blocks
	Copies        bool          // fits are made from a copy of the rows
	Summaries     bool          // rows arrive, and leave, as summaries of blocks
	MappedColumns int           // maximum number of columns of a Mapping; 0: there is none
	Pause         func()        // called during long loops over all rows, so that learning can pause; may be nil
}

func (c Config) pause() {
	if c.Pause != nil {
		c.Pause()
	}
}

// rowOverhead is the memory of a row besides its features: the row itself, its entries in a block and in a class, the
// text of its source, and rounding by the allocator.
const rowOverhead = 208 + maxSource

// RowBytes is the memory of one row, with its part of the moments, or of the copy that a fit makes.
func (c Config) RowBytes() int64 {
	m := int64(c.Features)
	bytes := 9*m + rowOverhead // an eighth for the allocator's size classes
	if c.Copies {
		bytes += 8 * (m + int64(c.MappedColumns))
	}
	if !c.Moments {
		return bytes
	}
	m = int64(c.momentColumns())
	perBlock := 8 * m * (m + int64(min(c.Classes, c.blockRows()))) // second moments, and a sum per class
	return bytes + perBlock/int64(c.blockRows())
}

// momentColumns is the number of columns of the moments.
func (c Config) momentColumns() int {
	if c.MappedColumns > 0 {
		return c.MappedColumns
	}
	return c.Features
}

// MaxRows is the maximum number of rows: Rows, or fewer to stay within Bytes.
func (c Config) MaxRows() int {
	if c.Bytes <= 0 || c.Summaries {
		return c.Rows
	}
	return max(min(c.Rows, int(c.Bytes/c.RowBytes())), 4)
}

// blockRows is the mean number of rows of a block. Its moments take less memory than its rows.
func (c Config) blockRows() int { return max(1024, 4*c.momentColumns()) }
