package arrowio

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/bound"
)

// contractOfSizes returns the contract of a Spec whose features have sizes.
func contractOfSizes(t testing.TB, s Spec) *Contract {
	t.Helper()
	c, ok := s.Contract()
	if !ok {
		t.Fatal("the Spec has no contract")
	}
	return c
}

// featureBits returns the features of a message row by row, with the bits of NaN where they are missing.
func featureBits(m *Message) (bits []uint64) {
	for _, b := range m.Batches() {
		for row := range b.Rows() {
			for _, k := range b.Features() {
				for j := range k.Cols {
					if v := k.At(row, j); v == v {
						bits = append(bits, math.Float64bits(v))
					} else {
						bits = append(bits, math.Float64bits(math.NaN()))
					}
				}
			}
		}
	}
	return bits
}

// faultLines are the faults of a message, a line each.
func faultLines(m *Message) (lines []string) {
	for _, b := range m.Batches() {
		for _, f := range b.Faults() {
			lines = append(lines, fmt.Sprintf("%d %s %s %s", f.Row, f.Feature, f.What, f.Code))
		}
	}
	return lines
}

// TestTextIsArrow: rows of random numbers, some of them null, have the same features, labels and faults as text of
// every form as they have in Arrow, as lists and as columns, with and without a contract.
func TestTextIsArrow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{0, 1, 2, 9, 70} {
		const m = 5
		numbers := make([]float64, rows*m)
		isNull := make([]bool, rows*m)
		for i := range numbers {
			numbers[i] = math.Float64frombits(r.Uint64())
			if r.IntN(2) == 0 || numbers[i] != numbers[i] || math.IsInf(numbers[i], 0) {
				numbers[i] = r.NormFloat64()
			}
			isNull[i] = r.IntN(20) == 0
		}
		for _, asList := range []bool{true, false} {
			for _, c := range textForms(numbers, isNull, rows, m, asList) {
				spec := Spec{Features: []string{"x*"}, Label: "label"}
				want, err := newDecoder(t, spec).FromRecord(recordOf(numbers, isNull, rows, m, asList), nil)
				if err != nil {
					t.Fatal(err)
				}
				contract, err := NewContract(elements(m, asList), "label", "")
				if err != nil {
					t.Fatal(err)
				}
				spec.Format = c.format
				for _, k := range []*Contract{nil, contract} {
					got, err := newDecoder(t, spec).Decode([]byte(c.text), k)
					if k == nil && rows < 9 && err != nil {
						continue // a column may have no value, so nothing says what it holds
					}
					if err != nil {
						t.Fatalf("%d rows of %s: %v", rows, c.format, err)
					}
					if !slices.Equal(featureBits(got), featureBits(want)) || !slices.Equal(faultLines(got), faultLines(want)) {
						t.Errorf("%d rows of %s %s: features or faults %v, want %v", rows, c.format, c.text, faultLines(got),
							faultLines(want))
					}
					for i := range rows {
						a, _ := got.Batches()[0].Label(i)
						if b, _ := want.Batches()[0].Label(i); a != b {
							t.Errorf("label %q, want %q", a, b)
						}
					}
				}
			}
		}
	}
}

func elements(m int, asList bool) (names []string) {
	for j := range m {
		if asList {
			names = append(names, fmt.Sprintf("x[%d]", j))
		} else {
			names = append(names, fmt.Sprintf("x%d", j))
		}
	}
	return names
}

// recordOf returns rows as a record of float64.
func recordOf(numbers []float64, isNull []bool, rows, m int, asList bool) arrow.Record {
	fields := []arrow.Field{{Name: "label", Type: arrow.PrimitiveTypes.Int64}}
	if asList {
		fields = append(fields, arrow.Field{Name: "x", Nullable: true,
			Type: arrow.FixedSizeListOf(int32(m), arrow.PrimitiveTypes.Float64)})
	} else {
		for j := range m {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("x%d", j), Type: arrow.PrimitiveTypes.Float64, Nullable: true})
		}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i % 3))
		for j := range m {
			var to *array.Float64Builder
			if asList {
				list := b.Field(1).(*array.FixedSizeListBuilder)
				if j == 0 {
					list.Append(true)
				}
				to = list.ValueBuilder().(*array.Float64Builder)
			} else {
				to = b.Field(1 + j).(*array.Float64Builder)
			}
			if isNull[i*m+j] {
				to.AppendNull()
			} else {
				to.Append(numbers[i*m+j])
			}
		}
	}
	return b.NewRecord()
}

