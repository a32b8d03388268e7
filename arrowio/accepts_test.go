package arrowio

import "testing"

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		features []string
		model    []string
		want     bool
	}{
		{[]string{"a", "b"}, []string{"a", "b"}, true},
		{[]string{"a", "b"}, []string{"b", "a"}, false},
		{[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a", "b", "c"}, []string{"a", "b"}, false},
		{[]string{"x"}, []string{"x[0]", "x[1]"}, true},
		{[]string{"y"}, []string{"x[0]", "x[1]"}, false},
		{[]string{"x", "y"}, []string{"x[0]", "x[1]", "y"}, true},
		{[]string{"*"}, []string{"a", "x[0]"}, true},
		{[]string{"f_*"}, []string{"f_1", "f_2"}, true},
		{[]string{"f_*"}, []string{"f_1", "g_2"}, false},
		{[]string{"f_*", "g"}, []string{"f_1", "g"}, true},
		{[]string{"x[0]"}, []string{"x[0]"}, true},
		{[]string{"*"}, []string{"a", "label"}, false},
	} {
		if got := (Spec{Features: c.features, Label: "label"}).Accepts(c.model); got != c.want {
			t.Errorf("%v of a model of %v: %v", c.features, c.model, got)
		}
	}
}
