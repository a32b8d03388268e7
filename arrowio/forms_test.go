package arrowio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestRejectedText: rows of text that are rejected are written as they came, in the shape of the message, also none.
func TestRejectedText(t *testing.T) {
	for _, c := range []struct {
		format wire.Format
		msg    string
		want   [3]string // of no row, of the last, of all
	}{
		{wire.FormatJSON, `{"a": 1}`, [3]string{"", `{"a": 1}`, `{"a": 1}`}},
		{wire.FormatJSON, `[{"a": 1}, {"a":2 }]`, [3]string{"[]", `[{"a":2 }]`, `[{"a": 1},{"a":2 }]`}},
		{wire.FormatJSON, `{"columns": ["a"], "data": [[1], [ 2]]}`, [3]string{`{"columns":["a"],"data":[]}`,
			`{"columns":["a"],"data":[[ 2]]}`, `{"columns":["a"],"data":[[1],[ 2]]}`}},
		{wire.FormatJSON, `{"columns":["a"],"index":["p", 7],"data":[[1],[2]]}`, [3]string{
			`{"columns":["a"],"index":[],"data":[]}`, `{"columns":["a"],"index":[7],"data":[[2]]}`,
			`{"columns":["a"],"index":["p",7],"data":[[1],[2]]}`}},
		{wire.FormatNDJSON, "{\"a\": 1}\n\n{\"a\":2}", [3]string{"", "{\"a\":2}\n", "{\"a\": 1}\n{\"a\":2}\n"}},
		{wire.FormatCSV, "a,b\r\n1,2\r\n\"3\",4", [3]string{"a,b\n", "a,b\n\"3\",4\n", "a,b\n1,2\n\"3\",4\n"}},
	} {
		d := newDecoder(t, Spec{Format: c.format})
		m := decode(t, d, []byte(c.msg))
		var all []int
		for row := range m.Rows() {
			all = append(all, row)
		}
		for k, rows := range [][]int{{}, all[len(all)-1:], all} {
			got, err := newEncoder(t, Output{Format: c.format}).Rejected(m, [][]int{rows}, nil)
			if err != nil || string(got) != c.want[k] {
				t.Errorf("rows %v of %q: %q, %v, want %q", rows, c.msg, got, err, c.want[k])
			}
		}
	}
}