type textForm struct {
	format wire.Format
	text   string
}

// textForms returns rows in every form. CSV has no lists, so its columns are the elements.
func textForms(numbers []float64, isNull []bool, rows, m int, asList bool) []textForm {
	var objects, split, lines []string
	names := elements(m, asList)
	header := strings.Join(append([]string{"label"}, names...), ",")
	for i := range rows {
		var texts []string
		for j := range m {
			text := strconv.FormatFloat(numbers[i*m+j], "efg"[(i+j)%3], -1, 64)
			if isNull[i*m+j] {
				text = "null"
			}
			texts = append(texts, text)
		}
		label := []string{"0", `"1"`, "2"}[i%3]
		list := "[" + strings.Join(texts, " ,") + "]"
		values := []string{label, list}
		members := []string{`"x":` + list, `"label" : ` + label}
		if !asList {
			values = append([]string{label}, texts...)
			members = []string{members[1]}
			for j, text := range texts {
				if text != "null" || j%2 == 0 {
					members = append(members, fmt.Sprintf(`"x%d":%s`, j, text))
				}
			}
			if i%5 == 0 { // in any order
				slices.Reverse(members)
			}
		}
		objects = append(objects, "{"+strings.Join(members, ", ")+"}")
		split = append(split, "["+strings.Join(values, ",")+"]")
		lines = append(lines, strings.Join(append([]string{label}, texts...), ","))
	}
	columns := append([]string{"label"}, names...)
	if asList {
		columns = []string{"label", "x"}
	}
	quoted, _ := json.Marshal(columns)
	all := []textForm{
		{wire.FormatJSON, "[" + strings.Join(objects, ",") + "]"},
		{wire.FormatJSON, fmt.Sprintf(`{"data":[%s],"columns":%s}`, strings.Join(split, ","), quoted)},
		{wire.FormatNDJSON, strings.Join(objects, "\r\n\n")},
		{wire.FormatCSV, "\ufeff" + header + "\r\n" + strings.Join(lines, "\n") + "\n"},
	}
	if rows == 1 {
		all = append(all, textForm{wire.FormatJSON, objects[0]})
	}
	return all
}

// encodeAs writes a message of text with outputs 0.5, 1.5 ... of two dimensions, without the rows that have faults.
func encodeAs(t *testing.T, m *Message, out Output, limit int) ([]string, error) {
	t.Helper()
	r := Reduced{Message: m, Dim: 2}
	for _, b := range m.Batches() {
		y := make([]float32, 2*b.Rows())
		for i := range y {
			y[i] = float32(i) + 0.5
		}
		var drop []int
		for _, f := range b.Faults() {
			drop = append(drop, f.Row)
		}
		r.Y, r.Drop = append(r.Y, y), append(r.Drop, drop)
	}
	var texts []string
	msgs, err := newEncoder(t, out).Split(r, limit, func(int, int) []wire.Pair { return nil })
	for _, msg := range msgs {
		texts = append(texts, string(msg))
	}
	return texts, err
}

