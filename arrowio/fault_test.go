package arrowio

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestTextFaults: a row of text that cannot be read, or has a value of the wrong type, is a fault with its code, and
// the others are read. A message without any such row is refused.
func TestTextFaults(t *testing.T) {
	spec := Spec{Features: []string{"x", "v"}, Label: "label", Key: "id", Encodings: []Encoding{{Column: "day"},
		{Column: "kind", Values: []string{"a", "b"}}}}
	elements := []string{"x", "v[0]", "v[1]", "day", "kind=a", "kind=b"}
	contract, err := Spec{Encodings: spec.Encodings, Label: spec.Label, Key: spec.Key}.ContractOf(elements)
	if err != nil {
		t.Fatal(err)
	}
	spec.Features, spec.Sizes = nil, nil
	spec.Format = wire.FormatNDJSON
	d := newDecoder(t, spec.Fixed(contract))
	const good = `{"x":1,"v":[1,2],"day":"2024-05-01","kind":"a","label":"l","id":"k"}`
	for _, c := range []struct{ from, to, want string }{
		{`"x":1`, `"x":[1]`, `x it holds a list, and one number is expected schema_changed: l k NaN 1 2 19844 1 0`},
		{`"x":1`, `"x":"one"`, `x "one" is no number not_numeric: l k NaN 1 2 19844 1 0`},
		{`"x":1`, `"x":true`, `l k 1 1 2 19844 1 0`},
		{`"x":1`, `"x":{}`, `x {} is no number not_numeric: l k NaN 1 2 19844 1 0`},
		{`"x":1`, `"x":"1"`, `x "1" is no number not_numeric: l k NaN 1 2 19844 1 0`},
		{`"x":1`, `"x":null`, `x null : l k NaN 1 2 19844 1 0`},
		{`"x":1`, `"x":1e999`, `x +Inf : l k +Inf 1 2 19844 1 0`},
		{`"x":1`, `"x":-1e40`, `x -1e+40, beyond float32 : l k -1e+40 1 2 19844 1 0`},
		{`[1,2]`, `1`, `v it holds one number, and a list is expected schema_changed: l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `"a"`, `v "a" is no number not_numeric: l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `[1]`, `v a list of 1 elements, and 2 are expected feature_count: l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `[1,2,3]`, `v a list of 3 elements, and 2 are expected feature_count: l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `[1,"a"]`, `v [1,"a"] is no number not_numeric: l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `[]`, `v a list of 0 elements, and 2 are expected feature_count: l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `null`, `v[0] null : l k 1 NaN NaN 19844 1 0`},
		{`[1,2]`, `[1,[2]]`, `v [1,[2]] is no number not_numeric: l k 1 NaN NaN 19844 1 0`},
		{`"2024-05-01"`, `"May"`,
			`day "May" is no date such as 2024-05-01 or 2024-05-01T12:00:00Z not_numeric: l k 1 1 2 NaN 1 0`},
		{`"2024-05-01"`, `3`,
			`day "3" is no date such as 2024-05-01 or 2024-05-01T12:00:00Z not_numeric: l k 1 1 2 NaN 1 0`},
		{`"2024-05-01"`, `3.5`, `day the number 3.5 cannot be a date not_numeric: l k 1 1 2 NaN 1 0`},
		{`"2024-05-01"`, `[1]`, `day the value [1] cannot be a date not_numeric: l k 1 1 2 NaN 1 0`},
		{`"2024-05-01"`, `true`,
			`day "true" is no date such as 2024-05-01 or 2024-05-01T12:00:00Z not_numeric: l k 1 1 2 NaN 1 0`},
		{`"2024-05-01"`, `null`, `day null : l k 1 1 2 NaN 1 0`},
		{`"a"`, `1.5`, `kind the number 1.5 cannot be a category not_numeric: l k 1 1 2 19844 NaN NaN`},
		{`"a"`, `[1]`, `kind the value [1] cannot be a category not_numeric: l k 1 1 2 19844 NaN NaN`},
		{`"a"`, `{"a":1}`, `kind the value {"a":1} cannot be a category not_numeric: l k 1 1 2 19844 NaN NaN`},
		{`"a"`, `false`, `l k 1 1 2 19844 0 0`},
		{`"a"`, `7`, `l k 1 1 2 19844 0 0`},
		{`"l"`, `1.5`, `label the number 1.5 cannot be a label label_type:  k 1 1 2 19844 1 0`},
		{`"l"`, `[1]`, `label the value [1] cannot be a label label_type:  k 1 1 2 19844 1 0`},
		{`"l"`, `{}`, `label the value {} cannot be a label label_type:  k 1 1 2 19844 1 0`},
		{`"l"`, `true`, `true k 1 1 2 19844 1 0`},
		{`"l"`, `-0`, `0 k 1 1 2 19844 1 0`},
		{`"l"`, `null`, ` k 1 1 2 19844 1 0`},
		{`"k"`, `1.5`, `id the number 1.5 cannot be a key key_type: l  1 1 2 19844 1 0`},
		{`"k"`, `[1]`, `id the value [1] cannot be a key key_type: l  1 1 2 19844 1 0`},
		{`"k"`, `true`, `id the boolean true cannot be a key key_type: l  1 1 2 19844 1 0`},
		{`"k"`, `17`, `l 17 1 1 2 19844 1 0`},
		{`{"x"`, `["x"`,
			` the JSON is invalid at byte 73: invalid character ':' after array element (expecting ',' or ']') ` +
				`not_json:   NaN NaN NaN NaN NaN NaN`},
		{`"k"}`, `"k"`, ` the JSON ends early, after 136 bytes not_json:   NaN NaN NaN NaN NaN NaN`},
		{`{"x"`, `{x`,
			` the JSON is invalid at byte 70: invalid character 'x' at start of string (expecting '"') ` +
				`not_json:   NaN NaN NaN NaN NaN NaN`},
		{`"x":1`, `"x":1,"x":2`, `x an object has two fields of this name not_json:   NaN NaN NaN NaN NaN NaN`},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		m, err := d.Decode([]byte(good+"\n"+bad), contract)
		if err != nil {
			t.Errorf("%s: %v", bad, err)
			continue
		}
		b, faults := m.Batches()[0], faultLines(m)
		label, _ := b.Label(1)
		key, _ := b.Key(1)
		got := fmt.Sprintf("%s %s %v", label, key, matrix(b)[1])
		if len(faults) == 1 {
			got = strings.TrimPrefix(faults[0], "1 ") + ": " + got
		}
		if got != c.want || len(faults) > 1 {
			t.Errorf("%s for %s: %q, want %q", c.to, c.from, got, c.want)
		}
	}
	_, err = d.Decode([]byte(strings.Replace(good, `"x":1`, `"x":"one"`, 1)), contract)
	checkError(t, "a message of one such row", err, `column "x", row 0: "one" is no number; send a number, `+
		"in JSON without quotes; a missing value is null, in CSV an empty field")
}

