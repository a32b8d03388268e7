package arrowio

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/wire"
)

// encodedDecoder returns a decoder of messages with a model's columns, all of which are encoded, and their contract.
func encodedDecoder(t *testing.T, format wire.Format, encodings ...Encoding) (*Decoder, *Contract) {
	t.Helper()
	spec := Spec{Encodings: encodings, Format: format}
	var elements []string
	for _, e := range encodings {
		column := ContractColumn{Name: e.Column, Values: e.Values}
		elements = append(elements, column.elements()...)
	}
	c, err := spec.ContractOf(elements)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(spec.Fixed(c))
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

// TestEncodedText: a short message of text may have many features of a category, within Limits.Body.
func TestEncodedText(t *testing.T) {
	e := Encoding{Column: "city"}
	for k := range 500 {
		e.Values = append(e.Values, fmt.Sprint("v", k))
	}
	const rows = 2000
	for _, format := range []wire.Format{wire.FormatCSV, wire.FormatNDJSON, wire.FormatJSON} {
		var lines []string
		for row := range rows {
			line := fmt.Sprint("v", row%500)
			if format != wire.FormatCSV {
				line = fmt.Sprintf(`{"city":%q}`, line)
			}
			lines = append(lines, line)
		}
		text := map[wire.Format]string{wire.FormatCSV: "city\n" + strings.Join(lines, "\n"),
			wire.FormatNDJSON: strings.Join(lines, "\n"), wire.FormatJSON: "[" + strings.Join(lines, ",") + "]"}[format]
		d, c := encodedDecoder(t, format, e)
		m, err := d.Decode([]byte(text), c)
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		if f := m.Batches()[0].Features(); m.Rows() != rows || f[0].At(501, 1) != 1 || m.Bytes() < 8*rows*500 {
			t.Errorf("%s: %d rows of %d bytes", format, m.Rows(), m.Bytes())
		}
	}
}

// TestEncodedBooleans: a text column with the value True is one of booleans in messages without other words.
func TestEncodedBooleans(t *testing.T) {
	for _, c := range []struct{ values, sent, places string }{
		{"False True maybe", "true false True maybe", "1 0 1 2"},
		{"false true", "True FALSE true", "1 0 1"},
		{"True true", "true True TRUE", "1 0 1"},
	} {
		d, contract := encodedDecoder(t, wire.FormatNDJSON, Encoding{Column: "vip", Values: strings.Fields(c.values)})
		var msg strings.Builder
		for _, v := range strings.Fields(c.sent) {
			if v != "true" && v != "false" {
				v = fmt.Sprintf("%q", v)
			}
			fmt.Fprintf(&msg, "{\"vip\":%s}\n", v)
		}
		m, err := d.Decode([]byte(msg.String()), contract)
		if err != nil {
			t.Fatal(err)
		}
		for row, place := range strings.Fields(c.places) {
			if m.Batches()[0].Features()[0].At(row, int(place[0]-'0')) != 1 || m.Unseen() != 0 {
				t.Errorf("%s: row %d of %s is not value %s", c.values, row, c.sent, place)
			}
		}
	}
}

// TestEncodedFaults: a row with two dates that are none is rejected once.
func TestEncodedFaults(t *testing.T) {
	d, c := encodedDecoder(t, wire.FormatCSV, Encoding{Column: "from"}, Encoding{Column: "to"})
	m, err := d.Decode([]byte("from,to\nx,y\n2024-05-01,2024-05-02\n1.5,y\n"), c)
	if err != nil {
		t.Fatal(err)
	}
	if f := m.Batches()[0].FaultsIn(nil); len(f) != 2 || f[0].Row != 0 || f[1].Row != 2 || f[1].Feature != "from" {
		t.Errorf("faults %v", f)
	}
}

// TestEncodedNames: the name of an encoded column may have the characters of a glob.
func TestEncodedNames(t *testing.T) {
	for _, name := range []string{"price [EUR", "*"} {
		d, c := encodedDecoder(t, wire.FormatCSV, Encoding{Column: name, Values: []string{"a", "b"}})
		m, err := d.Decode([]byte("x,"+name+"\n1,b\n"), c)
		if err != nil || m.Batches()[0].Features()[0].At(0, 1) != 1 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestDates reads testdata/dates.txt, as the tests of the package for Python do: dates as text, and days since 1970.
func TestDates(t *testing.T) {
	lines, err := os.ReadFile("testdata/dates.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		text, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		days, ok := parseDays(text)
		if got := fmt.Sprint(days); !ok != math.IsNaN(days) || got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// TestColumnsOfDatesAndCategories: a column that a Spec names as a date or a category is one in the contract of the
// first message. A date may be a date, a time or text; a category text, an integer or a boolean.
func TestColumnsOfDatesAndCategories(t *testing.T) {
	spec := Spec{Features: []string{"day", "city"}, Encodings: []Encoding{{Column: "day"}, {Column: "city",
		Values: []string{"1", "2", "true"}}}}
	date, moment := arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_s
	whole, yes := from(t, i32, `[1]`), from(t, arrow.FixedWidthTypes.Boolean, `[true]`)
	for name, c := range map[string]struct {
		day, city arrow.Array
		want      string // the feature columns, or a part of the error
	}{
		"texts":              {from(t, str, `["1970-01-03"]`), from(t, str, `["2"]`), "[2] [0 1 0]"},
		"a date":             {from(t, date, `["1970-01-03"]`), whole, "[2] [1 0 0]"},
		"a time":             {from(t, moment, `["1970-01-03 12:00:00"]`), yes, "[2.5] [0 0 1]"},
		"a number as a date": {whole, whole, "cannot be a date"},
		"a date as category": {from(t, date, `["1970-01-03"]`), from(t, date, `["1970-01-03"]`), "cannot be a category"},
	} {
		m, err := newDecoder(t, spec).Decode(message(t, "day", c.day, "city", c.city), nil)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
			continue
		}
		var got []string
		for _, b := range m.Batches()[0].Features() {
			var values []float64
			for j := range b.Cols {
				values = append(values, b.At(0, j))
			}
			got = append(got, fmt.Sprint(values))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: features %s, want %s", name, text, c.want)
		}
	}
}
