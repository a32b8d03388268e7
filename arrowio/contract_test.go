package arrowio

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/wire"
)

// contractOf returns the contract that a message proposes.
func contractOf(t testing.TB, d *Decoder, msg []byte) *Contract {
	t.Helper()
	c := decode(t, d, msg).Contract()
	if c == nil {
		t.Fatal("the message proposes no contract")
	}
	return c
}

// The result of decoding under a contract: other columns, number types and the types of label and key do not matter,
// other features are schema_changed, and what the Spec alone rejects has the same code as without a contract.
func TestContract(t *testing.T) {
	list := message(t, "x", from(t, arrow.FixedSizeListOf(2, f32), `[[1,2],[3,4]]`), "l", from(t, str, `["a","b"]`),
		"k", from(t, i32, `[1,2]`))
	columns := message(t, "f0", from(t, f32, `[1]`), "f1", from(t, i32, `[2]`))
	pair := func(typ arrow.DataType) []byte {
		return message(t, "x", from(t, arrow.FixedSizeListOf(2, typ), `[[1,2]]`))
	}
	labelled := func(name string, a arrow.Array) []byte {
		return message(t, "x", from(t, arrow.FixedSizeListOf(2, f32), `[[1,2]]`), name, a)
	}
	decimal := &arrow.Decimal128Type{Precision: 5, Scale: 1}
	for _, c := range []struct {
		name     string
		features string
		contract []byte
		msg      []byte
		code     wire.Code
		words    []string
	}{
		{"longer lists", "x", list, message(t, "x", from(t, arrow.FixedSizeListOf(3, f32), `[[1,2,3]]`)),
			wire.SchemaChanged, []string{`"x"`, "3 elements", "2 are expected", "schema reset", "schema.features"}},
		{"longer lists of any length", "x", list, message(t, "x", from(t, arrow.ListOf(f32), `[[1,2,3]]`)),
			wire.SchemaChanged, []string{`"x"`, "3 elements", "2 are expected", "schema reset"}},
		{"list of the length", "x", list, message(t, "x", from(t, arrow.ListOf(f32), `[[1,2]]`)), "", nil},
		{"columns of the elements", "x*", list, message(t, "x[1]", from(t, f32, `[2]`), "x[0]", from(t, f32, `[1]`)), "",
			nil},
		{"float64", "x", list, pair(f64), "", nil},
		{"float16", "x", list, pair(f16), "", nil},
		{"integers", "x", list, pair(i32), "", nil},
		{"decimals", "x", list, message(t, "x", from(t, arrow.FixedSizeListOf(2, decimal), `[["1","2"]]`)), "", nil},
		{"a number", "x", list, message(t, "x", from(t, f32, `[1]`)), wire.SchemaChanged, []string{"one number"}},
		{"a list", "f*", columns, message(t, "f0", from(t, f32, `[1]`), "f1", from(t, arrow.ListOf(f32), `[[2]]`)),
			wire.SchemaChanged, []string{`"f1"`, "lists", "one number"}},
		{"no such column", "x", list, message(t, "y", from(t, f32, `[1]`)), wire.MissingColumn, []string{`"x"`}},
		{"text", "x", list, message(t, "x", from(t, str, `["1"]`)), wire.NotNumeric, []string{`"x"`}},
		{"integer label", "x", list, labelled("l", from(t, i32, `[1]`)), "", nil},
		{"boolean label", "x", list, labelled("l", from(t, truth, `[true]`)), "", nil},
		{"float label", "x", list, labelled("l", from(t, f32, `[1]`)), wire.LabelType, []string{`"l"`}},
		{"text key", "x", list, labelled("k", from(t, str, `["1"]`)), "", nil},
		{"no label", "x", list, labelled("new", from(t, i32, `[1]`)), "", nil},
		{"order", "f*", columns, message(t, "f1", from(t, arrow.PrimitiveTypes.Int8, `[2]`), "z", from(t, i32, `[9]`),
			"f0", from(t, f32, `[1]`)), "", nil},
		{"one more", "f*", columns, message(t, "f0", from(t, f32, `[1]`), "f1", from(t, i32, `[2]`), "f2",
			from(t, i32, `[2]`)), "", nil},
		{"one more of text", "f*", columns, message(t, "f0", from(t, f32, `[1]`), "f1", from(t, i32, `[2]`), "f2",
			from(t, str, `["2"]`)), "", nil},
		{"one less", "f*", columns, message(t, "f0", from(t, f32, `[1]`)), wire.SchemaChanged,
			[]string{`"f1"`, "the message has 1: f0", "schema reset"}},
		{"boolean", "f*", columns, message(t, "f0", from(t, truth, `[true]`), "f1", from(t, f32, `[2]`)), "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, Spec{Features: []string{c.features}, Label: "l", Key: "k"})
			first := decode(t, d, c.contract)
			m, err := d.Decode(c.msg, first.Contract())
			if c.code != "" {
				wantCode(t, err, c.code, c.words...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := matrix(m.Batches()[0])[0], matrix(first.Batches()[0])[0]; got != want {
				t.Errorf("%q, not %q", got, want)
			}
			if m.Contract() != first.Contract() {
				t.Error("the message has another contract")
			}
		})
	}
}

// Columns that a glob matches and that are not in the contract are kept like any other.
func TestColumnsBeyondTheContract(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"f*"}})
	c := contractOf(t, d, message(t, "f0", from(t, f32, `[1]`)))
	m, err := d.Decode(message(t, "f1", from(t, f32, `[2]`), "f0", from(t, f32, `[1]`)), c)
	if err != nil {
		t.Fatal(err)
	}
	out, err := newEncoder(t, Output{}).Encode(numbered(m, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := records(t, out)
	if got := schema.Field(0).Name; got != "f1" || schema.NumFields() != 2 {
		t.Errorf("the output has columns %v", schema)
	}
}

// Names from a model choose columns by name, in the model's order.
func TestContractOfAModel(t *testing.T) {
	msg := message(t, "b", from(t, f32, `[1]`), "x", from(t, arrow.FixedSizeListOf(2, f32), `[[2,3]]`), "v",
		from(t, arrow.ListOf(f32), `[[4,5]]`), "a[0]", from(t, f32, `[6]`), "more", from(t, f32, `[7]`))
	names := []string{"v[0]", "v[1]", "a[0]", "x[0]", "x[1]", "b"}
	c, err := NewContract(names, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, features := range [][]string{nil, {"*"}} {
		m, err := newDecoder(t, Spec{Features: features}).Decode(msg, c)
		if err != nil {
			t.Fatal(err)
		}
		if got := matrix(m.Batches()[0])[0]; got != "4 5 6 2 3 1" {
			t.Error(got)
		}
		if got := m.Contract().Elements(); !slices.Equal(got, names) || !c.Has(names) || c.Has(names[1:]) {
			t.Error(got)
		}
	}
	// A fixed model replaces the configuration of features, so its errors are those of the configuration.
	for _, x := range []struct {
		names []string
		code  wire.Code
		words []string
	}{
		{[]string{"x[0]", "x[1]", "x[2]"}, wire.FeatureCount, []string{"2 elements", "3"}},
		{[]string{"v[0]", "v[1]", "v[2]"}, wire.FeatureCount, []string{"2 elements", "3"}},
		{[]string{"y[0]", "y[1]"}, wire.MissingColumn, []string{`"y"`}},
		{[]string{"y"}, wire.MissingColumn, []string{`"y"`}},
		{[]string{"b[0]", "b[1]"}, wire.SchemaChanged, []string{`"b"`}},
	} {
		c, err := NewContract(x.names, "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = newDecoder(t, Spec{}.Fixed(c)).Decode(msg, c)
		wantCode(t, err, x.code, x.words...)
	}
}

// Messages in all forms have the same rows under one contract, whatever messages came before.
func TestContractIgnoresOrder(t *testing.T) {
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: str}
	a := func(typ arrow.DataType) arrow.Array { return from(t, typ, `[1,0]`) }
	v := func(typ arrow.DataType) arrow.Array { return from(t, typ, `[[3,4],[5,6]]`) }
	texts := func(typ arrow.DataType) arrow.Array { return from(t, typ, `["3","1"]`) }
	ints := func(typ arrow.DataType) arrow.Array { return from(t, typ, `[3,1]`) }
	fits := [][]byte{
		message(t, "a", a(f32), "v", v(arrow.FixedSizeListOf(2, f32)), "l", texts(str), "k", ints(i32)),
		message(t, "v", v(arrow.ListOf(i32)), "k", texts(str), "a", a(f64), "l", ints(arrow.PrimitiveTypes.Int8)),
		message(t, "l", texts(dict), "a", a(arrow.PrimitiveTypes.Uint64), "v", v(arrow.LargeListOf(f64)), "more", a(f32),
			"k", texts(dict)),
		message(t, "a", from(t, truth, `[true,false]`), "v", v(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int16)),
			"k", ints(arrow.PrimitiveTypes.Uint8), "l", ints(arrow.PrimitiveTypes.Int64), "b", texts(str)),
		message(t, "a", from(t, &arrow.Decimal128Type{Precision: 5, Scale: 2}, `["1.00","0.00"]`), "v[1]",
			from(t, f32, `[4,6]`), "v[0]", from(t, f16, `[3,5]`), "l", texts(arrow.BinaryTypes.StringView), "k",
			texts(arrow.BinaryTypes.LargeString)),
	}
	others := [][]byte{
		message(t, "a", a(f32), "l", texts(str)),
		message(t, "v", v(arrow.FixedSizeListOf(2, f32)), "l", texts(str)),
		message(t, "a", a(f32), "v", from(t, arrow.ListOf(f32), `[[1],[2]]`)),
		message(t, "a", a(f32), "v", a(i32)),
		message(t, "b", a(f32)),
	}
	spec := Spec{Features: []string{"*"}, Label: "l", Key: "k"}
	c := contractOf(t, newDecoder(t, spec), fits[0])
	rowsOf := func(m *Message) string {
		b := m.Batches()[0]
		var s []string
		for i, row := range matrix(b) {
			label, _ := b.Label(i)
			key, _ := b.Key(i)
			s = append(s, fmt.Sprint(row, " ", label, " ", key))
		}
		return strings.Join(s, "; ")
	}
	const want = "1 3 4 3 3; 0 5 6 1 1"
	messages := append(slices.Clone(fits), others...)
	for draw := range 100 {
		r := rand.New(rand.NewPCG(uint64(draw), 20))
		d := newDecoder(t, spec)
		for range 2 * len(messages) {
			k := r.IntN(len(messages))
			if r.IntN(4) == 0 {
				_, _ = d.Decode(messages[k], nil) // a request, or another process's first message
			}
			m, err := d.Decode(messages[k], c)
			if k >= len(fits) {
				wantCode(t, err, wire.SchemaChanged)
				continue
			}
			if err != nil {
				t.Fatalf("draw %d, message %d: %v", draw, k, err)
			}
			if got := rowsOf(m); got != want {
				t.Fatalf("draw %d, message %d: rows %q, not %q", draw, k, got, want)
			}
		}
	}
	for _, msg := range fits[:4] { // each proposes the same set of columns
		got := contractOf(t, newDecoder(t, Spec{Features: []string{"a", "v"}, Label: "l", Key: "k"}), msg)
		if got.ID() != c.ID() {
			t.Errorf("%v has another ID than %v", got, c)
		}
	}
	for _, msg := range others {
		if got := contractOf(t, newDecoder(t, spec), msg); got.ID() == c.ID() {
			t.Errorf("%v has the ID of %v", got, c)
		}
	}
}

func TestContractID(t *testing.T) {
	id := func(names ...string) string {
		c, err := NewContract(names, "l", "k")
		if err != nil {
			t.Fatal(err)
		}
		return c.ID()
	}
	if id("a", "v[0]", "v[1]", "b") != id("b", "v[0]", "v[1]", "a") {
		t.Error("the order of columns makes another ID")
	}
	seen := map[string]string{}
	for _, names := range []string{"a", "b", "a b", "a[0]", "a[0] a[1]", "a[1] a[0]", "ab", "a[0] b[0]", "a[0] b"} {
		if other, twice := seen[id(strings.Fields(names)...)]; twice {
			t.Errorf("%s and %s have one ID", names, other)
		}
		seen[id(strings.Fields(names)...)] = names
	}
}

func TestContractJSON(t *testing.T) {
	d := newDecoder(t, Spec{Features: []string{"x", "a"}, Label: "l", Key: "k"})
	c := contractOf(t, d, message(t, "x", from(t, arrow.FixedSizeListOf(2, f32), `[[1,2]]`), "a", from(t, i32, `[1]`)))
	const want = `{"version":1,"features":[{"column":"x","size":2,"number":"float"},` +
		`{"column":"a","number":"integer"}],"label":"l","key":"k"}`
	text, err := json.Marshal(c)
	if err != nil || string(text) != want {
		t.Errorf("%s, not %s: %v", text, want, err)
	}
	again, err := ParseContract(text)
	if err != nil || !again.Equal(c) || again.Label() != "l" || again.Key() != "k" || again.Len() != 3 {
		t.Errorf("%v, not %v: %v", again, c, err)
	}
	if got := again.String(); got != "3 features: x[2] float, a integer; label l; key k" {
		t.Error(got)
	}
	column := func(s string) string { return `{"version":1,"features":[` + s + `]}` }
	for _, c := range []struct {
		text string
		code wire.Code
		want string
	}{
		{``, wire.Malformed, "JSON"},
		{`[]`, wire.Malformed, "JSON"},
		{`{"features":[{"column":"a"}]}`, wire.Unsupported, "version 0"},
		{`{"version":2,"features":"later"}`, wire.Unsupported, "version 2"},
		{`{"version":1,"features":"later"}`, wire.Malformed, "features"},
		{column(``), wire.Malformed, "no features"},
		{column(`{"column":"a"},{"column":"a","size":2}`), wire.Malformed, "twice"},
		{column(`{"column":"v","size":2},{"column":"v[1]"}`), wire.Malformed, "element"},
		{column(`{"column":"a","size":-1}`), wire.Malformed, "-1"},
		{column(`{"column":"a","size":65536},{"column":"b"}`), wire.TooManyFields, "65536"},
		{column(`{"column":"a","size":9223372036854775807}`), wire.TooManyFields, "65536"},
		{column(`{"column":"a","number":"text"}`), wire.Malformed, "text"},
		{column(`{"column":"` + strings.Repeat("a", 1025) + `"}`), wire.TooLarge, "1024"},
	} {
		_, err := ParseContract([]byte(c.text))
		wantCode(t, err, c.code, c.want)
	}
	if _, err := NewContract(make([]string, 1<<16+1), "", ""); err == nil {
		t.Error("65537 features are accepted")
	}
}

// A Spec with sizes is a contract without any message.
func TestSpecContract(t *testing.T) {
	s := Spec{Features: []string{"x", "a[*]"}, Sizes: map[string]int{"x": 2, "a[*]": 1}, Label: "l"}
	c, ok := s.Contract()
	if !ok || strings.Join(c.Elements(), " ") != "x[0] x[1] a[*]" || !s.Accepts(c.Elements()) {
		t.Fatalf("%v, %v", c, ok)
	}
	d := newDecoder(t, s)
	fits := message(t, "a[*]", from(t, i32, `[3]`), "x", from(t, arrow.ListOf(f32), `[[1,2]]`))
	for _, under := range []*Contract{nil, c} {
		m, err := d.Decode(fits, under)
		if err != nil {
			t.Fatal(err)
		}
		if got := matrix(m.Batches()[0])[0]; got != "1 2 3" || !m.Contract().Equal(c) {
			t.Errorf("%s under %v", got, m.Contract())
		}
		for _, x := range []struct {
			msg  []byte
			code wire.Code
		}{
			{message(t, "a[*]", from(t, i32, `[3]`), "x", from(t, arrow.ListOf(f32), `[[1,2,3]]`)), wire.FeatureCount},
			{message(t, "a[*]", from(t, i32, `[3]`), "x", from(t, arrow.FixedSizeListOf(1, f32), `[[1]]`)), wire.FeatureCount},
			{message(t, "a[*]", from(t, i32, `[3]`), "x", from(t, f32, `[1]`)), wire.SchemaChanged},
			{message(t, "a*", from(t, i32, `[3]`), "x", from(t, arrow.ListOf(f32), `[[1,2]]`)), wire.MissingColumn},
		} {
			_, err := d.Decode(x.msg, under)
			wantCode(t, err, x.code)
		}
	}
	s.Features = append(s.Features, "b")
	if c, ok := s.Contract(); ok {
		t.Errorf("a column without a size gives the contract %v", c)
	}
	for _, bad := range []Spec{
		{Features: []string{"x"}, Sizes: map[string]int{"y": 1}},
		{Features: []string{"x"}, Sizes: map[string]int{"x": 0}},
		{Features: []string{"x"}, Sizes: map[string]int{"x": 1<<16 + 1}},
		{Features: []string{"x", "y"}, Sizes: map[string]int{"x": 1 << 16, "y": 1}},
	} {
		if _, err := NewDecoder(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// A column of numbers with the name of a list's element is rejected: a model could not distinguish the two.
func TestFeaturesOfOneName(t *testing.T) {
	_, err := newDecoder(t, Spec{Features: []string{"*"}}).Decode(message(t, "x[0]", from(t, f32, `[1]`), "x",
		from(t, arrow.ListOf(f32), `[[1,2]]`)), nil)
	wantCode(t, err, wire.Malformed, `"x[0]"`, "rename")
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}}), message(t, "x[0]", from(t, f32, `[1]`), "x",
		from(t, arrow.ListOf(f32), `[[1,2]]`)))
	if got := matrix(m.Batches()[0])[0]; got != "1 2" {
		t.Error(got)
	}
}

