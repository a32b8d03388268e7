package file

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// recordOf is what a reader returns, with the line of each field.
type recordOf struct {
	fields []string
	lines  []int
	err    error
}

func recordsOf(read func() ([]string, error), line func(int) int) (all []recordOf) {
	for {
		fields, err := read()
		r := recordOf{fields: append([]string{}, fields...)}
		if p := (*csv.ParseError)(nil); errors.As(err, &p) {
			return append(all, recordOf{err: csv.ErrFieldCount, lines: []int{p.Line}})
		}
		if err != nil {
			return append(all, recordOf{err: err})
		}
		for i := range fields {
			r.lines = append(r.lines, line(i))
		}
		all = append(all, r)
	}
}

// TestRecords: records, lines of fields and the line of the first error are those of encoding/csv, however long the
// lines are compared with the buffer. It drops the CR of each CRLF in a field.
func TestRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "1.5", ",", ",", ",", ";", "\n", "\n", "\r\n", "\r", "\"", "\"\"", "\"x\",", "\"a\nb\"",
		"\"\r\n\"", " ", "é", strings.Repeat("long", 1500)}
	check := func(text string, delimiter rune, trim bool) {
		want := csv.NewReader(strings.NewReader(text))
		want.Comma, want.TrimLeadingSpace = delimiter, trim
		got := newCSVRecords(bufio.NewReaderSize(strings.NewReader(text), 4096), delimiter, trim)
		a := recordsOf(want.Read, func(i int) int { line, _ := want.FieldPos(i); return line })
		b := recordsOf(got.Read, got.line)
		for _, r := range b {
			for i, field := range r.fields {
				r.fields[i] = strings.ReplaceAll(field, "\r\n", "\n")
			}
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%.300q: %.300s, want %.300s", text, fmt.Sprintf("%+v", b), fmt.Sprintf("%+v", a))
		}
	}
	for range 30_000 {
		var text strings.Builder
		for range r.IntN(20) {
			piece := pieces[r.IntN(len(pieces))]
			if len(piece) > 100 && r.IntN(20) > 0 {
				continue
			}
			text.WriteString(piece)
		}
		check(text.String(), []rune{',', ';', '\u00a6'}[r.IntN(3)], r.IntN(2) == 0)
	}
	for _, delimiter := range "\"\r\n" {
		if _, err := newCSVRecords(bufio.NewReader(strings.NewReader("a\rb\n")), delimiter, false).Read(); err == nil {
			t.Errorf("%q is taken for a delimiter", delimiter)
		}
	}
	check("a,b\n"+strings.Repeat("1,2\n", 5000)+"\"q\n\n\",3\n4\n", ',', false)
	failing := io.MultiReader(strings.NewReader("a,b\n1,2\n3"), io.LimitReader(failure{}, 1))
	partial := newCSVRecords(bufio.NewReaderSize(failing, 4096), ',', false)
	if got := recordsOf(partial.Read, partial.line); len(got) != 3 || !errors.Is(got[2].err, io.ErrNoProgress) {
		t.Errorf("a reader that fails gives %+v", got)
	}
}

// TestCRLFInQuotes: the line ends of a quoted field are kept, at any place of the buffers; those of records are not.
func TestCRLFInQuotes(t *testing.T) {
	for shift := range 4100 {
		long := strings.Repeat("x", shift)
		text := "a,b\r\n1,2\r\n\"" + long + "\r\n\"\"\r\n\r\r\n\n\",\"2\"\r\n3,4\r\n"
		r := newCSVRecords(bufio.NewReaderSize(strings.NewReader(text), 4096), ',', false)
		got := recordsOf(r.Read, r.line)
		if len(got) != 5 || got[2].fields[0] != long+"\r\n\"\r\n\r\r\n\n" || got[2].fields[1] != "2" ||
			!reflect.DeepEqual(got[3].fields, []string{"3", "4"}) || got[3].lines[0] != 8 {
			t.Fatalf("after %d bytes: %v", shift, got)
		}
	}
}

// failure is a reader that fails.
type failure struct{}

func (failure) Read([]byte) (int, error) { return 0, io.ErrNoProgress }
