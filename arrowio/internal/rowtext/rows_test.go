package rowtext

import (
	"slices"
	"testing"
)

// TestBytesOfRows: each row knows its bytes in the message, one that cannot be read too.
func TestBytesOfRows(t *testing.T) {
	limits := Limits{Rows: 100, Fields: 10, Depth: 10, Memory: 1 << 20}
	for _, c := range []struct {
		text string
		read func([]byte, Limits) *Table
		want []string
		bad  []int
	}{
		{` {"a":1} `, ReadJSON, []string{`{"a":1}`}, nil},
		{`{"columns":["a"],"index":[1]}`, ReadJSON, []string{`{"columns":["a"],"index":[1]}`}, nil},
		{`{"data":[[1]],"index":[1]}`, ReadJSON, []string{`{"data":[[1]],"index":[1]}`}, nil},
		{`{"columns":["a"],"data":[[1]],"more":[]}`, ReadJSON, []string{`{"columns":["a"],"data":[[1]],"more":[]}`}, nil},
		{`{"columns":"a","data":[[1]]}`, ReadJSON, []string{`{"columns":"a","data":[[1]]}`}, nil},
		{`[{"a":1}, {"a":2},5, {"a":3}]`, ReadJSON, []string{`{"a":1}`, `{"a":2}`, "5", `{"a":3}`}, []int{2}},
		{`{"columns":["a","b"],"data":[[1,2], 5,[1], [3,4,5],[6,7] ]}`, ReadJSON,
			[]string{"[1,2]", "5", "[1]", "[3,4,5]", "[6,7]"}, []int{1, 2, 3}},
		{"{\"a\":1}\n\n{\"a\":2\n{\"a\":3}\n", ReadLines, []string{`{"a":1}`, `{"a":2`, `{"a":3}`}, []int{1}},
		{"a,b\n1,2\n3\n4,\"5\"\r\n", ReadCSV, []string{"1,2", "3", `4,"5"`}, []int{1}},
	} {
		table := c.read([]byte(c.text), limits)
		var got []string
		var bad []int
		for i, r := range table.Rows {
			got = append(got, string(table.Data[r.Lo:r.Hi]))
			if r.Err != nil {
				bad = append(bad, i)
				if r.Err.Row != i || len(table.CellsOf(i)) != 0 {
					t.Errorf("%s: row %d has %d cells and the error of row %d", c.text, i, len(table.CellsOf(i)), r.Err.Row)
				}
			}
		}
		if !slices.Equal(got, c.want) || !slices.Equal(bad, c.bad) {
			t.Errorf("%s: rows %q, bad ones %v; want %q, %v", c.text, got, bad, c.want, c.bad)
		}
	}
}