// TestEmptyContract: nil and the zero value have no features, and can be asked for everything.
func TestEmptyContract(t *testing.T) {
	for _, c := range []*Contract{nil, {}} {
		form, err := c.MarshalJSON()
		if c.Len() != 0 || c.Columns() != nil || c.Elements() != nil || c.Label() != "" || c.Key() != "" || c.ID() != "" ||
			c.String() != "no features" || c.Short() != "no features" || c.Has([]string{"x"}) || err != nil {
			t.Errorf("%v, %s, %v", c, form, err)
		}
		if s := (Spec{Features: []string{"x"}}).Fixed(c); len(s.Features) != 0 {
			t.Errorf("features %q", s.Features)
		}
	}
}

// Messages without information about the length of their lists propose no contract.
func TestNoContract(t *testing.T) {
	for _, msg := range [][]byte{
		message(t, "x", from(t, arrow.ListOf(f32), `[null,null]`)),
		message(t, "x", from(t, arrow.ListOf(f32), `[]`)),
	} {
		d := newDecoder(t, Spec{Features: []string{"x"}})
		if c := decode(t, d, msg).Contract(); c != nil || c.Len() != 0 || c.Elements() != nil {
			t.Errorf("contract %v", c)
		}
		c, err := NewContract([]string{"x[0]", "x[1]"}, "", "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.Decode(msg, c)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range m.Batches() {
			if n := len(b.Faults()); n != b.Rows() || b.Features()[0].Cols != 2 {
				t.Errorf("batch %d: %d faults in %d rows of %d features", i, n, b.Rows(), b.Features()[0].Cols)
			}
		}
	}
	if c := decode(t, newDecoder(t, Spec{}), message(t, "x", from(t, f32, `[1]`))).Contract(); c != nil {
		t.Errorf("contract %v without features", c)
	}
}

