package report

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// TableFlag is Flag with --wide, for a report that is a table of long lines.
func TableFlag(f *cli.Flags, e *cli.Env) *Output {
	o := Flag(f, e)
	f.BoolFunc("wide", "one line for each row of the report, however long", func(string) error {
		o.limit = 0
		return nil
	})
	return o
}

// defaultColumns is the width of reports that are not written to a terminal.
const defaultColumns = 100

func columnsOf(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return defaultColumns
}

// Table aligns columns. It writes nothing before Flush.
type Table struct {
	w     io.Writer
	limit int // columns of a line; 0: none
	rows  [][]string
	below map[int][]string // texts below a row
}

// NewTable returns a table without a header.
func NewTable(w io.Writer) *Table { return &Table{w: w, below: map[int][]string{}} }

// lineBreaks replaces the characters that would end a cell.
var lineBreaks = strings.NewReplacer("\n", " ", "\t", " ")

// Row adds a row of printable text. A cell is one text without line breaks and tabs, which become spaces.
func (t *Table) Row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cli.Printable(lineBreaks.Replace(fmt.Sprint(c)))
	}
	t.rows = append(t.rows, text)
}

// RowIf adds a row if there is something to report.
func (t *Table) RowIf(shown bool, cells ...any) {
	if shown {
		t.Row(cells...)
	}
}

// Below adds a text that is longer than a cell to the last row: in separate lines, or with --wide at the end of the
// row.
func (t *Table) Below(text string) {
	if text = cli.Printable(lineBreaks.Replace(text)); text != "" {
		at := len(t.rows) - 1
		t.below[at] = append(t.below[at], text)
	}
}

// gap separates columns.
const gap = "  "

// Flush writes the rows.
func (t *Table) Flush() error {
	widths := t.widths()
	var b strings.Builder
	for i, row := range t.rows {
		lines := make([][]string, len(row))
		height := 1
		for j, cell := range row {
			if lines[j] = []string{cell}; t.limit > 0 && j < len(widths) {
				lines[j] = wrap(cell, widths[j])
			}
			height = max(height, len(lines[j]))
		}
		for k := range height {
			line := ""
			for j := range row {
				part := ""
				if k < len(lines[j]) {
					part = lines[j][k]
				}
				line += part + strings.Repeat(" ", max(0, widths[j]-cells(part))) + gap
			}
			if t.limit == 0 {
				line += strings.Join(t.below[i], "; ")
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if t.limit > 0 {
			for _, text := range t.below[i] {
				b.WriteString(paragraph("    ", text, t.limit, 6))
			}
		}
	}
	t.rows = nil
	clear(t.below)
	_, err := io.WriteString(t.w, b.String())
	return err
}

// paragraph breaks a text into lines of at most width characters, the first after a lead, others after an indent. 0: no
// limit.
func paragraph(lead, text string, width, indent int) string {
	if width > 0 {
		text = strings.Join(wrap(text, max(minColumn, width-indent)), "\n"+strings.Repeat(" ", indent))
	}
	return lead + text + "\n"
}

// widths returns the widths of the columns, which fit the limit if there is one.
func (t *Table) widths() (widths []int) {
	columns := 0
	for _, row := range t.rows {
		columns = max(columns, len(row))
	}
	widths, least := make([]int, columns), make([]int, columns)
	for _, row := range t.rows {
		for j, cell := range row {
			if j == len(row)-1 && len(row) < columns {
				continue // what ends a shorter row may be longer than its column
			}
			widths[j] = max(widths[j], cells(cell))
			for word := range strings.FieldsSeq(cell) {
				least[j] = max(least[j], min(maxWord, cells(word)))
			}
		}
	}
	if t.limit > 0 {
		narrow(widths, least, t.limit)
		narrow(widths, slices.Repeat([]int{minColumn}, columns), t.limit)
	}
	return widths
}

const (
	minColumn = 6  // the width to which a column of long words may be narrowed
	maxWord   = 24 // longer words are broken before other columns become narrower
)

// narrow takes from the columns that are furthest above their least width until a line fits the limit.
func narrow(widths, least []int, limit int) {
	for {
		sum, at := len(gap)*(len(widths)-1), 0
		for j, w := range widths {
			if sum += w; w-least[j] > widths[at]-least[at] {
				at = j
			}
		}
		if sum <= limit || widths[at] <= least[at] {
			return
		}
		widths[at]--
	}
}

// wrap breaks a text into lines of at most width cells, between words where it can. One that fits stays as it is.
func wrap(text string, width int) (lines []string) {
	if cells(text) <= width {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Fields(text) {
		for first := true; first || word != ""; first = false {
			room := width - cells(line)
			if line != "" {
				room--
			}
			switch n := cells(word); {
			case n <= room && line != "":
				line, word = line+" "+word, ""
			case n <= room:
				line, word = word, ""
			case line != "":
				lines, line = append(lines, line), ""
			default: // a word that no line has room for
				at := 0
				for at < len(word) {
					_, n := utf8.DecodeRuneInString(word[at:])
					if at > 0 && cells(word[:at+n]) > width {
						break
					}
					at += n
				}
				if dash := strings.LastIndexAny(word[:at], "-,") + 1; dash > 1 {
					at = dash
				}
				lines, word = append(lines, word[:at]), word[at:]
			}
		}
	}
	if line != "" || lines == nil {
		lines = append(lines, line)
	}
	return lines
}

// cells is the number of cells of a terminal that a text takes: East Asian characters take two, and marks that combine
// with the one before them none.
func cells(text string) (n int) {
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
