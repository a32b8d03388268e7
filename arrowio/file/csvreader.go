package file

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/internal/number"
)

// csvReader reads CSV twice: once over every value to find the column types, once for the rows. A type guessed from the
// first rows could fail, or change, at row one million.
type csvReader struct {
	name    string
	how     Options                       // with the detected delimiter and decimal mark
	always  map[string]bool               // words for missing values in columns of any type
	used    map[string]bool               // of these, those that a field has
	numbers bool                          // some of these words are numbers
	spaces  bool                          // a space follows each delimiter
	comment bool                          // the first line begins with #
	again   func() (*bufio.Reader, error) // the text from its start
	file    *os.File
	arrow   *arrow.Schema
	kinds   []columnKind
	rows    *csvRecords
	values  *array.RecordBuilder
	batch   int
	total   int // rows

	builders []array.Builder // of values
}

// csvTypes is the result of the first pass over several files.
type csvTypes struct {
	kinds map[string]*columnKind // by column
	used  map[string]bool        // as in csvReader
	rows  int
}

// add adds the first pass over one file.
func (t *csvTypes) add(c *csvReader) {
	if t.kinds == nil {
		t.kinds, t.used = map[string]*columnKind{}, map[string]bool{}
	}
	for i, k := range c.kinds {
		name := c.arrow.Field(i).Name
		if t.kinds[name] == nil {
			t.kinds[name] = &columnKind{}
		}
		t.kinds[name].merge(k, c.name)
	}
	maps.Copy(t.used, c.used)
	t.rows += c.total
}

// use takes the types of all files in place of a first pass over this one.
func (c *csvReader) use(t *csvTypes, header []string) error {
	for _, name := range header {
		k := t.kinds[name]
		if k == nil {
			return c.errChanged()
		}
		c.kinds = append(c.kinds, *k)
	}
	c.used, c.total = t.used, t.rows
	return nil
}

func (c *csvReader) errChanged() error { return fmt.Errorf("%s changed while it was read", c.name) }

func openCSV(file *os.File, path string, gz bool, how Options) (*csvReader, error) {
	c := &csvReader{name: path, file: file, how: how, always: map[string]bool{"": true}, used: map[string]bool{}}
	c.setOptions()
	if err := c.setText(gz); err != nil {
		return nil, err
	}
	if err := c.findDelimiter(); err != nil {
		return nil, err
	}
	header, err := c.start()
	if err != nil {
		return nil, err
	}
	if err := c.checkHeader(header); err != nil {
		return nil, err
	}
	if err := c.setTypes(header); err != nil {
		return nil, err
	}
	c.setSchema(header)
	_, err = c.start()
	return c, err
}

// setOptions sets what depends on the options alone.
func (c *csvReader) setOptions() {
	if c.how.Decimal == 0 {
		c.how.Decimal = '.'
	}
	for _, word := range c.how.Missing {
		c.always[word] = true
		plain, _, _ := number.Scan(word, c.how.Decimal)
		c.numbers = c.numbers || plain != number.None
	}
	if c.how.Delimiter == 0 && c.how.Format == "tsv" {
		c.how.Delimiter = '\t'
	} else if c.how.Delimiter == 0 && c.how.Format == "" {
		c.how.Delimiter = tabDelimiter(c.name)
	}
}

// setText sets c.again, which opens the text from its start. The text of a pipe, which can be read only once, is kept
// in memory.
func (c *csvReader) setText(gz bool) error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	var held []byte
	if !info.Mode().IsRegular() {
		if held, err = io.ReadAll(c.file); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	c.again = func() (*bufio.Reader, error) {
		var in io.Reader = bytes.NewReader(held)
		if held == nil {
			in = io.NewSectionReader(c.file, 0, math.MaxInt64)
		}
		b := bufio.NewReaderSize(in, csvBuffer)
		if gz {
			z, err := gzip.NewReader(b)
			if err != nil {
				return nil, c.explain(err)
			}
			b = bufio.NewReaderSize(z, csvBuffer)
			head, _ := b.Peek(64) // the read reports an error
			if err := CheckContent(head); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
			b.Discard(3)
		}
		return b, nil
	}
	return nil
}

