package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot"

	"github.com/embedd/embedd/tools/picture"
)

// usualRepeats is the default number of repeats.
const usualRepeats = 20

// bench is shared by the sections.
type bench struct {
	data    string // directory of the data
	out     string // directory of the pictures
	repeats int    // maximum number of repeats of a section
	row     string // the first cell of the rows to print, "": all

	separateRows []string // first cells of the rows that the section can compute without its others
}

// printsOnly reports whether tables are only printed: the page has all rows, of the default number of repeats.
func (b *bench) printsOnly() bool { return b.row != "" || b.repeats != usualRepeats }

// computesOneRow reports whether only the rows with the requested first cell are computed.
func (b *bench) computesOneRow() bool { return slices.Contains(b.separateRows, b.row) }

// isRequested reports whether the rows with this first cell are to be computed.
func (b *bench) isRequested(cell string) bool { return !b.computesOneRow() || b.row == cell }

// say prints progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// missing is the first missing file, "" if there is none. A row of a data set needs only that set.
func (b *bench) missing(names []string) string {
	if b.computesOneRow() && slices.Contains(names, b.row) {
		names = []string{b.row}
	}
	for _, name := range names {
		if path, found := fileOf(b.data, name); !found {
			return path
		}
	}
	return ""
}

// save draws the panels, columns in a row, into the directory of the pictures, unless no file is written.
func (b *bench) save(name string, columns int, panels ...*plot.Plot) error {
	if b.printsOnly() {
		return nil
	}
	return picture.Save(filepath.Join(b.out, name), columns, panels...)
}
