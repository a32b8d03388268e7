package arrowio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestSpecErrors: the error of a Spec or an Output that cannot be used says what is wrong with it.
func TestSpecErrors(t *testing.T) {
	for _, c := range []struct {
		of   any
		want string
	}{
		{Spec{}, ""}, {Spec{Format: "csv"}, ""}, {Spec{Format: "xml"},
			`format "xml" is unknown; use one of [arrow json ndjson csv]`},
		{Spec{Features: []string{"a", ""}},
			"an empty feature name; name a column or a glob"},
		{Spec{Features: []string{"a["}},
			`feature glob "a[": syntax error in pattern; close the bracket or escape it with a backslash`},
		{Spec{Features: []string{"a["}, Sizes: map[string]int{"a[": 1}}, ""},
		{Spec{Features: []string{"a["}, Encodings: []Encoding{{Column: "a["}}}, ""},
		{Spec{Features: []string{"a", "l"}, Label: "l"},
			`column "l" is a feature and also the label or the key; take it out of one`},
		{Spec{Features: []string{"k"}, Key: "k"},
			`column "k" is a feature and also the label or the key; take it out of one`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"b": 1}},
			`size 1 of column "b": want a column among the features, and 1 to 65536; correct the size`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"a": 0}},
			`size 0 of column "a": want a column among the features, and 1 to 65536; correct the size`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"a": 65537}},
			`size 65537 of column "a": want a column among the features, and 1 to 65536; correct the size`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"a": 65536}}, ""},
		{Spec{Label: "l", Key: "l"}, `column "l" is both the label and the key; name two columns`},
		{Spec{Features: []string{"a", "a"}, Sizes: map[string]int{"a": 1}},
			`column "a": the schema has this feature column twice; name it once`},
		{Output{}, ""}, {Output{Keep: []string{"a*", "none"}}, ""}, {Output{Keep: []string{""}},
			`kept columns "": not a name or glob; name a column, or close the bracket`},
		{Output{Keep: []string{"[a"}},
			`kept columns "[a": not a name or glob; name a column, or close the bracket`},
		{Output{Format: "xml"},
			`format "xml" is unknown; use one of [arrow json ndjson csv]`},
		{Output{Compression: "gzip"},
			`compression "gzip"; use none, lz4 or zstd`},
		{Output{Compression: "lz4", Format: "json"},
			`compression "lz4" is of Arrow buffers, and outputs are json; set no compression`},
		{Output{Compression: "none", Format: "json"}, ""},
		{Output{Compression: "zstd", Format: "arrow"}, ""},
	} {
		var err error
		switch of := c.of.(type) {
		case Spec:
			_, err = NewDecoder(of)
		case Output:
			_, err = NewEncoder(of)
		}
		checkError(t, fmt.Sprintf("%+v", c.of), err, c.want)
	}
}

// checkError compares the text of an error; "" is none.
func checkError(t *testing.T, of string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: %q, want %q", of, got, want)
	}
}

