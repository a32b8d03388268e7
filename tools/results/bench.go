package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot"

	"github.com/embedd/embedd/tools/picture"
)

// bench is shared by the sections.
type bench struct {
	data    string // directory of the data
	out     string // directory of the pictures
	repeats int    // maximum number of repeats of a section
}

// say prints progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// missing is the first missing file, "" if there is none.
func (b *bench) missing(names []string) string {
	for _, name := range names {
		path := filepath.Join(b.data, name+".csv.gz")
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
	return ""
}

// save draws the panels, columns in a row, into the directory of the pictures.
func (b *bench) save(name string, columns int, panels ...*plot.Plot) error {
	return picture.Save(filepath.Join(b.out, name), columns, panels...)
}
