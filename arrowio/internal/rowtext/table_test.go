package rowtext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

// read reads a text, and returns its error; of a row, if only that cannot be read.
func read(text string, by func([]byte, Limits) *Table, l Limits) (t *Table, e *wire.Error) {
	defer func() {
		if r := recover(); r != nil {
			e = r.(*wire.Error)
		}
	}()
	t = by([]byte(text), l)
	for _, r := range t.Rows {
		if r.Err != nil {
			return t, r.Err
		}
	}
	return t, nil
}

// TestErrorsOfText: what cannot be read is refused with its place and its limit.
func TestErrorsOfText(t *testing.T) {
	limits := Limits{Rows: 3, Fields: 3, Depth: 3, Memory: 1 << 20}
	for _, c := range []struct {
		text string
		by   func([]byte, Limits) *Table
		want string
	}{
		{"", ReadJSON,
			"not_json: the JSON ends early, after 0 bytes; send an object of fields, or set input.format " +
				"to the format of the messages"},
		{" ", ReadJSON,
			"not_json: the JSON ends early, after 1 bytes; send an object of fields, or set " +
				"input.format to the format of the messages"},
		{"7", ReadJSON,
			"not_json: the message is a JSON number, and rows are objects; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{`"a"`, ReadJSON,
			"not_json: the message is a JSON string, and rows are objects; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{"null", ReadJSON,
			"not_json: the message is a JSON null, and rows are objects; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{"true", ReadJSON,
			"not_json: the message is a JSON boolean, and rows are objects; send an object of fields, or " +
				"set input.format to the format of the messages"},
		{"x", ReadJSON,
			"not_json: the JSON is invalid at byte 0"},
		{`{"a":1`, ReadJSON,
			"not_json: the JSON ends early, after 6 bytes; send an object of fields, or set " +
				"input.format to the format of the messages"},
		{`{"a":1}}`, ReadJSON,
			"not_json: the message continues after its JSON value, at byte 7; send one object, " +
				"or an array of objects; with input.format: ndjson an object a line"},
		{`{"a":1} x`, ReadJSON,
			"not_json: the message continues after its JSON value, at byte 8; send one object, or an array " +
				"of objects; with input.format: ndjson an object a line"},
		{`{"a" 1}`, ReadJSON,
			"not_json: the JSON is invalid at byte 5"},
		{`{"a":1,}`, ReadJSON,
			"not_json: the JSON is invalid at byte 7"},
		{`{1:2}`, ReadJSON,
			"not_json: the JSON is invalid at byte 1"},
		{`{"a":01}`, ReadJSON,
			"not_json: the JSON is invalid at byte 6"},
		{`{"a":"\x"}`, ReadJSON,
			"not_json: the JSON is invalid at byte 6"},
		{"{\"a\":\"\xff\"}", ReadJSON,
			"not_json: the JSON is invalid at byte 6"},
		{`{"a":"\ud800"}`, ReadJSON,
			"not_json: the JSON is invalid at byte 6"},
		{"{\"a\":\"\n\"}", ReadJSON,
			"not_json: the JSON is invalid at byte 6"},
		{`{"a":tru}`, ReadJSON,
			"not_json: the JSON is invalid at byte 8"},
		{`{"a":1,"a":2}`, ReadJSON,
			`not_json: column "a", row 0: an object has two fields of this name; give each field once`},
		{`{"":1}`, ReadJSON, ""},
		{`{"a":[[[1]]]}`, ReadJSON,
			`too_many_fields: column "a", row 0: a value is nested more than 3 deep; flatten it or leave ` +
				`it out`},
		{`{"a":[[1]]}`, ReadJSON, ""},
		{`{"a":1,"b":2,"c":3}`, ReadJSON, ""}, {`{"a":1,"b":2,"c":3,"d":4}`, ReadJSON,
			"too_many_fields: the message has more than 3 fields of different names; send the features as " +
				"one array, or leave fields out"},
		{`[{},{},{}]`, ReadJSON, ""}, {`[{},{},{},{}]`, ReadJSON,
			"too_many_rows: more than 3 rows; send smaller batches or raise limits.rows"},
		{`[1]`, ReadJSON,
			"not_json: row 0: an element is a JSON number, and rows are objects; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{`[{"a":1},[2]]`, ReadJSON,
			"not_json: row 1: an element is a JSON array, and rows are objects; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{`[{"a":1}`, ReadJSON,
			"not_json: the JSON ends early, after 8 bytes; send an object of fields, or set input.format " +
				"to the format of the messages"},
		{`[{"a":1}{"a":2}]`, ReadJSON,
			"not_json: the JSON is invalid at byte 8"},
		{`[]`, ReadJSON, ""},
		{`[{"a":1},]`, ReadJSON,
			"not_json: the JSON is invalid at byte 9"},
		{`{"columns":["a"]}`, ReadJSON, ""}, {`{"data":[[1]]}`, ReadJSON, ""}, {`{"index":[1]}`, ReadJSON, ""},
		{`{"columns":["a"],"data":[]}`, ReadJSON, ""}, {`{"columns":["a","a"],"data":[]}`, ReadJSON,
			`not_json: column "a": two columns have this name; rename one`},
		{`{"columns":[1],"data":[]}`, ReadJSON,
			"not_json: a name in columns is a JSON number; name columns with text"},
		{`{"columns":[null],"data":[]}`, ReadJSON,
			"not_json: a name in columns is a JSON null; name columns with text"},
		{`{"columns":[true],"data":[]}`, ReadJSON,
			"not_json: a name in columns is a JSON boolean; name columns with text"},
		{`{"columns":[{}],"data":[]}`, ReadJSON,
			"not_json: a name in columns is a JSON object; name columns with text"},
		{`{"columns":[[]],"data":[]}`, ReadJSON,
			"not_json: a name in columns is a JSON array; name columns with text"},
		{`{"columns":["a","b","c","d"],"data":[]}`, ReadJSON,
			"too_many_fields: the message has more than 3 fields of different names; send the features " +
				"as one array, or leave fields out"},
		{`{"columns":["a"],"data":[[1],[2],[3]]}`, ReadJSON, ""}, {`{"columns":["a"],"data":[[1],[2],[3],[4]]}`, ReadJSON,
			"too_many_rows: more than 3 rows; send smaller batches or raise limits.rows"},
		{`{"columns":["a"],"data":[[1,2]]}`, ReadJSON,
			"not_json: row 0: a row in data has 2 elements and there are 1 columns; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{`{"columns":["a"],"data":[[]]}`, ReadJSON,
			"not_json: row 0: a row in data has 0 elements and there are 1 columns; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{`{"columns":["a"],"data":[{"a":1}]}`, ReadJSON,
			"not_json: row 0: a row in data is no array; send an object of fields, or set input.format to " +
				"the format of the messages"},
		{`{"columns":["a"],"data":[1]}`, ReadJSON,
			"not_json: row 0: a row in data is no array; send an object of fields, or set input.format " +
				"to the format of the messages"},
		{`{"columns":["a"],"data":["x"]}`, ReadJSON,
			"not_json: row 0: a row in data is no array; send an object of fields, or set input.format to " +
				"the format of the messages"},
		{`{"columns":["a"],"data":[null]}`, ReadJSON,
			"not_json: row 0: a row in data is no array; send an object of fields, or set input.format " +
				"to the format of the messages"},
		{`{"columns":["a"],"index":[1],"data":[]}`, ReadJSON,
			"not_json: index has 1 elements and data 0 rows; send one index for each row, or none"},
		{`{"columns":["a"],"index":[],"data":[[1]]}`, ReadJSON,
			"not_json: index has 0 elements and data 1 rows; send one index for each row, or none"},
		{`{"columns":["a"],"index":[1,2],"data":[[1]]}`, ReadJSON,
			"not_json: index has 2 elements and data 1 rows; send one index for each row, or none"},
		{"", ReadLines, ""}, {"{\"a\":1}\n7\n", ReadLines,
			"not_json: row 1: the line is a JSON number, and rows are objects; send an object of fields, " +
				"or set input.format to the format of the messages"},
		{"{\"a\":1}\n[2]\n", ReadLines,
			"not_json: row 1: the line is a JSON array, and rows are objects; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{"{\"a\":1} {\"a\":2}\n", ReadLines,
			"not_json: row 0: the line continues after its object, at byte 7; send an object of " +
				"fields, or set input.format to the format of the messages"},
		{"{}\n{}\n{}\n", ReadLines, ""}, {"{}\n{}\n{}\n{}", ReadLines,
			"too_many_rows: more than 3 rows; send smaller batches or raise limits.rows"},
		{"{\"a\":\n1}\n", ReadLines,
			"not_json: row 0: the JSON ends early, after 9 bytes; send an object of fields, or set " +
				"input.format to the format of the messages"},
		{"", ReadCSV,
			"not_csv: the message is empty; begin each message with the names of the columns"},
		{"\n", ReadCSV,
			"not_csv: the message is empty; begin each message with the names of the columns"},
		{"a", ReadCSV, ""},
		{"a,b,c\n", ReadCSV, ""},
		{"a,b,c,d\n", ReadCSV,
			"too_many_fields: the message has more than 3 fields of different names; send the features " +
				"as one array, or leave fields out"},
		{"a,\n", ReadCSV,
			"not_csv: a column has no name; name each column in the first line"},
		{",a\n", ReadCSV,
			"not_csv: a column has no name; name each column in the first line"},
		{"a,a\n", ReadCSV,
			`not_csv: column "a": two columns have this name; rename one`},
		{"a,b\n1\n", ReadCSV,
			"not_csv: row 0: the line has 1 fields, and the header 2; give each row the fields of " +
				"the header, and quote a field that holds a comma"},
		{"a\n1,2\n", ReadCSV,
			"not_csv: row 0: the line has 2 fields, and the header 1; give each row the fields " +
				"of the header, and quote a field that holds a comma"},
		{"a\n1\n2\n3\n", ReadCSV, ""}, {"a\n1\n2\n3\n4\n", ReadCSV,
			"too_many_rows: more than 3 rows; send smaller batches or raise limits.rows"},
		{"a\n\"1\n", ReadCSV,
			"not_csv: row 0: a quote is not closed; send a line of names and then rows, as RFC 4180 " +
				"says, or set input.format to the format of the messages"},
		{"a\n1\"2\n", ReadCSV,
			"not_csv: row 0: a quote inside a field, at byte 1 of the line; put the field into " +
				"quotes, and write a quote inside it twice"},
		{"a\n\"1\"2\n", ReadCSV,
			"not_csv: row 0: a quote inside a field, at byte 3 of the line; put the field into quotes, and " +
				"write a quote inside it twice"},
		{"a\n\xff\n", ReadCSV,
			"not_csv: row 0: the line is not UTF-8; send a line of names and then rows, as RFC 4180 " +
				"says, or set input.format to the format of the messages"},
		{"\xff\n1\n", ReadCSV,
			"not_csv: the name of a column is not UTF-8; send a line of names and then rows, as " +
				"RFC 4180 says, or set input.format to the format of the messages"},
		{"a\n1\r2\n", ReadCSV, ""},
		{"a,b\n\"x\ny\",1\n3\n", ReadCSV,
			"not_csv: row 1: the line has 1 fields, and the header 2; give each row the fields of the " +
				"header, and quote a field that holds a comma"},
	} {
		_, e := read(c.text, c.by, limits)
		got := ""
		if e != nil {
			got, _, _ = strings.Cut(fmt.Sprintf("%s: %v", e.Code, e), ": invalid ") // the words of a library follow
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if _, e := read(`{"a":NaN}`, ReadJSON, limits); e == nil || !strings.HasPrefix(e.Hint, "JSON has no NaN") {
		t.Errorf("NaN: %v", e)
	}
}

// TestMemoryOfATable: columns, rows and cells take the memory that is counted for them, to the byte of the limit.
func TestMemoryOfATable(t *testing.T) {
	for _, c := range []struct {
		text string
		by   func([]byte, Limits) *Table
		used int
	}{
		{`{"abc":1}`, ReadJSON, 64 + 3 + 20 + 24}, {`[{"a":1,"b":2},{"a":3}]`, ReadJSON, 2*(64+1) + 3*20 + 2*24},
		{"{\"a\":1}\n{\"a\":2}\n", ReadLines, 64 + 1 + 2*20 + 2*24}, {"a,b\n1,2\n3,4\n", ReadCSV, 2*(64+1) + 4*20 + 2*24},
	} {
		limits := Limits{Rows: 9, Fields: 9, Depth: 9, Memory: c.used}
		table, e := read(c.text, c.by, limits)
		if e != nil || table.Left() != 0 {
			t.Errorf("%s with %d bytes: %v", c.text, c.used, e)
		}
		limits.Memory--
		if _, e := read(c.text, c.by, limits); e == nil || e.Code != wire.TooLarge ||
			e.Error() != "the fields of the message "+
				"take more memory than its length allows; send fewer rows a message, or raise limits.expanded" {
			t.Errorf("%s with %d bytes: %v", c.text, c.used-1, e)
		}
	}
}