// TestContractErrors: the error of a contract that cannot be names the column, and the limit.
func TestContractErrors(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for _, c := range []struct {
		columns []ContractColumn
		want    string
	}{
		{nil,
			"the schema has no features; name at least one"},
		{[]ContractColumn{{Name: "a"},
			{Name: "a"}},
			`column "a": the schema has this feature column twice; name it once`},
		{[]ContractColumn{{Name: long}}, ""},
		{[]ContractColumn{{Name: long + "n"}},
			`column "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...": a feature's ` +
				`name of 1025 bytes, and the limit is 1024; send a short name`},
		{[]ContractColumn{{Name: "a\xff"}},
			`column "a�": a feature's name is not UTF-8; name columns in UTF-8`},
		{[]ContractColumn{{Name: "a", Size: -1}},
			`column "a": a feature column with lists of -1 elements; give a size of 1 or more, or none`},
		{[]ContractColumn{{Name: "a", Size: 65536}}, ""},
		{[]ContractColumn{{Name: "a", Size: 65537}},
			"65537 features, and the limit is 65536; use fewer features"},
		{[]ContractColumn{{Name: "a", Size: 65535}, {Name: "b"}}, ""},
		{[]ContractColumn{{Name: "a", Size: 65536}, {Name: "b"}},
			"65537 features, and the limit is 65536; use fewer features"},
		{[]ContractColumn{{Name: "a", Size: 65535}, {Name: "b", Values: []string{"c", "d"}}},
			"65537 features, and the limit is 65536; use fewer features"},
		{[]ContractColumn{{Name: "a", Date: true, Size: 1}},
			`column "a": a feature column that is several of a list, a date and a category, or has more ` +
				`than 1000 values; fit the model again`},
		{[]ContractColumn{{Name: "a", Values: []string{"b"}, Size: 1}},
			`column "a": a feature column that is several of a list, a date and a category, or has more ` +
				`than 1000 values; fit the model again`},
		{[]ContractColumn{{Name: "a", Values: []string{"b"}, Date: true}},
			`column "a": a feature column that is several of a list, a date and a category, or has more ` +
				`than 1000 values; fit the model again`},
		{[]ContractColumn{{Name: "a", Date: true}, {Name: "b", Values: []string{"c"}}, {Name: "d", Number: "float"}}, ""},
		{[]ContractColumn{{Name: "a", Number: "text"}},
			`column "a": a feature column of "text"; use one of float, integer, decimal, boolean`},
		{[]ContractColumn{{Name: "a", Size: 2}, {Name: "a[1]"}},
			`column "a[1]": it has the name of an element of the list "a"; rename one`},
		{[]ContractColumn{{Name: "a", Size: 2}, {Name: "a[2]"}}, ""},
		{[]ContractColumn{{Name: "a[1]"}, {Name: "a", Size: 2}},
			`column "a[1]": it has the name of an element of the list "a"; rename one`},
		{[]ContractColumn{{Name: "a", Values: []string{"b", "c"}}, {Name: "a=c"}},
			`column "a": a column has the name of the feature "a=c" of this category; rename one`},
		{[]ContractColumn{{Name: "a", Values: []string{"b", "c"}}, {Name: "a=d"}}, ""},
	} {
		_, err := newContract(c.columns, "l", "k")
		checkError(t, fmt.Sprintf("%.200v", c.columns), err, c.want)
	}
}

// TestDescriptionOfAContract: a contract is described with its first eight columns, and has an ID of its encodings too.
func TestDescriptionOfAContract(t *testing.T) {
	columns := []ContractColumn{{Name: "a", Number: "float"}, {Name: "b", Size: 3}, {Name: "c", Date: true},
		{Name: "d", Values: []string{"e", "f"}}}
	for _, c := range []struct {
		more        int
		text, short string
	}{
		{0,
			"7 features: a float, b[3], c (date), d (2 categories); label l",
			"a, b[3], c (date), d (2 categories)"},
		{4,
			"11 features: a float, b[3], c (date), d (2 categories), x0, x1, x2, x3; label l",
			"a, b[3], c (date), d (2 categories), x0, x1, x2, x3"},
		{5,
			"12 features: a float, b[3], c (date), d (2 categories), x0, x1, x2, x3 and 1 more " +
				"columns; label l",
			"a, b[3], c (date), d (2 categories), x0, x1, x2, x3 and 1 more columns"},
		{7,
			"14 features: a float, b[3], c (date), d (2 categories), x0, x1, x2, x3 and 3 " +
				"more columns; label l",
			"a, b[3], c (date), d (2 categories), x0, x1, x2, x3 and 3 more columns"},
	} {
		all := append([]ContractColumn{}, columns...)
		for k := range c.more {
			all = append(all, ContractColumn{Name: fmt.Sprint("x", k)})
		}
		k, err := newContract(all, "l", "")
		if err != nil {
			t.Fatal(err)
		}
		checkError(t, "the contract", fmt.Errorf("%s", k.String()), c.text)
		checkError(t, "its columns", fmt.Errorf("%s", k.Short()), c.short)
		if n := k.Len(); n != 7+c.more || len(k.Elements()) != n || len(k.Columns()) != 4+c.more {
			t.Errorf("%d features, %q", n, k.Elements())
		}
	}
	id := func(values ...string) string {
		k, err := newContract([]ContractColumn{{Name: "d", Values: values}}, "", "")
		if err != nil {
			t.Fatal(err)
		}
		return k.ID()
	}
	if first, again := id("e", "f"), id("e", "f"); first != again || first == id("e", "g") || first == id("e") {
		t.Error("the ID does not depend on the values of a category")
	}
	var none *Contract
	if none.String() != "no features" || none.Columns() != nil || none.Elements() != nil || none.Len() != 0 ||
		!none.Equal(nil) {
		t.Error("no contract has features")
	}
}

