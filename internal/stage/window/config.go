package window

import "time"

// Config bounds a window.
type Config struct {
	Features int           // m
	Rows     int           // most rows
	Age      time.Duration // rows older than this, seen from the newest, leave; 0: no bound
	Bytes    int64         // most bytes of rows, moments and copies; 0: no bound. Fewer rows are kept where it binds.
	Classes  int           // most classes
	Holdout  float64       // share of the rows that no fit sees
	Balance  bool          // each class has a quota; otherwise the oldest row leaves, whatever its class
	Share    float64       // of a class's quota, and of the classes, that one source may have; 0: all
	Labelled bool          // rows have labels
	Moments  bool          // fits are made from moments, which blocks keep
	Copies   bool          // fits are made from a copy of the rows
	Summed   bool          // rows come as summaries, and leave so
	Lifted   int           // most features that rows have in fits, where a Lift makes them; 0: their own
	Rest     func()        // called now and then while all rows are looked at: who learns may rest there; nil: nobody
}

func (c Config) rest() {
	if c.Rest != nil {
		c.Rest()
	}
}

// rowOverhead is what a row takes beside its features: the row itself, its places in a block and in its class, the text
// of its source, and what the allocator rounds up.
const rowOverhead = 208 + maxSource

// RowBytes is the memory of one row, with its part of the moments, or of the copy that a fit makes.
func (c Config) RowBytes() int64 {
	m := int64(c.Features)
	bytes := 9*m + rowOverhead // an eighth for the allocator's size classes
	if c.Copies {
		bytes += 8 * (m + int64(c.Lifted))
	}
	if !c.Moments {
		return bytes
	}
	m = int64(c.summed())
	perBlock := 8 * m * (m + int64(min(c.Classes, c.blockRows()))) // second moments, and a sum a class
	return bytes + perBlock/int64(c.blockRows())
}

// summed is the number of features of the moments.
func (c Config) summed() int {
	if c.Lifted > 0 {
		return c.Lifted
	}
	return c.Features
}

// MaxRows is how many rows the window holds at most: Rows, or fewer to stay within Bytes.
func (c Config) MaxRows() int {
	if c.Bytes <= 0 || c.Summed {
		return c.Rows
	}
	return max(min(c.Rows, int(c.Bytes/c.RowBytes())), 4)
}

// blockRows is the mean number of rows of a block: enough that their moments take less memory than they.
func (c Config) blockRows() int { return max(1024, 4*c.summed()) }
