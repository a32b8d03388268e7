package wildcard

import "testing"

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		p, q string
		want bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a.b", "a.b.c", false},
		{"a.*", "a.b", true}, {"a.*", "*.b", true}, {"a.*", "b.*", false}, {"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a.b", true}, {"a.>", "*.b", true}, {"a.>", "b.>", false},
	} {
		if Overlap(c.p, c.q) != c.want || Overlap(c.q, c.p) != c.want {
			t.Errorf("%s and %s: want %t", c.p, c.q, c.want)
		}
	}
}