// setTypes finds the types of the columns in the rows, or takes those of several files.
func (c *csvReader) setTypes(header []string) (err error) {
	if c.how.types != nil {
		err = c.use(c.how.types, header)
	} else {
		c.total, err = c.findTypes(len(header))
	}
	if err != nil {
		return err
	}
	for i, k := range c.kinds {
		if k.missing != "" && k.values > 0 && k.bools == k.values {
			return fmt.Errorf("%s: column %q has %q and %q, and --missing %s makes the second a missing value: leave the "+
				"word out of --missing", c.name, header[i], k.text, k.missing, k.missing)
		}
	}
	return nil
}

// setSchema sets the schema and what builds records of it.
func (c *csvReader) setSchema(header []string) {
	fields := make([]arrow.Field, len(header))
	for i, name := range header {
		fields[i] = arrow.Field{Name: name, Type: c.kinds[i].dataType(), Nullable: true}
		if c.total == 0 { // there are no rows, so any type fits; with numbers a model accepts the column
			fields[i].Type = arrow.PrimitiveTypes.Float64
		}
	}
	c.arrow = arrow.NewSchema(fields, nil)
	c.values = array.NewRecordBuilder(memory.DefaultAllocator, c.arrow)
	c.builders = c.values.Fields()
	c.batch = batchRows(len(fields))
}

// findDelimiter detects the delimiter from the header line: a comma if it has one, else the only other delimiter in it.
func (c *csvReader) findDelimiter() error {
	in, err := c.again()
	if err != nil {
		return err
	}
	const most = 1 << 16     // bytes of a header line that are looked at
	head, _ := in.Peek(most) // the read reports what is wrong
	line, _, ends := strings.Cut(string(head), "\n")
	line = strings.TrimRight(line, "\r")
	switch {
	case strings.HasPrefix(line, "\x1f\x8b"):
		return fmt.Errorf("%s: it was compressed twice: unpack it once (gunzip)", c.name)
	case strings.HasPrefix(line, "sep="):
		return fmt.Errorf("%s: line 1 is %q, which Excel alone reads: remove it", c.name, line)
	case !ends && strings.Contains(line, "\r"):
		return fmt.Errorf("%s: its lines end with a carriage return alone: write line feeds (tr '\\r' '\\n')", c.name)
	case !utf8.ValidString(line[:wholeRunes(line, ends || len(head) < most)]):
		return fmt.Errorf("%s: line 1 is not UTF-8: write the file as UTF-8 (iconv -f LATIN1 -t UTF-8, if that is its "+
			"encoding)", c.name)
	}
	c.comment = strings.HasPrefix(line, "#")
	if c.how.Delimiter == 0 {
		c.how.Delimiter = ','
		switch found := delimiterIn(line); {
		case strings.Contains(found, ","):
		case len(found) > 1:
			return fmt.Errorf("%s: line 1 could be delimited by %s or %s: set --delimiter", c.name,
				delimiterName(rune(found[0])), delimiterName(rune(found[1])))
		case found != "":
			c.how.Delimiter = rune(found[0])
		}
	}
	fields := strings.Split(line, string(c.how.Delimiter))
	c.spaces = len(fields) > 1 && c.how.Delimiter != '\t' &&
		!slices.ContainsFunc(fields[1:], func(s string) bool { return !strings.HasPrefix(s, " ") })
	if d := c.how.Decimal; !unicode.Is(unicode.Po, d) || d == '"' {
		return fmt.Errorf("%s: %q cannot be the decimal mark of numbers: give a point, a comma or another mark", c.name, d)
	}
	if c.how.Delimiter == c.how.Decimal {
		return fmt.Errorf("%s: the delimiter is %s, which cannot be the decimal mark too: set --delimiter",
			c.name, delimiterName(c.how.Decimal))
	}
	return nil
}

// wholeRunes returns the length of a line without a last character that is cut off, unless the line is complete.
func wholeRunes(line string, isComplete bool) int {
	for n := max(0, len(line)-utf8.UTFMax+1); n < len(line) && !isComplete; n++ {
		if !utf8.FullRuneInString(line[n:]) {
			return n
		}
	}
	return len(line)
}

// open starts to read the text.
func (c *csvReader) open() error {
	in, err := c.again()
	if err != nil {
		return err
	}
	c.rows = newCSVRecords(in, c.how.Delimiter, c.spaces)
	return nil
}

// start reads the first line and returns the header, or x0, x1, ... if there is none.
func (c *csvReader) start() ([]string, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	header, err := c.rows.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("%s is empty: the first line names the columns", c.name)
	}
	if err != nil {
		return nil, c.explain(err)
	}
	names := make([]string, len(header))
	for i := range header {
		names[i] = strings.TrimSpace(header[i])
		if c.how.NoHeader {
			names[i] = fmt.Sprintf("x%d", i)
		}
	}
	if c.how.NoHeader {
		return names, c.open()
	}
	return names, nil
}

