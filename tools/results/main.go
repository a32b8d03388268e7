// Command results runs experiments of the papers of the methods and writes their tables into docs/evidence/results.md,
// and pictures into docs/evidence/results:
//
//	go run ./tools/results -data DIR [-only usps,uci] [-row musk] [-repeats 20]
//
// DIR holds NAME.csv.gz, features x0..xN and then label; the repository has the small ones. The text between the tables
// is written by hand. Sections that are not run, or whose data are missing, are not changed. With -row the rows of the
// section with this first cell are printed, and with another number of repeats all tables; then no file is written.
//
// With -first and -second it compares two commands on the same splits into halves, and prints a table:
//
//	go run ./tools/results -first "./old --nonlinear" -second "./new --nonlinear" -repeats 10 [-sets iris,glass]
//
// Each is a program of embedd and flags of its verb fit.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

// section is an experiment, and its section of the page. run writes the tables, with an empty line between two.
type section struct {
	name  string
	title string
	data  []string // data sets, NAME of NAME.csv.gz
	run   func(context.Context, *bench, *bytes.Buffer) error

	rows   []string // first cells of rows that can be computed alone; the data sets if nil
	varies bool     // its rows have times or memory, which differ from run to run
}

var sections = []section{
	{name: "usps", title: "USPS: even against odd, 0-4 against 5-9", data: []string{"usps"}, run: usps,
		rows: namesOf(contenders)},
	{name: "fields", title: "USPS: parallel fields", data: []string{"usps"}, run: fields},
	{name: "mpda", title: "MPDA over d", data: fewSets, run: mpdaFew},
	{name: "dawge", title: "DAWGE with few rows of a class", data: fewSets, run: dawge},
	{name: "smpa", title: "SMPA with few rows of a class", data: fewSets, run: smpa},
	{name: "uci", title: "Signed Laplacian embedding over d", run: uci,
		data: []string{"breastcancer_wbc", "musk", "waveform", "wine"}},
	{name: "slefew", title: "SLE with few rows of a class", data: fewSets, run: sleFew},
	{name: "learned", title: "Learned similarity against the best graph", data: learnedSets, run: learned},
	{name: "lppnews", title: "Linear maps of a learned similarity", data: fewSets, run: lppnews},
	{name: "curve", title: "Curves on a line", run: curve},
	{name: "outlier", title: "One outlier", run: outlier, rows: []string{"helix", "two peaks"}},
	{name: "spread", title: "Outputs that show few rows", data: spreadSets, run: spread},
	{name: "roll", title: "Swiss roll, unrolled", run: swissRoll, varies: true},
	{name: "halves", title: "Swiss roll, two classes", run: halves},
	{name: "memory", title: "Memory of tangent spaces", data: []string{"digits", "vowel"}, run: memory, varies: true},
	{name: "auto", title: "The choice of auto", data: choiceSets, run: choice, varies: true},
	{name: "two", title: "Two outputs of auto", data: choiceSets, run: two},
}

func main() {
	b := &bench{}
	page := flag.String("o", "docs/evidence/results.md", "`page` whose tables are replaced; pictures go into the folder "+
		"of its name")
	only := flag.String("only", "", "`sections` to run, with commas between them (default all)")
	flag.StringVar(&b.data, "data", "", "`folder` of NAME.csv.gz")
	flag.IntVar(&b.repeats, "repeats", usualRepeats, "most `repeats` of a section")
	flag.StringVar(&b.row, "row", "", "print the rows whose first `cell` is this, and write nothing")
	first := flag.String("first", "", "`command` to compare with -second: a program and flags of its verb fit")
	second := flag.String("second", "", "the other `command`")
	sets := flag.String("sets", strings.Join(smallSets, ","), "data `sets` on which they are compared")
	seed := flag.Uint64("seed", 1, "`seed` of the splits on which they are compared")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b.out = strings.TrimSuffix(*page, ".md")
	if *first != "" || *second != "" {
		v := versus{[2][]string{strings.Fields(*first), strings.Fields(*second)}, strings.Split(*sets, ","), b.repeats, *seed}
		if err := v.run(ctx, b, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "results:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, b, *page, *only); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b *bench, page, only string) error {
	names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	for _, name := range names {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			var all []string
			for _, s := range sections {
				all = append(all, s.name)
			}
			return fmt.Errorf("no section %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	if b.row != "" && len(names) != 1 {
		return fmt.Errorf("-row %q needs the section of the row: -only NAME", b.row)
	}
	if !b.printsOnly() {
		if err := os.MkdirAll(b.out, 0o777); err != nil {
			return err
		}
	}
	for _, s := range sections {
		if ctx.Err() != nil || len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		var text bytes.Buffer
		b.say("%s", s.title)
		b.separateRows = s.separateRows()
		if missing := b.missing(s.data); missing != "" {
			if b.row != "" {
				return fmt.Errorf("%s is missing; give its folder with -data", missing)
			}
			b.say("%s is missing: the section is not changed", missing)
			continue
		}
		if err := s.run(ctx, b, &text); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if b.row != "" {
			rows := rowsOf(text.String(), b.row)
			if len(rows) == 0 {
				return fmt.Errorf("section %s has no row %q", s.name, b.row)
			}
			fmt.Println(strings.Join(rows, "\n"))
			continue
		}
		if b.printsOnly() {
			fmt.Println(text.String())
		} else if err := replaceTables(page, s.title, text.String()); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf returns the lines of tables whose first cell is this one.
func rowsOf(text, cell string) (rows []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| "+cell+" |") {
			rows = append(rows, line)
		}
	}
	return rows
}

// replaceTables replaces the tables of a section on the page by new ones with the same headers.
func replaceTables(page, title, tables string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := withTables(string(old), title, tables)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(text), 0o666)
}

// withTables returns a page with new tables in a section. Each replaces the next table of the section with its header.
func withTables(page, title, tables string) (string, error) {
	before, section, after, err := sectionOf(page, title)
	if err != nil {
		return "", err
	}
	blocks, at := strings.Split(section, "\n\n"), 0
	for table := range strings.SplitSeq(strings.TrimSpace(tables), "\n\n") {
		header, _, _ := strings.Cut(table, "\n")
		for at < len(blocks) && !strings.HasPrefix(blocks[at], header+"\n") {
			at++
		}
		if at == len(blocks) {
			return "", fmt.Errorf("section %q has no further table with the header %s", title, header)
		}
		blocks[at] = table
		at++
	}
	return before + strings.Join(blocks, "\n\n") + after, nil
}

// sectionOf returns a section of a page, with its heading, and what is before and after it.
func sectionOf(page, title string) (before, section, after string, err error) {
	from := strings.Index(page, "\n## "+title+"\n")
	if from < 0 {
		return "", "", "", fmt.Errorf("there is no section %q", title)
	}
	to := len(page)
	if n := strings.Index(page[from+1:], "\n## "); n >= 0 {
		to = from + 1 + n
	}
	return page[:from], page[from:to], page[to:], nil
}

// separateRows returns the first cells of the rows that the section can compute without its others.
func (s section) separateRows() []string {
	if s.rows != nil {
		return s.rows
	}
	return s.data
}
