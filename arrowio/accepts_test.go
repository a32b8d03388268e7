package arrowio

import (
	"strings"
	"testing"
)

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

func TestContractOf(t *testing.T) {
	for _, c := range []struct {
		features []string
		sizes    map[string]int
		model    []string
		want     string // "" for an error
	}{
		{nil, nil, []string{"a", "b"}, "a, b"},
		{[]string{"b", "a"}, nil, []string{"a", "b"}, "a, b"},
		{[]string{"*"}, nil, []string{"a", "b"}, "a, b"},
		{[]string{"x"}, nil, []string{"x[0]", "x[1]"}, "x[2]"},
		{[]string{"v"}, map[string]int{"v": 2}, []string{"a", "b"}, "v[2]"},
		{[]string{"v"}, map[string]int{"v": 2}, []string{"x[0]", "x[1]"}, "v[2]"},
		{[]string{"v"}, map[string]int{"v": 1}, []string{"a"}, ""},
		{[]string{"v"}, map[string]int{"v": 3}, []string{"a", "b"}, ""},
		{[]string{"v", "a"}, map[string]int{"v": 1, "a": 1}, []string{"a", "b"}, ""},
		{[]string{"v"}, nil, []string{"a", "b"}, ""},
		{[]string{"a", "b", "c"}, nil, []string{"a", "b"}, ""},
		{[]string{"*"}, nil, []string{"a", "label"}, ""},
		{nil, nil, strings.Split("abcdefgh", ""), "a, b, c, d, e, f, g, h"},
		{nil, nil, strings.Split("abcdefghij", ""), "a, b, c, d, e, f, g, h and 2 more columns"},
	} {
		got, err := Spec{Features: c.features, Sizes: c.sizes, Label: "label"}.ContractOf(c.model)
		if (err == nil) != (c.want != "") || err == nil && got.Short() != c.want {
			t.Errorf("%v %v of a model of %v: %v, %v; want %q", c.features, c.sizes, c.model, got, err, c.want)
		}
	}
}