func (c *csvReader) checkHeader(header []string) error {
	seen := map[string]int{}
	for i, name := range header {
		if name == "" && i > 0 && i == len(header)-1 {
			return fmt.Errorf("%s: line 1: column %d, the last, has no name: name it, or delete the delimiter at the end of "+
				"each line", c.name, i+1)
		}
		if name == "" {
			return fmt.Errorf("%s: line 1: column %d has no name: name it, or leave a row number out (pandas: "+
				"to_csv(..., index=False))", c.name, i+1)
		}
		if first, twice := seen[name]; twice {
			return fmt.Errorf("%s: line 1: columns %d and %d are both named %q: rename one, or use --no-header if the line "+
				"is a row", c.name, first+1, i+1, name)
		}
		if _, err := strconv.ParseInt(name, 10, 64); err != nil && !number.IsMissing(name) {
			if v, ok := number.Parse(name, c.how.Decimal); ok && !math.IsInf(v, 0) {
				return fmt.Errorf("%s: line 1 holds %s, so it seems to be a row: write the names of the columns before it, or "+
					"use --no-header, which names them x0, x1 and so on", c.name, name)
			}
		}
		seen[name] = i
	}
	return nil
}

func (c *csvReader) findTypes(columns int) (rows int, err error) {
	c.kinds = make([]columnKind, columns)
	step := batchRows(columns)
	for ; ; rows++ {
		if rows%step == 0 && c.how.Err != nil {
			if err := c.how.Err(); err != nil {
				return rows, err
			}
		}
		row, err := c.rows.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, c.explain(err)
		}
		for i, s := range row {
			word := strings.TrimSpace(s)
			plain, _, _ := number.Scan(word, c.how.Decimal)
			k := &c.kinds[i]
			if (plain == number.None || c.numbers) && c.always[word] {
				if word != "" {
					c.used[word] = true
					if _, ok := number.ParseBool(word); ok {
						k.missing = word
					}
				}
				continue
			}
			line := 0
			if k.textLine == 0 && plain == number.None {
				line = c.rows.line(i)
			}
			k.see(word, plain, c.how.Decimal, line)
		}
	}
}

func (c *csvReader) explain(err error) error {
	var p *csv.ParseError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the gzip data ends early: the file was cut off; copy it again", c.name)
	case !errors.As(err, &p):
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if errors.Is(p.Err, csv.ErrFieldCount) && c.comment {
		return fmt.Errorf("%s: line 1 begins with #, and the other lines have another number of fields: remove comments",
			c.name)
	}
	if errors.Is(p.Err, csv.ErrFieldCount) && c.rows.columns == 1 && c.how.Delimiter == ',' {
		return fmt.Errorf("%s: line %d has more fields than line 1, which has one: delete lines before the names of the "+
			"columns, or quote a field that holds a comma", c.name, p.Line)
	}
	if errors.Is(p.Err, csv.ErrFieldCount) {
		return fmt.Errorf("%s: line %d has another number of fields than the %d of the header: correct the line, or "+
			"quote a field that holds %s",
			c.name, p.Line, c.rows.columns, delimiterName(c.how.Delimiter))
	}
	return fmt.Errorf("%s: line %d, column %d: %v: a quote inside a quoted field is written twice", c.name, p.Line,
		p.Column, p.Err)
}

func (c *csvReader) schema() *arrow.Schema { return c.arrow }

func (c *csvReader) count() int64 { return int64(c.total) }

// why returns explanations of the text columns.
func (c *csvReader) why() map[string]textColumn {
	w := map[string]textColumn{}
	for i, k := range c.kinds {
		name := c.arrow.Field(i).Name
		switch {
		case k.values == 0:
			w[name] = textColumn{"it has no value", true}
		case k.ints == k.values && k.zeros > 0:
			w[name] = textColumn{"its numbers have leading zeros", true}
		case k.textLine > 0 && k.bools < k.values:
			fix := c.fix(k, name)
			w[name] = textColumn{fmt.Sprintf("line %d%s holds %q%s", k.textLine, k.textFile, k.text, fix),
				fix != "" || k.floats > 0}
		}
	}
	return w
}