// TestOutputsOfText: a message of text or Arrow as text of each format, with some rows dropped and with none left.
func TestOutputsOfText(t *testing.T) {
	arrowed := message(t, "a", from(t, i32, `[1,2]`), "b", from(t, str, `["p","q,r"]`))
	for _, c := range []struct {
		in, out wire.Format
		msg     string
		want    [3]string // whole, without the first row, without any
	}{
		{"", wire.FormatJSON, string(arrowed), [3]string{
			`[{"a":1,"b":"p","embedding":[0,1]},{"a":2,"b":"q,r","embedding":[10,11]}]`,
			`[{"a":2,"b":"q,r","embedding":[10,11]}]`, "[]"}},
		{"", wire.FormatNDJSON, string(arrowed), [3]string{
			"{\"a\":1,\"b\":\"p\",\"embedding\":[0,1]}\n{\"a\":2,\"b\":\"q,r\",\"embedding\":[10,11]}\n",
			"{\"a\":2,\"b\":\"q,r\",\"embedding\":[10,11]}\n", ""}},
		{"", wire.FormatCSV, string(arrowed), [3]string{
			"a,b,embedding_0,embedding_1\n1,p,0,1\n2,\"q,r\",10,11\n",
			"a,b,embedding_0,embedding_1\n2,\"q,r\",10,11\n", "a,b,embedding_0,embedding_1\n"}},
		{wire.FormatJSON, wire.FormatJSON, `[{"a":1,"b":"p"},{"a":2}]`, [3]string{
			`[{"a":1,"b":"p","embedding":[0,1]},{"a":2,"embedding":[10,11]}]`, `[{"a":2,"embedding":[10,11]}]`, "[]"}},
		{wire.FormatJSON, wire.FormatCSV, `[{"a":1,"b":"p"},{"a":2}]`, [3]string{
			"a,b,embedding_0,embedding_1\n1,p,0,1\n2,,10,11\n", "a,b,embedding_0,embedding_1\n2,,10,11\n",
			"a,b,embedding_0,embedding_1\n"}},
		{wire.FormatJSON, wire.FormatNDJSON, `{"columns":["a","b"],"data":[[1,"p"],[2,null]]}`, [3]string{
			"{\"a\":1,\"b\":\"p\",\"embedding\":[0,1]}\n{\"a\":2,\"b\":null,\"embedding\":[10,11]}\n",
			"{\"a\":2,\"b\":null,\"embedding\":[10,11]}\n", ""}},
		{wire.FormatJSON, wire.FormatJSON, `{"columns":["a","b"],"index":[7,8],"data":[[1,"p"],[2,null]]}`,
			[3]string{`{"columns":["a","b","embedding"],"index":[7,8],"data":[[1,"p",[0,1]],[2,null,[10,11]]]}`,
				`{"columns":["a","b","embedding"],"index":[8],"data":[[2,null,[10,11]]]}`,
				`{"columns":["a","b","embedding"],"index":[],"data":[]}`}},
		{wire.FormatCSV, wire.FormatJSON, "a,b\n1,p\n2,\n", [3]string{
			`[{"a":1,"b":"p","embedding":[0,1]},{"a":2,"b":null,"embedding":[10,11]}]`,
			`[{"a":2,"b":null,"embedding":[10,11]}]`, "[]"}},
		{wire.FormatCSV, wire.FormatCSV, "a,b\n1,p\n2,\n", [3]string{
			"a,b,embedding_0,embedding_1\n1,p,0,1\n2,,10,11\n", "a,b,embedding_0,embedding_1\n2,,10,11\n",
			"a,b,embedding_0,embedding_1\n"}},
		{wire.FormatCSV, wire.FormatNDJSON, "a,b\n1,p\n2,\n", [3]string{
			"{\"a\":1,\"b\":\"p\",\"embedding\":[0,1]}\n{\"a\":2,\"b\":null,\"embedding\":[10,11]}\n",
			"{\"a\":2,\"b\":null,\"embedding\":[10,11]}\n", ""}},
	} {
		m := decode(t, newDecoder(t, Spec{Format: c.in}), []byte(c.msg))
		for k, drop := range [][]int{nil, {0}, {0, 1}} {
			r := numbered(m, 2)
			r.Drop = [][]int{drop}
			got, err := newEncoder(t, Output{Format: c.out}).Encode(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkError(t, fmt.Sprintf("%s of %q without %v", c.out, c.msg, drop), fmt.Errorf("%s", got), c.want[k])
		}
	}
}

// TestFieldsOfAMessage: what the columns of a message hold, in the words of users.
func TestFieldsOfAMessage(t *testing.T) {
	b := arrow.BinaryTypes
	columns := []any{"a", from(t, i32, `[1,null]`), "b", from(t, arrow.ListOf(f32), `[[1],[2]]`), "c",
		from(t, b.LargeString, `["x",null]`), "d",
		from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["x","y"]`),
		"e", from(t, b.Binary, `["AA==",null]`), "f", from(t, arrow.ListOf(str), `[["x"],null]`), "g",
		from(t, arrow.StructOf(arrow.Field{Name: "s", Type: i32, Nullable: true}), `[{"s":1},null]`), "h",
		from(t, arrow.FixedWidthTypes.Date32, `["2024-05-01",null]`), "i", from(t, arrow.Null, `[null,null]`), "j",
		from(t, str, `[null,null]`), "k", from(t, &arrow.FixedSizeBinaryType{ByteWidth: 1}, `["AA==",null]`), "l",
		from(t, arrow.FixedWidthTypes.Boolean, `[true,null]`), "m", from(t, b.StringView, `["x","y"]`)}
	m := decode(t, newDecoder(t, Spec{Features: []string{"a", "b"}, Label: "m", Key: "c"}), message(t, columns...))
	var got []string
	for _, f := range m.Fields() {
		got = append(got, fmt.Sprintf("%s:%s", f.Name, f.Holds))
		if f.Feature != (f.Name == "a" || f.Name == "b") || f.Empty != (f.Name == "i" || f.Name == "j") {
			t.Errorf("%+v", f)
		}
	}
	if want := "a:number b:list of numbers c:text d:text e:binary f:list g:nested h:date i:null j:text k:binary " +
		"l:number m:text"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	if m.LabelKind() != "text" || m.KeyKind() != "text" {
		t.Errorf("the label is %s, the key %s", m.LabelKind(), m.KeyKind())
	}
	for label, want := range map[string]string{"a": "integers", "l": "booleans", "i": "", "none": "", "": ""} {
		m := decode(t, newDecoder(t, Spec{Label: label}), message(t, columns...))
		if got := m.LabelKind(); got != want || m.KeyKind() != "" {
			t.Errorf("the label %q is %q, want %q", label, got, want)
		}
	}
}

// TestRefusedOutputs: an output that does not fit its message is refused, with what differs.
func TestRefusedOutputs(t *testing.T) {
	x := from(t, f32, `[1,2]`)
	schema, recs := records(t, message(t, "x", x))
	two, err := FromRecords(schema, recs[0], recs[0])
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(t, Spec{})
	one, m := decode(t, d, message(t, "x", x)), decode(t, d, two)
	named := decode(t, d, message(t, "embedding", x, "x", x))
	twice := decode(t, d, message(t, "x", x, "x", x))
	text := decode(t, newDecoder(t, Spec{Format: wire.FormatCSV}), []byte("x,y_1\n1,2\n3,4\n"))
	y := [][]float32{{1, 2}, {3, 4}}
	all := Output{Keep: []string{"all"}}
	for _, c := range []struct {
		name string
		out  Output
		r    Reduced
		want string
	}{
		{"fits", all, Reduced{m, 1, y, nil}, ""},
		{"no dimension", all, Reduced{m, 0, y, nil}, "0 dimensions, 2 results and 0 lists of dropped rows for 2 batches"},
		{"dimensions", all, Reduced{m, 65537, y, nil},
			"65537 dimensions, 2 results and 0 lists of dropped rows for 2 batches"},
		{"one result", all, Reduced{m, 1, y[:1], nil},
			"1 dimensions, 1 results and 0 lists of dropped rows for 2 batches"},
		{"one list", all, Reduced{m, 1, y, [][]int{{0}}},
			"1 dimensions, 2 results and 1 lists of dropped rows for 2 batches"},
		{"short result", all, Reduced{m, 1, [][]float32{{1, 2}, {3}}, nil},
			"batch 1 has 2 rows and a result of 1 numbers for 1 dimensions"},
		{"row twice", all, Reduced{m, 1, y, [][]int{nil, {1, 1}}},
			"row 1 after row 1 in a batch of 2; list rows in ascending order, each once"},
		{"row beyond", all, Reduced{m, 1, y, [][]int{{2}, nil}},
			"row 2 after row -1 in a batch of 2; list rows in ascending order, each once"},
		{"row before", all, Reduced{m, 1, y, [][]int{{-1}, nil}},
			"row -1 after row -1 in a batch of 2; list rows in ascending order, each once"},
		{"name of the output", all, Reduced{named, 1, y[:1], nil},
			`column "embedding": a kept column has the name of the output column; rename it, set another ` +
				`output.column, or do not keep it`},
		{"name as text", Output{Keep: []string{"all"}, Format: "json"}, Reduced{named, 1, y[:1], nil},
			`column "embedding": a kept column has the name of the output column; rename it, set another ` +
				`output.column, or do not keep it`},
		{"two of a name", Output{Keep: []string{"all"}, Format: "json"}, Reduced{twice, 1, y[:1], nil},
			`column "x": two columns have this name, which text cannot tell apart; rename one, or do not ` +
				`keep it`},
		{"name of a dimension", Output{Column: "y", Format: "csv"}, Reduced{text, 2, [][]float32{{1, 2, 3, 4}}, nil},
			`column "y_1": a kept column has the name of the output column; rename it, set another ` +
				`output.column, or do not keep it`},
	} {
		_, err := newEncoder(t, c.out).Encode(c.r, nil)
		checkError(t, c.name, err, c.want)
	}
	e := newEncoder(t, Output{})
	_, err = e.Rejected(m, [][]int{{0}}, nil)
	checkError(t, "rows of one batch", err, "rows for 1 batches, and the message has 2")
	_, err = e.Rejected(m, [][]int{{0}, {2}}, nil)
	checkError(t, "a row beyond", err, "row 2 after row -1 in a batch of 2; list rows in ascending order, each once")
	_, err = e.Record(Reduced{m, 1, y, nil}, nil)
	checkError(t, "a record of two batches", err,
		"a message of 2 batches is not one record; encode it, or give records one by one")
	if rec, err := e.Record(Reduced{one, 1, y[:1], [][]int{{0}}}, nil); err != nil || rec.NumRows() != 1 ||
		rec.Column(1).(*array.FixedSizeList).ListValues().(*array.Float32).Value(0) != 2 {
		t.Errorf("a record without its first row: %v, %v", rec, err)
	}
	_, err = Arrow(decode(t, newDecoder(t, Spec{Features: []string{"x"}, Format: wire.FormatCSV}), []byte("x\n1\ny\n")))
	checkError(t, "a row that cannot be read", err, `row 2: "y" is no number`)
}

// TestPartsOfText: a part has the names of the columns and as many rows as the limit has room for; all parts together
// take at most Limits.Body, or twice the output and 64 KiB.
func TestPartsOfText(t *testing.T) {
	name := strings.Repeat("n", 5000)
	rows := make([]string, 100)
	for i := range rows {
		rows[i] = fmt.Sprintf("%d,%03d", i%10, i)
	}
	msg := []byte("x," + name + "\n" + strings.Join(rows, "\n") + "\n")
	split := func(body, limit int, drop []int) ([][]byte, error) {
		d := newDecoder(t, Spec{Features: []string{"x"}, Format: wire.FormatCSV, Limits: Limits{Body: body}})
		r := numbered(decode(t, d, msg), 1)
		r.Drop = [][]int{drop}
		seen := 0
		parts, err := newEncoder(t, Output{Format: wire.FormatCSV}).Split(r, limit, func(part, parts int) []wire.Pair {
			if part != seen || parts < 1 {
				t.Errorf("part %d of %d, want %d", part, parts, seen)
			}
			seen++
			return nil
		})
		if err == nil && seen != len(parts) {
			t.Errorf("the metadata of %d parts, of %d", seen, len(parts))
		}
		return parts, err
	}
	// Names and line breaks; a name, a number at its longest and a line break.
	const around, longest = 5000 + 1 + 11 + 1 + 1, 3 + 1 + 15 + 1
	parts, err := split(1<<20, around+3*longest, nil)
	if err != nil || len(parts) != 34 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	head := name + ",embedding_0\n"
	for k, part := range parts {
		want := head
		for i := 3 * k; i < min(3*k+3, 100); i++ {
			want += fmt.Sprintf("%03d,%d\n", i, 10*i)
		}
		if string(part) != want {
			t.Errorf("part %d ends with %q, want %q", k, part[len(part)-40:], want[len(want)-40:])
		}
	}
	if parts, err := split(1<<20, around+3*longest-1, nil); err != nil || len(parts) != 50 {
		t.Errorf("a byte less: %d parts, %v", len(parts), err)
	}
	_, err = split(170_000, around+3*longest, nil)
	checkError(t, "parts", err, "the 34 parts of the output take 172476 bytes, because each repeats the names; send "+
		"fewer rows a message, or raise the server's max_payload or limits.expanded")
	if parts, err := split(172_476, around+3*longest, nil); err != nil || len(parts) != 34 {
		t.Errorf("within the limit: %d parts, %v", len(parts), err)
	}
	_, err = split(1<<20, around+longest-1, nil)
	checkError(t, "wide", err, fmt.Sprintf("row 0: one row takes up to %d bytes, and a part may take %d; raise "+
		"the server's max_payload or the stream's max_msg_size, or keep fewer columns", around+longest, around+longest-1))
	if e, ok := err.(*Error); !ok || e.Code != wire.TooWide || len(e.Also) != 99 || e.Also[98].Row != 99 {
		t.Errorf("wide rows: %v", err)
	}
	all := make([]int, 100)
	for i := range all {
		all[i] = i
	}
	_, err = split(1<<20, around-1, all)
	checkError(t, "names", err, fmt.Sprintf("the names of the columns alone take %d bytes, and a part may take %d; raise "+
		"the server's max_payload or the stream's max_msg_size, or keep fewer columns", around, around-1))
	if parts, err := split(1<<20, around, all); err != nil || len(parts) != 1 || string(parts[0]) != head {
		t.Errorf("without rows: %d parts, %v", len(parts), err)
	}
}