// TestMismatches: the error of a model whose features differ from those of a Spec names the difference.
func TestMismatches(t *testing.T) {
	spec := func(features string, sizes map[string]int) Spec {
		return Spec{Features: strings.Fields(features), Sizes: sizes, Label: "l", Key: "k"}
	}
	encoded := Spec{Features: []string{"a", "c", "d"}, Encodings: []Encoding{{Column: "c", Values: []string{"x", "y"}},
		{Column: "d"}}}
	for _, c := range []struct {
		spec     Spec
		elements string
		want     string
		accepts  bool
	}{
		{spec("a b", nil), "a b", "", true}, {spec("a b", nil), "b a", "", false}, {spec("", nil), "a", "", false},
		{spec("a", nil), "a b",
			`its feature "b" is in no entry`, false},
		{spec("a b", nil), "a",
			`"b" is not a feature of it`, false},
		{spec("a*", nil), "a1 a2", "", true},
		{spec("a*", nil), "l",
			`its feature "l" is the label or the key`, false},
		{spec("*", nil), "k",
			`its feature "k" is the label or the key`, false},
		{spec("*", nil), "l[0]",
			`its feature "l" is the label or the key`, false},
		{spec("v", nil), "v[0] v[1]", "", true}, {spec("v b", map[string]int{"v": 2}), "v[0] v[1] b", "", true},
		{spec("v b", map[string]int{"v": 3}), "v[0] v[1] b",
			`"v" has size 3, and the model has 2 elements of it`, false},
		{spec("v", map[string]int{"v": 2}), "p q", "", false},
		{spec("b v", map[string]int{"v": 1}), "b v", "", true},
		{encoded, "a c=x c=y d", "", true}, {encoded, "a c=x d",
			`column "c": the features of a category do not follow each other; fit the model again`, true},
		{encoded, "a c=y c=x d",
			`column "c": the features of a category do not follow each other; fit the model again`, true},
		{encoded, "a d c=x c=y", "", false}, {encoded, "a c=x c=y c=z d",
			`its feature "c=z" is in no entry`, false},
		{encoded, "d c=x a c=y",
			`column "c": the features of a category do not follow each other; fit the model again`, false},
	} {
		elements := strings.Fields(c.elements)
		k, err := c.spec.ContractOf(elements)
		checkError(t, fmt.Sprintf("%q of %q", c.spec.Features, elements), err, c.want)
		if err == nil && strings.Join(k.Elements(), " ") != c.elements && c.elements != "p q" {
			t.Errorf("%q of %q: elements %q", c.spec.Features, elements, k.Elements())
		}
		if got := c.spec.Accepts(elements); got != c.accepts {
			t.Errorf("%q accepts %q: %v", c.spec.Features, elements, got)
		}
	}
	all, err := EncodingsOf([]string{"a", "c=x", "c=y", "d"}, []string{"c"}, []string{"d"})
	if err != nil || fmt.Sprint(all) != "[{c [x y]} {d []}]" {
		t.Errorf("encodings %v, %v", all, err)
	}
	_, err = EncodingsOf([]string{"a"}, []string{"c"}, nil)
	checkError(t, "no value", err, `category "c" has no feature "c=...": fit the model again`)
	_, err = EncodingsOf([]string{"a"}, nil, []string{"d"})
	checkError(t, "no date", err, `date "d" is no feature: fit the model again`)
}