// TestTextFixes: the error about a message with a frequent mistake ends with the fix.
func TestTextFixes(t *testing.T) {
	const null = "JSON has no NaN and no infinity: write null for a missing value"
	spec := Spec{Features: []string{"x", "v"}, Sizes: map[string]int{"x": 1, "v": 2}, Format: wire.FormatJSON}
	contract, _ := spec.Contract()
	for msg, fix := range map[string]string{
		`[{"x":NaN,"v":[1,2]},{"x":1,"v":[1,2]}]`: null,
		`{"x":1,"v":[1,-Infinity]}`:               null,
		`{"x":[1],"v":[1,2]}`:                     "send one number a row",
		`{"x":1,"v":1}`:                           "send a list of numbers a row",
		`{"x":1,"v":N`:                            "or set input.format to the format of the messages",
	} {
		if _, err := newDecoder(t, spec).Decode([]byte(msg), contract); err == nil ||
			!strings.HasSuffix(err.Error(), fix) {
			t.Errorf("%s: %v", msg, err)
		}
	}
	msg, err := os.ReadFile("testdata/refused/decimal64.arrows")
	if err != nil {
		t.Fatal(err)
	}
	r := numbered(decode(t, newDecoder(t, Spec{Features: []string{"x"}}), msg), 2)
	_, err = newEncoder(t, Output{Format: wire.FormatJSON}).Encode(r, nil)
	checkError(t, "decimals of 64 bits", err, `column "price": decimals of 32 and 64 bits are not written as text; cast `+
		"them to decimals of 128 bits, do not keep the column, or set output.format to arrow")
}
