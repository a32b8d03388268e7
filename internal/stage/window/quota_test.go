package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
)

// TestQuota: one source has at most its share of a class, and of the labels of the window, whatever it sends; the
// window is the same in any order of arrival, and after a restart.
func TestQuota(t *testing.T) {
	rows := stream(31, 12000, 3, 0.5, 0.3, 0.2)
	r := rand.New(rand.NewPCG(4, 4))
	for i := range rows { // one sends nine in ten rows of a class, and its own random features
		rows[i].Source = fmt.Sprint("quiet", r.IntN(3))
		if rows[i].Label == "class 0" && r.IntN(10) > 0 {
			rows[i].Source = "loud"
		}
	}
	c := config
	c.Rows, c.Share = 3000, 0.5
	w := fill(c, rows)
	of := func(w *Window) map[string]map[string]int {
		n := map[string]map[string]int{}
		w.All(func(r *Row) bool {
			if n[r.Label] == nil {
				n[r.Label] = map[string]int{}
			}
			n[r.Label][r.Source]++
			return true
		})
		return n
	}
	most := (w.quota + 1) / 2
	if n := of(w)["class 0"]; n["loud"] != most || n["quiet0"] < 100 || w.CappedRows() == 0 {
		t.Errorf("of a class that may have %d rows there are %v", w.quota, n)
	}
	for label, n := range of(w) {
		for source, n := range n {
			if n > most {
				t.Errorf("%s has %d rows of %s, and may have %d", source, n, label, most)
			}
		}
	}
	for range testsize.Of(1, 3) {
		late := slices.Clone(rows)
		for i := range late {
			j := min(i+r.IntN(5000), len(late)-1)
			late[i], late[j] = late[j], late[i]
		}
		if look(t, fill(c, late)) != look(t, w) {
			t.Error("another window in another order")
		}
	}
	for _, at := range []int{2500, 9000} {
		before := fill(c, rows[:at])
		oldest, _ := before.Oldest()
		again := New(c)
		again.LowerQuota(before.quota)
		for _, r := range rows[:at] {
			if r.Seq >= oldest.Seq {
				again.Add(r)
			}
		}
		if look(t, before) != look(t, again) {
			t.Errorf("after %d rows: another window after a restart", at)
		}
	}
	c.Classes = 10
	w = New(c)
	for i := range 1000 {
		w.Add(Row{Position: Position{Seq: uint64(i)}, Label: fmt.Sprint("junk", i/20), Source: "loud",
			X: []float64{1, 2, 3}})
	}
	for i := range 1000 {
		w.Add(Row{Position: Position{Seq: uint64(5000 + i)}, Label: fmt.Sprint("class ", i%5), Source: "quiet",
			X: []float64{1, 2, 3}})
	}
	if n := of(w); w.Classes() != 10 || n["class 4"]["quiet"] < 100 {
		t.Errorf("next to the labels of a loud subject there are %v", n)
	}
}