// TestValuesOfACategory: a category has at most 1,000 values.
func TestValuesOfACategory(t *testing.T) {
	for n, want := range map[int]bool{1000: true, 1001: false} {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		if _, err := newContract([]ContractColumn{{Name: "c", Values: values}}, "", ""); (err == nil) != want {
			t.Errorf("%d values: %v", n, err)
		}
	}
}

// TestLongDates: a date with its white space has at most 128 bytes.
func TestLongDates(t *testing.T) {
	for n, want := range map[int]bool{10: true, 128: true, 129: false} {
		days, ok := parseDays(fmt.Sprintf("%*s", n, "1970-01-03"))
		if ok != want || ok && days != 2 {
			t.Errorf("%d bytes: day %v, %v", n, days, ok)
		}
	}
}

// TestContractErrors: the error of a contract that cannot be names the column, and the limit.
func TestContractErrors(t *testing.T) {
	long := strings.Repeat("n", 1024)
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
		{[]ContractColumn{{Name: "l"}},
			`column "l": label "l" and key "k" are not two columns besides the features; give each column one role`},
		{[]ContractColumn{{Name: "a"}, {Name: "k", Size: 2}},
			`column "k": label "l" and key "k" are not two columns besides the features; give each column one role`},
	} {
		_, err := newContract(c.columns, "l", "k")
		checkError(t, fmt.Sprintf("%.200v", c.columns), err, c.want)
	}
}

// TestRolesOfAContract: label and key are two columns, or none.
func TestRolesOfAContract(t *testing.T) {
	_, err := NewContract([]string{"a"}, "l", "l")
	checkError(t, "one column", err,
		`column "a": label "l" and key "l" are not two columns besides the features; give each column one role`)
	_, err = ParseContract([]byte(`{"version":1,"features":[{"column":"a"}],"label":"a"}`))
	checkError(t, "JSON", err,
		`column "a": label "a" and key "" are not two columns besides the features; give each column one role`)
	_, err = NewContract([]string{"a"}, "", "")
	checkError(t, "neither", err, "")
}

// TestDescriptionOfAContract: a contract is described with its first eight columns, and has an ID of its encodings too.
func TestDescriptionOfAContract(t *testing.T) {
	var unknown *Contract // as of a stage that does not know its schema
	if unknown.ID()+unknown.Label()+unknown.Key() != "" || unknown.Short() != unknown.String() {
		t.Errorf("no contract is %q, label %q, key %q, %q", unknown.ID(), unknown.Label(), unknown.Key(), unknown.Short())
	}
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