// TestTextOutput: kept fields keep their bytes in the format that they came in and have one form in the others, and the
// shape of a message stays.
func TestTextOutput(t *testing.T) {
	t.Parallel()
	spec := Spec{Features: []string{"x"}, Sizes: map[string]int{"x": 2}, Label: "label", Key: "id"}
	for _, c := range []struct {
		in, out wire.Format
		keep    []string
		columns bool
		message string
		want    []string
		limit   int
	}{
		{"json", "json", nil, false, `{ "id" : 1e0, "x":[1,2], "n":1.50, "s":"\u00e9" }`, nil, 0},
		{"json", "json", nil, false, `{ "a" : 1e0, "x":[1,2], "n":1.50, "s":"\u00e9" }`,
			[]string{`{"a" : 1e0,"n":1.50,"s":"\u00e9","embedding":[0.5,1.5]}`}, 0},
		{"json", "json", []string{"none"}, true, `{ "a" : 1e0, "x":[1,2]}`,
			[]string{`{"embedding_0":0.5,"embedding_1":1.5}`}, 0},
		{"json", "json", []string{"x", "a*"}, false, ` [{ "ab":{"q": [1]}, "x":[1, 2]}] `,
			[]string{`[{"ab":{"q": [1]},"x":[1, 2],"embedding":[0.5,1.5]}]`}, 0},
		{"json", "json", nil, false, `[]`, []string{`[]`}, 0},
		{"json", "json", nil, false, `{"x":[1,null]}`, []string{`[]`}, 0},
		{"json", "json", nil, false, `{"columns":["s","x"],"data":[["a",[1,2]],[null,[3,4]]]}`,
			[]string{`{"columns":["s","embedding"],"data":[["a",[0.5,1.5]],[null,[2.5,3.5]]]}`}, 0},
		{"json", "ndjson", nil, false, `{"columns":["s","x"],"data":[["a",[1,2]],[null,[3,4]]]}`,
			[]string{"{\"s\":\"a\",\"embedding\":[0.5,1.5]}\n{\"s\":null,\"embedding\":[2.5,3.5]}\n"}, 0},
		{"json", "json", nil, false, `{"columns":["x"],"index":["i",{}],"data":[[[1,2]],[[3,4]]]}`,
			[]string{`{"columns":["embedding"],"index":["i"],"data":[[[0.5,1.5]]]}`,
				`{"columns":["embedding"],"index":[{}],"data":[[[2.5,3.5]]]}`}, 100},
		{"json", "ndjson", nil, false, `[{"x":[1,2]},{"x":[1,2],"b":2},{"x":[1,2],"b":3}]`,
			[]string{"{\"embedding\":[0.5,1.5]}\n{\"b\":2,\"embedding\":[2.5,3.5]}\n",
				"{\"b\":3,\"embedding\":[4.5,5.5]}\n"}, 110},
		{"json", "ndjson", nil, false, "{\n \"x\": [1,2],\n \"a\":\r\n {\n  \"b\": \"\\n\"\n }\n}",
			[]string{"{\"a\":   {   \"b\": \"\\n\"  },\"embedding\":[0.5,1.5]}\n"}, 0},
		{"json", "csv", nil, false, `[{"x":[1,2],"a":"q,\"\n"},{"b":[1,2],"a":null,"x":[1,2],"c":true,"d":1e5}]`,
			[]string{"a,b,c,d,embedding_0,embedding_1\n\"q,\"\"\n\",,,,0.5,1.5\n,\"[1,2]\",true,1e5,2.5,3.5\n"}, 0},
		{"ndjson", "json", nil, false, "{\"x\":[1,2],\"a\":1}\n\n{\"x\":[1,2]}", []string{`[{"a":1,"embedding":[0.5,1.5]},` +
			`{"embedding":[2.5,3.5]}]`}, 0},
		{"ndjson", "ndjson", nil, false, "", []string{""}, 0},
		{"csv", "csv", nil, false, "x[0],x[1],\"a,\",b\n1,2,\"\"\"\n\",007\n\n3,4,,\n",
			[]string{"\"a,\",b,embedding_0,embedding_1\n\"\"\"\n\",007,0.5,1.5\n,,2.5,3.5\n"}, 0},
		{"json", "csv", nil, false, `[{"x":[1,2],"a":""},{"x":[1,2],"a":null}]`,
			[]string{"a,embedding_0,embedding_1\n\"\",0.5,1.5\n,2.5,3.5\n"}, 0},
		{"json", "csv", nil, false, `{"x":[1,2]," ":1," a":2,"a":3}`,
			[]string{"\" \",\" a\",a,embedding_0,embedding_1\n1,2,3,0.5,1.5\n"}, 0},
		{"csv", "json", nil, false, "x[0],x[1],\" \",\" a\", a\n1,2,1,2,3\n",
			[]string{`[{" ":1," a":2,"a":3,"embedding":[0.5,1.5]}]`}, 0},
		{"csv", "csv", nil, false, "x[0],x[1],a\n", []string{"a,embedding_0,embedding_1\n"}, 0},
		{"csv", "json", nil, false,
			"x[0],x[1],n,b,t,z,i\n1,2,+1.50,True,a,007,\n3,4,NA,,,,\n5,6,1e5,false,\"q\"\"\",08,inf\n",
			[]string{`[{"n":1.5,"b":true,"t":"a","z":"007","i":null,"embedding":[0.5,1.5]},` +
				`{"n":null,"b":null,"t":null,"z":null,"i":null,"embedding":[2.5,3.5]},` +
				`{"n":1e5,"b":false,"t":"q\"","z":"08","i":"inf","embedding":[4.5,5.5]}]`}, 0},
	} {
		s := spec
		s.Format = c.in
		m, err := newDecoder(t, s).Decode([]byte(c.message), contractOfSizes(t, s))
		if err != nil {
			if c.want != nil {
				t.Errorf("%s: %v", c.message, err)
			}
			continue
		}
		limit := c.limit
		if limit == 0 {
			limit = 1 << 20
		}
		got, err := encodeAs(t, m, Output{Format: c.out, Keep: c.keep, Columns: c.columns}, limit)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s as %s: %q %v, want %q", c.message, c.out, got, err, c.want)
		}
	}
}

