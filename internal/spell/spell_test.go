package spell

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"lda", "lda", 0}, {"lda", "pca", 2}, {"dmi", "dim", 1}, {"lfda", "lda", 1},
		{"srdaa", "srda", 1}, {"ab", "ba", 1},
	} {
		if got := Distance(c.a, c.b); got != c.want || Distance(c.b, c.a) != got {
			t.Errorf("%q and %q: %d, want %d both ways", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"rows", "message", "in_flight"}
	for given, want := range map[string]string{"row": "rows", "mesage": "message", "inflight": "in_flight",
		"rwos": "rows", "ROW": "rows", "zebra": "", "": ""} {
		if got := Nearest(given, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", given, got, want)
		}
	}
}