// TestEachLimit: a message is read at each limit, and refused one above with the limit in its error.
func TestEachLimit(t *testing.T) {
	x := from(t, arrow.FixedSizeListOf(2, f32), `[[1,2],[3,4],[5,6]]`)
	msg := message(t, "x", x, "label", from(t, str, `["a","bcd","e"]`), "n", from(t, arrow.ListOf(i32), `[[1],[2],[3]]`))
	schema, recs := records(t, msg)
	batches, err := FromRecords(schema, recs[0], recs[0])
	if err != nil {
		t.Fatal(err)
	}
	meta := arrow.NewMetadata([]string{"a", "b"}, []string{"c", "d"})
	noted := arrow.NewSchema(schema.Fields(), &meta)
	metadata, err := FromRecords(noted, array.NewRecord(noted, recs[0].Columns(), 3))
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Features: []string{"x"}, Label: "label"}
	text := "a,b,c\n1,2,3\n4,5,6\n"
	for _, c := range []struct {
		name  string
		msg   []byte
		limit func(l *Limits, n int)
		most  int
		spec  Spec
		code  wire.Code
		want  string // with %d for the limit
	}{
		{"message", msg, func(l *Limits, n int) { l.Message = n }, len(msg), spec, wire.TooLarge,
			"the message has 752 bytes, and the limit is 751; send smaller batches or raise limits.message"},
		{"body", msg, func(l *Limits, n int) { l.Body = n }, decode(t, newDecoder(t, spec), msg).Bytes(), spec,
			wire.TooLarge,
			"the message's buffers take more than 72 bytes; send fewer rows a message, or raise " +
				"limits.expanded"},
		{"rows", msg, func(l *Limits, n int) { l.Rows = n }, 3, spec, wire.TooManyRows,
			"3 rows, and the limit is 2; send smaller batches or raise limits.rows"},
		{"rows of batches", batches, func(l *Limits, n int) { l.Rows = n }, 6, spec, wire.TooManyRows,
			"6 rows, and the limit is 5; send smaller batches or raise limits.rows"},
		{"fields", msg, func(l *Limits, n int) { l.Fields = n }, 5, spec, wire.TooManyFields,
			`column "n": the schema has more than 4 fields; send the features as one fixed-size list ` +
				`column, or leave columns out`},
		{"depth", msg, func(l *Limits, n int) { l.Depth = n }, 2, spec, wire.TooManyFields,
			`column "x": a column is nested more than 1 deep; flatten it or leave it out`},
		{"metadata", metadata, func(l *Limits, n int) { l.Metadata = n }, 2, spec, wire.TooManyFields,
			"more than 1 metadata entries on one schema or field, or 4097 in all; send less metadata"},
		{"batches", batches, func(l *Limits, n int) { l.Batches = n }, 2, spec, wire.TooManyRows,
			"more than 1 record batches; send larger batches or more messages"},
		{"label", msg, func(l *Limits, n int) { l.LabelBytes = n }, 3, spec, wire.TooLarge,
			`column "label", row 1: a text of 3 bytes, and the limit for labels and keys is 2; send a ` +
				`short name`},
		{"features", msg, func(l *Limits, n int) { l.Features = n }, 2, spec, wire.TooManyFields,
			`column "x": more than 1 features; send fewer, choose fewer columns, or raise limits.features ` +
				`(at most 65536)`},
		{"features of lists", msg, func(l *Limits, n int) { l.Features = n }, 3, Spec{Features: []string{"x", "n"}},
			wire.TooManyFields,
			`column "n": more than 2 features; send fewer, choose fewer columns, or raise ` +
				`limits.features (at most 65536)`},
		{"text", []byte(text), func(l *Limits, n int) { l.Message = n }, len(text), Spec{Format: wire.FormatCSV},
			wire.TooLarge, "the message has 18 bytes, and the limit is 17; send smaller batches or raise limits.message"},
		{"rows of text", []byte(text), func(l *Limits, n int) { l.Rows = n }, 2, Spec{Format: wire.FormatCSV},
			wire.TooManyRows, "more than 1 rows; send smaller batches or raise limits.rows"},
		{"fields of text", []byte(text), func(l *Limits, n int) { l.Fields = n }, 3, Spec{Format: wire.FormatCSV},
			wire.TooManyFields,
			"the message has more than 2 fields of different names; send the features as one array, or " +
				"leave fields out"},
	} {
		for _, n := range []int{c.most, c.most - 1} {
			c.limit(&c.spec.Limits, n)
			d := newDecoder(t, c.spec)
			m, err := d.Decode(c.msg, nil)
			if n == c.most {
				if err != nil || m.Rows() == 0 {
					t.Errorf("%s at the limit of %d: %v", c.name, n, err)
				}
				continue
			}
			checkError(t, c.name, err, c.want)
			if e, ok := err.(*Error); !ok || e.Code != c.code {
				t.Errorf("%s: %v, want code %s", c.name, err, c.code)
			}
		}
	}
}
