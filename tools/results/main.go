// Command results runs experiments of the papers behind the methods and writes what came out into
// docs/evidence/results.md, each figure beside the paper's, with pictures in docs/evidence/results:
//
//	go run ./tools/results -data DIR [-only usps,uci] [-repeats 20]
//
// DIR holds NAME.csv.gz, features x0..xN and then label. A section that is not run, or whose data are missing, is
// left as it stands. An interrupt ends a section of repeats with those that are done.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// section is one experiment. run writes its text, without the heading.
type section struct {
	name  string
	title string
	data  []string // files that it reads, NAME of NAME.csv.gz
	run   func(context.Context, *bench, *bytes.Buffer) error
}

var sections = []section{
	{"usps", "USPS: even against odd, 0-4 against 5-9", []string{"usps"}, usps},
	{"fields", "USPS: parallel fields", []string{"usps"}, fields},
	{"uci", "Signed Laplacian embedding over d", []string{"breastcancer_wbc", "musk", "waveform", "wine"}, uci},
	{"learned", "Learned similarity against the best graph", learnedSets, learned},
	{"curve", "Curves on a line", nil, curve},
	{"outlier", "One outlier", nil, outlier},
	{"roll", "Swiss roll, unrolled", nil, swissRoll},
	{"halves", "Swiss roll, two classes", nil, halves},
	{"memory", "Memory of tangent spaces", []string{"digits", "vowel"}, memory},
	{"auto", "The choice of auto", choiceSets, choice},
}

const preamble = `# Results

Experiments of the papers that can be run with data at hand, each with the paper's figure beside ours.
` + "`go run ./tools/results -data DIR`" + ` writes this page;
each section names its own command. DIR holds NAME.csv.gz with columns x0..xN and label;
[docs/methods.md](../methods.md) names the papers. Small differences are noise: other
data files, other splits.

iris, wine, sonar, glass, zoo, vowel, digits, musk (version 1) and breastcancer_wbc (Breast Cancer Wisconsin,
original) come from the UCI Machine Learning Repository, CC BY 4.0. usps is the
public research set of the USPS digits (LeCun et al.; Hull 1994), 9298 images of 16 x 16 pixels in 0..1. waveform is
made by Breiman's generator; the curves and the other manifolds are made by
the command itself. The repository ships iris, wine and vowel in ` + "`model/internal/fixture/testdata`" + `,
breastcancer_wbc in ` + "`cmd/embedd/testdata`" + ` and digits in ` + "`cmd/embedd/data`" + `. The others are for you to
put into DIR: a section whose data are missing is left as it stands.

The usps section takes about 30 minutes of processor time, uci about 10, and the others some minutes in all.
`

// bench is what the sections share.
type bench struct {
	data    string // folder of the data
	out     string // folder of the pictures
	repeats int    // most repeats of a section
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func main() {
	b := &bench{}
	page := flag.String("o", "docs/evidence/results.md", "page to `write`; pictures go into the folder of its name")
	only := flag.String("only", "", "`sections` to run, with commas between them (default all)")
	flag.StringVar(&b.data, "data", "", "`folder` of NAME.csv.gz")
	flag.IntVar(&b.repeats, "repeats", usualRepeats, "most `repeats` of a section")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b.out = strings.TrimSuffix(*page, ".md")
	if err := run(ctx, b, *page, *only); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b *bench, page, only string) error {
	names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	for _, name := range names {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			return fmt.Errorf("no section %q", name)
		}
	}
	if err := os.MkdirAll(b.out, 0o777); err != nil {
		return err
	}
	for _, s := range sections {
		if ctx.Err() != nil || len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		var text bytes.Buffer
		b.say("%s", s.title)
		if missing := b.missing(s.data); missing != "" {
			b.say("%s is not there: the section is left as it is", missing)
			continue
		}
		if err := s.run(ctx, b, &text); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(&text, "\n%s\n", s.command(b.repeats))
		if err := insert(page, s, strings.TrimSpace(text.String())); err != nil {
			return err
		}
	}
	return nil
}

// missing is the first file that is not there.
func (b *bench) missing(names []string) string {
	for _, name := range names {
		path := filepath.Join(b.data, name+".csv.gz")
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
	return ""
}

// insert puts the text of a section in its place on the page, and leaves the other sections as they are.
func insert(page string, s section, text string) error {
	old, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(page, []byte(assemble(string(old), s, text)), 0o666)
}

// assemble is the page with the section's text replaced or added, in the order of sections.
func assemble(page string, s section, text string) string {
	texts := map[string]string{}
	for _, part := range strings.Split("\n"+page, "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		texts[title] = strings.TrimSpace(body)
	}
	texts[s.title] = text
	whole := preamble
	for _, s := range sections {
		body, ok := texts[s.title]
		if !ok {
			body = "Not run yet.\n\n" + s.command(usualRepeats)
		}
		whole += fmt.Sprintf("\n## %s\n\n%s\n", s.title, body)
	}
	return whole
}

// usualRepeats is the number of repeats where none is asked for.
const usualRepeats = 20

// command is the line that makes the section.
func (s section) command(repeats int) string {
	line := "go run ./tools/results -data DIR -only " + s.name
	if repeats != usualRepeats {
		line += fmt.Sprintf(" -repeats %d", repeats)
	}
	return "`" + line + "`"
}