// notes reports the words of Options.Missing that no field has.
func (c *csvReader) notes() (notes []string) {
	for _, word := range c.how.Missing {
		if !c.used[word] && c.total > 0 {
			notes = append(notes, fmt.Sprintf("%s: no field is %q: --missing lists words that mean a missing value", c.name,
				word))
		}
	}
	return notes
}

// fix returns the advice for a text in a column: the flag or the form that reads it as a number or, if most values are
// numbers, how to mark a missing value. A column of words needs none.
func (c *csvReader) fix(k columnKind, name string) string {
	plain := c.plain(k.text)
	_, isNumber := number.Parse(plain, c.how.Decimal)
	switch {
	case k.text == name:
		return "; it repeats the header: remove the line"
	case c.commaNumber(k.text) && c.how.Delimiter != ',':
		return "; --decimal , reads it as a number"
	case k.yesNo+k.bools == k.values:
		return "; a boolean is written true or false"
	case k.units > 0 && strings.HasSuffix(k.text, " "+k.unit) && 2*(k.units+k.floats) > k.values:
		return "; write the number without its unit: the name of the column can have it"
	case isNumber && plain != k.text:
		return fmt.Sprintf("; as a number it is written %s", plain)
	case 2*k.floats < k.values:
		return ""
	case strings.ContainsAny(k.text, `, '"$`) || !strconv.CanBackquote(k.text):
		return "; leave a missing value empty"
	}
	return fmt.Sprintf("; leave a missing value empty, or name the word: --missing %s", k.text)
}

// plain returns a number that has a currency, separators of thousands or another form as CSV has it. Where it has
// commas and points, the last is the decimal mark; a comma alone is that too, unless it can separate thousands: one to
// three digits come before, the first of which is not 0, and three after.
func (c *csvReader) plain(text string) string {
	text = strings.NewReplacer("'", "", " ", "", "\u00a0", "").Replace(strings.Trim(text, "$€£¥% "))
	isOctal := strings.HasPrefix(strings.TrimLeft(text, "+-"), "0") && !strings.ContainsAny(text, "xX") // to Go alone
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && !isOctal && strings.ContainsAny(text, "xX_") {
		return strconv.FormatInt(n, 10)
	}
	mark := strings.LastIndexAny(text, ",.")
	if mark < 0 || thousands.MatchString(text) {
		return strings.ReplaceAll(text, ",", "")
	}
	if strings.IndexByte(text, text[mark]) < mark { // such as a version, 1.5.1
		return text
	}
	decimal := "."
	if c.how.Decimal != 0 {
		decimal = string(c.how.Decimal)
	}
	return strings.NewReplacer(",", "", ".", "").Replace(text[:mark]) + decimal + text[mark+1:]
}

// thousands matches an integer with separators of thousands.
var thousands = regexp.MustCompile(`^[+-]?[1-9]\d{0,2}(,\d{3})+$`)

// commaNumber reports whether a text is a number with another decimal mark.
func (c *csvReader) commaNumber(text string) bool {
	_, ok := number.Parse(text, ',')
	return ok && c.how.Decimal == '.'
}

func (c *csvReader) next() (arrow.Record, error) {
	n := 0
	c.values.Reserve(c.batch)
	for ; n < c.batch; n++ {
		row, err := c.rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, c.explain(err)
		}
		for i, s := range row {
			if err := c.append(i, s); err != nil {
				return nil, err
			}
		}
	}
	if n == 0 {
		return nil, io.EOF
	}
	return c.values.NewRecord(), nil
}

func (c *csvReader) append(i int, s string) error {
	word := strings.TrimSpace(s)
	plain, v, exact := number.Scan(word, c.how.Decimal)
	if plain == number.None || c.numbers {
		_, isText := c.builders[i].(*array.StringBuilder)
		if c.always[word] || Missing(word) && (!isText || c.kinds[i].values == 0) {
			c.builders[i].AppendNull()
			return nil
		}
	}
	ok := true
	switch b := c.builders[i].(type) {
	case *array.Int64Builder:
		v, err := strconv.ParseInt(word, 10, 64)
		b.Append(v)
		ok = err == nil
	case *array.Float64Builder:
		if !exact {
			v, ok = number.Parse(word, c.how.Decimal)
		}
		b.Append(v)
	case *array.BooleanBuilder:
		var v bool
		v, ok = number.ParseBool(word)
		b.Append(v)
	case *array.StringBuilder:
		b.Append(s)
	}
	if !ok { // the first pass found that all values have this type
		return c.errChanged()
	}
	return nil
}

func (c *csvReader) close() error {
	c.values.Release()
	return c.file.Close()
}
