package fit

import (
	"fmt"
	"sort"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// MemoryEstimate estimates, from measurements, the most memory in bytes that a fit of this many rows and features
// holds in addition to the rows: copies of them, graphs, matrices of rows x rows. largest is the number of rows of the
// largest class. It is 0 if that memory does not grow with the rows.
func (c Config) MemoryEstimate(rows, largest, features int) int64 {
	c = c.withDefaults()
	method, params, err := c.resolve()
	if err != nil {
		return 0
	}
	e := frame.Extent{Rows: rows, Largest: largest, Features: features, Dim: 2, Params: params}
	if c.Dim > 0 {
		e.Dim = c.Dim
	}
	spec := preprocess.Spec{Scale: c.Scale, Landmarks: c.Landmarks}
	switch {
	case spec.Nonlinear():
		if c.Landmarks > 0 {
			features = min(c.Landmarks, rows)
		}
		return spec.Memory(e) + c.withoutPreprocessing().MemoryEstimate(rows, largest, features)
	case method.Name == Auto:
		return choose.Memory(choose.Config{Scale: c.Scale, Blend: c.Blend, Nonlinear: c.Nonlinear}, e)
	case method.Name == Blend:
		return blend.Memory(e)
	}
	return method.MemoryBytes(e)
}

// checkMemory returns a *MemoryError if a fit would hold more than it may.
func (c Config) checkMemory(d *model.Data) error {
	if c.Memory == 0 || d == nil {
		return nil
	}
	count, largest := make([]int, len(d.Classes)), 0
	for _, y := range d.Y {
		if y >= 0 && y < len(count) { // frame.Prepare reports the others
			count[y]++
			largest = max(largest, count[y])
		}
	}
	held := func(rows int) int64 {
		of := rows
		if largest > 0 {
			of = (rows*largest + d.N - 1) / d.N
		}
		return c.MemoryEstimate(rows, of, d.M)
	}
	if held(d.N) <= c.Memory {
		return nil
	}
	fix, most := "use another method", d.N
	if m, err := c.method(); err == nil && m.MaxRows > 0 {
		most = min(most, m.MaxRows)
	}
	if n := sort.Search(most, func(n int) bool { return held(n+1) > c.Memory }); n >= 2 {
		fix = fmt.Sprintf("give at most %d rows, or use another method", n)
	}
	return &MemoryError{fmt.Sprintf("%s: a fit of %d rows would take %s of memory in addition to them, "+
		"and %s are free; %s",
		c.name(), d.N, formatBytes(held(d.N)), formatBytes(c.Memory), fix)}
}

// MemoryError reports a fit that did not start because it would hold more than Config.Memory.
type MemoryError struct{ text string }

func (e *MemoryError) Error() string { return e.text }

func formatBytes(bytes int64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}
