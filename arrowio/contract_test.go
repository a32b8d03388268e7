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
