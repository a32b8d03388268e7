package fit

import (
	"fmt"
	"sort"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
)

// Held is the most memory, in bytes, that a fit of so many rows of so many features holds beside them, as measured:
// copies of the rows, graphs, matrices of rows x rows. largest is the number of rows of the class that has most. 0: what
// it holds does not grow with the rows.
func (c Config) Held(rows, largest, features int) int64 {
	c = c.withDefaults()
	method, params, err := c.resolve()
	if err != nil {
		return 0
	}
	e := frame.Extent{Rows: rows, Largest: largest, Features: features, Dim: 2, Params: params}
	if c.Dim > 0 {
		e.Dim = c.Dim
	}
	switch {
	case c.Landmarks > 0:
		behind := c.behind()
		return view{landmarks: c.Landmarks}.held(e) + behind.Held(rows, largest, min(c.Landmarks, rows))
	case c.Scale == model.ScaleRank:
		behind := c
		behind.Scale = model.ScaleNone
		return view{scale: model.ScaleRank}.held(e) + behind.Held(rows, largest, features)
	case method.Name == Auto:
		return c.heldByAuto(e)
	case method.Name == Blend:
		return heldByBlend(e)
	}
	return heldBy(method, e)
}

// fits says where a fit would hold more than it may, and how many of the rows there is room for.
func (c Config) fits(d *model.Data) error {
	if c.Memory == 0 || d == nil {
		return nil
	}
	count, largest := make([]int, len(d.Classes)), 0
	for _, y := range d.Y {
		if y >= 0 && y < len(count) { // Prepare says where it is not
			count[y]++
			largest = max(largest, count[y])
		}
	}
	held := func(rows int) int64 {
		of := rows
		if largest > 0 {
			of = (rows*largest + d.N - 1) / d.N
		}
		return c.Held(rows, of, d.M)
	}
	if held(d.N) <= c.Memory {
		return nil
	}
	cure, most := "take another method", d.N
	if m, err := c.method(); err == nil && m.Most > 0 {
		most = min(most, m.Most)
	}
	if n := sort.Search(most, func(n int) bool { return held(n+1) > c.Memory }); n >= 2 {
		cure = fmt.Sprintf("give at most %d rows, or take another method", n)
	}
	return &MemoryError{fmt.Sprintf("%s: a fit of %d rows would take %s of memory beside them, and %s are free; %s",
		c.name(), d.N, size(held(d.N)), size(c.Memory), cure)}
}

// MemoryError says that a fit did not begin, since it would hold more than Config.Memory.
type MemoryError struct{ text string }

func (e *MemoryError) Error() string { return e.text }

// size is bytes for people.
func size(bytes int64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}

func heldBy(m *frame.Method, e frame.Extent) int64 {
	if m.Held == nil {
		return 0
	}
	return m.Held(e)
}

// held is what a view holds of rows, beside what a method that looks at them holds: the rows in its scale, or what is made
// of them, as it is made and as a method looks at it.
func (v view) held(e frame.Extent) int64 {
	switch {
	case v.landmarks > 0:
		e.Features = min(v.landmarks, e.Rows)
		return e.Copies(2, 0)
	case v.curved():
		return e.Copies(3, 0)
	}
	return e.Copies(1, 0)
}

// heldByAuto is what the dearest of the candidates holds, beside the views that a blend of them has. In cross-validation
// there are all views, of so many rows as it looks at.
func (c Config) heldByAuto(e frame.Extent) int64 {
	most := int64(0)
	for _, m := range candidates() {
		of := e
		of.Params, _ = m.Resolve(nil) // its defaults
		if m.Auto.Tried != nil && !m.Auto.Tried(e.Dim, 2, false) {
			of.Rows = min(e.Rows, fewRows)
		}
		most = max(most, heldBy(m, of))
	}
	views := make([]view, 1)
	if c.Scale == model.ScaleAuto {
		views = make([]view, 3) // as many as there are scales
	}
	if c.Nonlinear {
		views = append(views, view{scale: model.ScaleRank}, view{landmarks: curvedLandmarks})
	}
	few, one, all, compared := e, int64(0), int64(0), int64(0)
	few.Rows = min(e.Rows, frame.MaxValidated)
	for _, v := range views {
		one, all, compared = max(one, v.held(e)), all+v.held(e), compared+v.held(few)
	}
	if c.Blend == 1 {
		return most + max(one, compared)
	}
	return most + all
}

// heldByBlend is what the dearest of the members holds beside the views of all.
func heldByBlend(e frame.Extent) int64 {
	of, _ := parseMembers(e.Params["members"]) // the configuration was checked
	most, views := int64(0), map[view]bool{}
	for _, one := range of {
		method, params, _ := memberMethod(one)
		in := e
		in.Params = params
		if v := viewOf(one); v.landmarks > 0 {
			in.Features = min(v.landmarks, e.Rows)
		}
		most = max(most, heldBy(method, in))
		views[viewOf(one)] = true
	}
	if most == 0 && len(views) == 1 {
		return 0
	}
	for v := range views {
		most += v.held(e)
	}
	return most
}
