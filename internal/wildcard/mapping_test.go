package wildcard

import (
	"strings"
	"testing"
)

func TestMapping(t *testing.T) {
	for _, c := range []struct{ pattern, destination, covers, subject, want string }{
		{"features.*", "reduced.{{wildcard(1)}}", "reduced.*", "features.eu", "reduced.eu"},
		{"f.*.x.*", "r.{{wildcard(2)}}.{{wildcard(1)}}", "r.*.*", "f.a.x.b", "r.b.a"},
		{"f.*.>", "r.{{wildcard(1)}}.{{wildcard(1)}}", "r.*.*", "f.a.b.c", "r.a.a"},
		{"features.>", "reduced", "reduced", "features.a.b", "reduced"},
	} {
		m, err := ParseMapping(c.pattern, c.destination)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Map(c.subject); got != c.want || err != nil || m.Pattern() != c.covers || !Covers(c.covers, got) {
			t.Errorf("%s to %s: %s becomes %q within %s, %v", c.pattern, c.destination, c.subject, got, m.Pattern(), err)
		}
	}
	for destination, says := range map[string]string{
		"r.{{wildcard(2)}}":     "needs at least 2 *",
		"r.{{wildcard(0)}}":     "needs at least 1 *",
		"r.{{partition(3,1)}}":  "is no {{wildcard(1)}}",
		"r.x{{wildcard(1)}}":    "is no {{wildcard(1)}}",
		"{{wildcard(1)}}.r":     "begin with a word",
		"r.{{wildcard(1)":       "is no {{wildcard(1)}}",
		"r.{{wildcard(99999)}}": "is no {{wildcard(1)}}",
	} {
		if _, err := ParseMapping("f.*.>", destination); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", destination, err, says)
		}
	}
	m, err := ParseMapping("f.*", "r.{{wildcard(1)}}")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"f.*", "f.>", "f", "f." + strings.Repeat("x", MaxMapped)} {
		if got, err := m.Map(subject); err == nil {
			t.Errorf("%.20s becomes %.20s", subject, got)
		}
	}
}
