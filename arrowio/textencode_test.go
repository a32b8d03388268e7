package arrowio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestRejectedText: rejected rows of text are written as they came, in the shape of the message, also if there are
// none.
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