// TestTextToArrow: kept fields are typed by their message alone.
func TestTextToArrow(t *testing.T) {
	t.Parallel()
	s := Spec{Features: []string{"x"}, Sizes: map[string]int{"x": 2}, Label: "label", Format: wire.FormatJSON}
	message := `[{"x":[1,2],"n":1,"b":true,"s":"é\n","l":[1,null],"m":1,"o":{"a":[]},"z":null,"label":3,"ll":[[1]]},` +
		`{"x":[1,2],"n":2.5,"m":"1","label":"3","l":[],"s":null}]`
	m, err := newDecoder(t, s).Decode([]byte(message), contractOfSizes(t, s))
	if err != nil {
		t.Fatal(err)
	}
	out, err := encodeAs(t, m, Output{}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	back := decode(t, newDecoder(t, Spec{}), []byte(out[0]))
	var got []string
	for _, f := range back.Fields() {
		got = append(got, f.Name+" "+f.Holds)
	}
	want := []string{"n number", "b boolean", "s text", "l list of numbers", "m text", "o text", "z null", "label text",
		"ll text", "embedding list of numbers"}
	if len(got) != len(want) || got[4] != want[4] || got[9] != want[9] {
		t.Errorf("fields %q, want %q", got, want)
	}
	texts, err := encodeAs(t, back, Output{Format: wire.FormatJSON, Keep: []string{"all"}, Column: "y"}, 1<<20)
	wantText := `[{"n":1,"b":true,"s":"é\n","l":[1,null],"m":"1","o":"{\"a\":[]}","z":null,"label":"3","ll":"[[1]]",` +
		`"embedding":[0.5,1.5],"y":[0.5,1.5]},{"n":2.5,"b":null,"s":null,"l":[],"m":"\"1\"","o":null,"z":null,"label":"3",` +
		`"ll":null,"embedding":[2.5,3.5],"y":[2.5,3.5]}]`
	if err != nil || texts[0] != wantText {
		t.Errorf("%s %v, want %s", texts, err, wantText)
	}
}

// TestSplitsOfText: where an output is split does not depend on its values, and every part is within the limit even if
// all of them have their longest text. A row that is too wide alone is named.
func TestSplitsOfText(t *testing.T) {
	t.Parallel()
	s := Spec{Features: []string{"x"}, Sizes: map[string]int{"x": 1}, Format: wire.FormatNDJSON}
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprintf(`{"x":1,"s":%q}`, strings.Repeat("s", i)))
	}
	m, err := newDecoder(t, s).Decode([]byte(strings.Join(lines, "\n")), contractOfSizes(t, s))
	if err != nil {
		t.Fatal(err)
	}
	longest := math.Float32frombits(0x80800001) // its shortest text has nine digits
	for range 10_000 {
		v := math.Float32frombits(rand.Uint32())
		if text := strconv.FormatFloat(float64(v), 'g', -1, 32); len(text) > 15 {
			t.Fatalf("%s has %d bytes", text, len(text))
		}
	}
	for _, format := range []wire.Format{wire.FormatJSON, wire.FormatNDJSON, wire.FormatCSV} {
		e := newEncoder(t, Output{Format: format})
		var cuts [][]int
		for _, v := range []float32{0, longest} {
			y := slices.Repeat([]float32{v}, 3*50)
			parts, err := e.Split(Reduced{Message: m, Dim: 3, Y: [][]float32{y}}, 300, func(int, int) []wire.Pair { return nil })
			if err != nil {
				t.Fatal(err)
			}
			var at []int
			for _, part := range parts {
				if len(part) > 300 {
					t.Errorf("%s: a part of %d bytes", format, len(part))
				}
				at = append(at, strings.Count(string(part), "s,")+strings.Count(string(part), `s"`)+
					strings.Count(string(part), `""`))
			}
			cuts = append(cuts, at)
		}
		if !slices.Equal(cuts[0], cuts[1]) || len(cuts[0]) < 5 {
			t.Errorf("%s: rows of the parts %v", format, cuts)
		}
		_, err := e.Split(Reduced{Message: m, Dim: 3, Y: [][]float32{make([]float32, 150)}}, 100,
			func(int, int) []wire.Pair { return nil })
		var wide *Error
		if !errors.As(err, &wide) || wide.Code != wire.TooWide || wide.Row < 10 || len(wide.Also) < 5 {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// hostileTexts are messages that try to cost more than they are worth, with their code.
func hostileTexts() map[string]struct {
	format wire.Format
	msg    string
	code   wire.Code
} {
	type one = struct {
		format wire.Format
		msg    string
		code   wire.Code
	}
	many := func(n int, f func(i int) string, between string) string {
		var parts []string
		for i := range n {
			parts = append(parts, f(i))
		}
		return strings.Join(parts, between)
	}
	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	digits := strings.Repeat("9", 1<<20)
	each := func(n int, format string) string {
		return many(n, func(i int) string { return fmt.Sprintf(format, i) }, "\n")
	}
	wide := "{" + many(5000, func(i int) string { return fmt.Sprintf(`"f%d":1`, i) }, ",") + "}"
	return map[string]one{
		"depth":         {"json", `{"x":[1,2],"a":` + strings.Repeat("[", 100_000), wire.NotJSON},
		"closed depth":  {"json", nested(9000), wire.TooManyFields},
		"objects":       {"json", strings.Repeat(`{"a":`, 100_000), wire.NotJSON},
		"width":         {"json", wide, wire.TooManyFields},
		"names of rows": {"ndjson", each(5000, `{"f%d":1}`), wire.TooManyFields},
		"names of one row": {"ndjson", `{"x":[1,2],` + many(4000, func(i int) string {
			return fmt.Sprintf(`"%090d":null`, i)
		}, ",") + "}\n" + strings.Repeat(`{"x":[1,2]}`+"\n", 10_000), ""},
		"sparse":           {"ndjson", each(4000, `{"x":[1,2],"f%d":1}`), wire.TooLarge},
		"rows":             {"ndjson", strings.Repeat("{}\n", 100_001), wire.TooManyRows},
		"elements":         {"json", "[" + strings.Repeat("{},", 100_001) + "{}]", wire.TooManyRows},
		"long number":      {"json", `{"x":[1,` + digits + `]}`, ""},
		"long exponent":    {"json", `{"x":[1,1e` + digits + `]}`, ""},
		"long fraction":    {"csv", "x[0],x[1]\n1,0." + digits + "\n", ""},
		"duplicate":        {"json", `{"x":[1,2],"x":[1,2]}`, wire.NotJSON},
		"escaped twice":    {"json", `{"x":[1,2],"\u0078":[1,2]}`, wire.NotJSON},
		"nested duplicate": {"json", `{"x":[1,2],"a":{"b":1,"b":2}}`, wire.NotJSON},
		"not UTF-8":        {"json", "{\"x\":[1,2],\"a\":\"\xff\"}", wire.NotJSON},
		"name not UTF-8":   {"json", "{\"x\":[1,2],\"\xff\":1}", wire.NotJSON},
		"half a surrogate": {"json", `{"x":[1,2],"a":"\ud800"}`, wire.NotJSON},
		"CSV not UTF-8":    {"csv", "x[0],x[1],a\n1,2,\xff\n", wire.NotCSV},
		"header not UTF-8": {"csv", "x[0],x[1],\xff\n1,2,3\n", wire.NotCSV},
		"two columns":      {"csv", "x[0],x[0]\n1,2\n", wire.NotCSV},
		"no name":          {"csv", "x[0],\n1,2\n", wire.NotCSV},
		"an open quote":    {"csv", "x[0],x[1]\n\"1,2\n", wire.NotCSV},
		"an open quote, a": {"csv", "a,x[0],x[1]\n\"1,2,3\n", wire.NotCSV},
		"commas":           {"csv", "x[0],x[1]\n" + strings.Repeat(",", 1<<20), wire.NotCSV},
		"quotes":           {"csv", "x[0],x[1]\n" + strings.Repeat("\"\"", 1<<18) + "\n", wire.NotCSV},
		"open quotes":      {"csv", "x[0],x[1]\n" + strings.Repeat("\"\"\"\n", 60_000), wire.NotCSV},
		"empty":            {"json", "", wire.NotJSON},
		"empty CSV":        {"csv", "", wire.NotCSV},
		"spaces":           {"json", strings.Repeat(" ", 1<<20), wire.NotJSON},
		"scalar":           {"json", "7", wire.NotJSON},
		"two values":       {"json", `{"x":[1,2]}{"x":[1,2]}`, wire.NotJSON},
		"columns of one":   {"json", `{"columns":["x","x"],"data":[]}`, wire.NotJSON},
		"index too short":  {"json", `{"columns":["x"],"index":[],"data":[[[1,2]]]}`, wire.NotJSON},
		"rows of data":     {"json", `{"columns":[],"data":[[]` + strings.Repeat(",[]", 100_001) + `]}`, wire.TooManyRows},
		"other":            {"json", `{"a":1}`, wire.MissingColumn},
		"label":            {"json", `{"x":[1,2],"label":3.5}`, wire.LabelType},
		"key":              {"json", `{"x":[1,2],"id":true}`, wire.KeyType},
		"name":             {"json", `{"x":[1,2],"` + strings.Repeat("n", 1<<20) + `":1}`, ""},
	}
}

// TestHostileText: each is an error with its code, or is read, within the memory that Expanded states before.
func TestHostileText(t *testing.T) {
	for name, c := range hostileTexts() {
		t.Run(name, func(t *testing.T) {
			s := Spec{Features: []string{"x"}, Sizes: map[string]int{"x": 2}, Label: "label", Key: "id", Format: c.format}
			d, e := newDecoder(t, s), newEncoder(t, Output{Format: c.format})
			msg := []byte(c.msg)
			bound.Check(t, 64<<20+4*uint64(expanded(d, msg, 2)), func() {
				m, err := d.Decode(msg, contractOfSizes(t, s))
				if c.code == "" && err != nil || c.code != "" && !errors.Is(err, c.code) {
					t.Errorf("%v, want %q", err, c.code)
				}
				if err != nil {
					return
				}
				for _, b := range m.Batches() {
					b.Faults()
					y := make([]float32, 2*b.Rows())
					if _, err := e.Encode(Reduced{Message: m, Dim: 2, Y: [][]float32{y}}, nil); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestWideLine: fields of a line beyond those of the header, and those of a header beyond the limit, take no memory.
func TestWideLine(t *testing.T) {
	commas := strings.Repeat(",", 4<<20)
	for text, want := range map[string]string{
		"x[0],x[1]\n1,2\n" + commas + "\n":     "the line has 4194305 fields, and the header 2",
		"x[0],x[1]\n1,2\n\"\"" + commas + "\n": "the line has 4194305 fields, and the header 2",
		"x" + strings.Repeat(",x", 2<<20):      "two columns have this name",
	} {
		d := newDecoder(t, Spec{Features: []string{"x"}, Sizes: map[string]int{"x": 2}, Format: wire.FormatCSV})
		msg := []byte(text)
		bound.Check(t, 4<<20, func() {
			have := ""
			if m, err := d.Decode(msg, contractOfSizes(t, d.spec)); err != nil {
				have = err.Error()
			} else {
				have = strings.Join(faultLines(m), "")
			}
			if !strings.Contains(have, want) {
				t.Errorf("%s, want %s", have, want)
			}
		})
	}
}

// TestManyLists: a message of many columns of lists is read about as fast as one of as many texts. Both are read in
// turns, so that other load slows both, until the best of each shows it.
func TestManyLists(t *testing.T) {
	ndjson := func(value string) []byte {
		var row []string
		for k := range 2000 {
			row = append(row, fmt.Sprintf(`"a%d":%s`, k, value))
		}
		return []byte(strings.Repeat(`{"x":[1,2],`+strings.Join(row, ",")+"}\n", 150))
	}
	messages := [2][]byte{ndjson("[]"), ndjson(`""`)}
	d := newDecoder(t, Spec{Features: []string{"x"}, Format: wire.FormatNDJSON})
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 20 {
		for k, msg := range messages {
			start := time.Now()
			decode(t, d, msg)
			best[k] = min(best[k], time.Since(start))
		}
		if best[0] <= 6*best[1] {
			return
		}
	}
	t.Errorf("lists take %v, and texts %v", best[0], best[1])
}

// TestSharedValues: few bytes of Arrow that are many values, such as a list of one entry of a dictionary, do not become
// more text than the limit.
func TestSharedValues(t *testing.T) {
	lists := array.NewListBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8,
		ValueType: arrow.BinaryTypes.String})
	lists.Append(true)
	for range 50_000 {
		if err := lists.ValueBuilder().AppendValueFromString(strings.Repeat("a", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	x := recordOf([]float64{1, 2}, []bool{false, false}, 1, 2, true)
	schema := arrow.NewSchema([]arrow.Field{x.Schema().Field(1), {Name: "a", Type: lists.Type()}}, nil)
	msg, err := FromRecords(schema, array.NewRecord(schema, []arrow.Array{x.Column(1), lists.NewArray()}, 1))
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, newDecoder(t, Spec{Features: []string{"x"}, Limits: Limits{Body: 1 << 20}}), msg)
	for _, f := range []wire.Format{wire.FormatJSON, wire.FormatCSV} {
		e := newEncoder(t, Output{Format: f})
		bound.Check(t, 16<<20, func() {
			_, err := e.Encode(Reduced{Message: m, Dim: 2, Y: [][]float32{{1, 2}}}, nil)
			if !errors.Is(err, wire.TooLarge) {
				t.Errorf("%s: %v", f, err)
			}
		})
	}
}

// FuzzText: no message of text costs more memory than its length allows, breaks a reader, or becomes an output that is
// no text of its format; rejected rows are read again with the same faults.
func FuzzText(f *testing.F) {
	for _, c := range hostileTexts() {
		if len(c.msg) < 16<<10 {
			f.Add([]byte(c.msg), byte(slices.Index(wire.Formats, c.format)))
		}
	}
	numbers, isNull := []float64{1, 2.5, -1e300, 4}, []bool{false, false, false, true}
	for _, c := range textForms(numbers, isNull, 2, 2, true) {
		f.Add([]byte(c.text), byte(slices.Index(wire.Formats, c.format)))
	}
	limits := Limits{Message: 1 << 20, Body: 1 << 20, Rows: 10_000}
	f.Fuzz(func(t *testing.T, msg []byte, kind byte) {
		sized := Spec{Features: []string{"x"}, Sizes: map[string]int{"x": 2}, Label: "label", Key: "id",
			Format: wire.Formats[1+int(kind)%3], Limits: limits}
		open := sized
		open.Features, open.Sizes = []string{"*"}, nil
		contract := contractOfSizes(t, sized)
		bound.Check(t, 256<<20, func() {
			checkText(t, newDecoder(t, sized), msg, contract)
			checkText(t, newDecoder(t, open), msg, nil)
		})
	})
}

// checkText reads a message and writes it in every format.
func checkText(t *testing.T, d *Decoder, msg []byte, c *Contract) {
	m, err := d.Decode(msg, c)
	if errors.Is(err, wire.Internal) {
		t.Fatalf("%v\n%s", err, err.(*Error).Stack)
	}
	if err != nil || m.Contract() == nil && c != nil {
		return
	}
	b := m.Batches()[0]
	var bad []int
	for _, f := range b.Faults() {
		bad = append(bad, f.Row)
	}
	for _, format := range wire.Formats {
		e := newEncoder(t, Output{Format: format, Column: "y"})
		y := make([]float32, 2*b.Rows())
		out, err := e.Encode(Reduced{Message: m, Dim: 2, Y: [][]float32{y}, Drop: [][]int{bad}}, nil)
		if errors.Is(err, wire.Internal) || errors.Is(err, wire.Malformed) {
			t.Fatalf("as %s: %v", format, err)
		}
		if err != nil {
			continue
		}
		if format == wire.FormatJSON && !json.Valid(out) {
			t.Errorf("no JSON: %q", out)
		}
		back, err := newDecoder(t, Spec{Format: format}).Decode(out, nil)
		if _, isUnnamed := m.plan.index[""]; errors.Is(err, wire.NotCSV) && isUnnamed {
			continue // a field without a name, which CSV does not have
		}
		if err != nil || back.Rows() != b.Rows()-len(bad) || len(faultLines(back)) > 0 {
			t.Errorf("as %s %q: %v", format, out, err)
		}
	}
	rejected, err := newEncoder(t, Output{}).Rejected(m, [][]int{bad}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.Decode(rejected, c); err == nil && len(again.Batches()[0].Faults()) != len(bad) && c != nil {
		t.Errorf("rows %v are %q, with faults %q", bad, rejected, faultLines(again))
	}
}
