package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestFlagsAnywhere(t *testing.T) {
	for _, c := range []struct {
		line string
		args []string
		dim  int
		loop bool
	}{
		{"", nil, 0, false},
		{"a", []string{"a"}, 0, false},
		{"--dim 3 a b", []string{"a", "b"}, 3, false},
		{"a --dim 3 b", []string{"a", "b"}, 3, false},
		{"a b -dim=3", []string{"a", "b"}, 3, false},
		{"a --loop b", []string{"a", "b"}, 0, true},
		{"--loop=false - --dim 3", []string{"-"}, 3, false},
		{"a -- --dim 3", []string{"a", "--dim", "3"}, 0, false},
		{"-- -- a", []string{"--", "a"}, 0, false},
	} {
		f := newFlags(&env{verb: &verb{name: "v", usage: "v"}})
		dim, loop := f.Int("dim", 0, ""), f.Bool("loop", false, "")
		args, err := f.parse(strings.Fields(c.line), 0, -1)
		if err != nil || !slices.Equal(args, c.args) || *dim != c.dim || *loop != c.loop {
			t.Errorf("%q: %q, dim %d, loop %v, %v", c.line, args, *dim, *loop, err)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct {
		line      string
		low, high int
		want      string
	}{
		{"--dmi 3", 0, 0, "v: unknown flag --dmi (did you mean \"dim\"?): `embedd help v` lists the flags"},
		{"--dim x", 0, 0, "v: invalid value \"x\" for flag -dim: parse error: `embedd help v` lists the flags"},
		{"--dim", 0, 0, "v: flag needs an argument: -dim: `embedd help v` lists the flags"},
		{"a b", 0, 1, `v: argument "b" is not expected: usage: embedd v FILE`},
		{"a --dim 1", 2, -1, "v: an argument is missing: usage: embedd v FILE"},
		{"--set a", 0, 0, "v: invalid value \"a\" for flag -set: want KEY=VALUE: `embedd help v` lists the flags"},
		{"--set a=1 --set a=2", 0, 0, "v: invalid value \"a=2\" for flag -set: a is set twice: `embedd help v` lists the flags"},
		{"--dims 1,,2", 0, 0, "v: invalid value \"1,,2\" for flag -dims: an element of the list is empty: `embedd help v` lists the flags"},
		{"--scale big", 0, 0, "v: invalid value \"big\" for flag -scale: want one of standard, none: `embedd help v` lists the flags"},
	} {
		f := newFlags(&env{verb: &verb{name: "v", usage: "v FILE"}})
		f.Int("dim", 0, "")
		f.settings("set", "")
		f.commas("dims", "")
		f.choice("scale", "scaling", "standard", "none")
		_, err := f.parse(strings.Fields(c.line), c.low, c.high)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.line, err, c.want)
		}
		if _, ok := err.(usageError); !ok {
			t.Errorf("%q: %T is not a usage error", c.line, err)
		}
	}
}

func TestRepeatedFlags(t *testing.T) {
	f := newFlags(&env{verb: &verb{name: "v", usage: "v"}})
	list, dims, set, scale := f.list("features", ""), f.commas("dims", ""), f.settings("set", ""), f.choice("scale", "", "standard", "none")
	_, err := f.parse(strings.Fields("--features a,b --features c --dims 1,2 --dims 3 --set k=v=w --set ridge= --scale none"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*list, []string{"a,b", "c"}) || !slices.Equal(*dims, []string{"1", "2", "3"}) ||
		!maps.Equal(set, map[string]string{"k": "v=w", "ridge": ""}) || *scale != "none" {
		t.Errorf("%q %q %q %q", *list, *dims, set, *scale)
	}
	if f.need("dims", "set") != nil || f.need("dims", "zero") == nil || f.given("zero") || !f.given("scale") {
		t.Error("need and given do not say what was on the command line")
	}
}

func TestOutput(t *testing.T) {
	var b bytes.Buffer
	o := &output{w: &b, json: true}
	if err := o.object(map[string]string{"subject": "features.>", "text": "a\nb"}); err != nil {
		t.Fatal(err)
	}
	o.printf("for people")
	if got, want := b.String(), `{"subject":"features.>","text":"a\nb"}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	table := (&output{w: &b}).table("NAME", "ROWS")
	table.row("digits\nand more", 1797)
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "NAME             ROWS\ndigits and more  1797\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Where stderr is no terminal, progress writes whole lines, and rarely.
func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&env{stderr: &b})
	for range 1000 {
		p.show("fitting", 0.5)
	}
	p.end()
	if b.Len() != 0 {
		t.Errorf("short work wrote %q", b.String())
	}
	p.next = p.next.Add(-plainPace)
	for range 1000 {
		p.show("fitting", 0.5)
	}
	if got := b.String(); got != "fitting  50 %\n" {
		t.Errorf("wrote %q", got)
	}
}
