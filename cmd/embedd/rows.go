package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
)

// openData opens the argument of --data; "-" is the verb's standard input.
func openData(e *env, path string, how file.Options) (*file.Reader, error) {
	if path == "-" {
		return how.NewReader(e.stdin, "standard input")
	}
	return how.Open(path)
}

// csvFlags declares the flags that say how CSV is read.
func (f *flags) csvFlags(how *file.Options) {
	character := func(to *rune, names map[string]rune) func(string) error {
		return func(s string) error {
			r, ok := names[s]
			if runes := []rune(s); !ok && len(runes) == 1 {
				r, ok = runes[0], true
			}
			if !ok || strings.ContainsRune("\"\r\n\uFFFD", r) {
				return fmt.Errorf("want one character")
			}
			*to = r
			return nil
		}
	}
	f.Func("delimiter", "`CHARACTER` between the fields of CSV, or tab (default: a tab for .tsv, else what the header line has: a comma, or one of semicolon, tab and |)",
		character(&how.Delimiter, map[string]rune{"tab": '\t', `\t`: '\t'}))
	f.Func("decimal", "`CHARACTER` before the fraction of a CSV number (default a point)", character(&how.Decimal, nil))
	f.commasVar(&how.Missing, "missing", "`WORDS` of CSV that stand for no value in any column; NA, N/A, NaN, nan, null, NULL, None and nothing do among numbers anyway")
}

// rowsSpec says which rows of a file are read and what they hold.
type rowsSpec struct {
	path       string
	label, key string
	features   []string // names and globs; none: every numeric column but label and key
	nulls      string   // impute, reject or skip: rows with a null, NaN or infinity in a feature
	labelled   bool     // leave rows without a label out
	pinned     []string // feature elements of a model, in its order; nil: as features says
	how        file.Options
}

// dataFlags declares the flags of the verbs that read labelled rows.
func (f *flags) dataFlags(s *rowsSpec) {
	f.StringVar(&s.path, "data", "", "`FILE` of rows: .csv .csv.gz .tsv .parquet .arrow .arrows, or - for an Arrow IPC stream on standard input")
	f.StringVar(&s.label, "label", "", "`COLUMN` of the class: text, integers or booleans")
	f.StringVar(&s.key, "key", "", "`COLUMN` that names a row and is no feature")
	f.StringArrayVar(&s.features, "features", nil,
		"feature columns by name or `GLOB`, may be repeated (default every column of numbers, booleans among them, but label and key)")
	s.nulls = "impute"
	f.Func("nulls", "`POLICY` for rows with a missing or infinite feature: impute (the feature's mean), reject (an error), skip (default impute)", func(v string) error {
		if !slices.Contains([]string{"impute", "reject", "skip"}, v) {
			return fmt.Errorf("want impute, reject or skip")
		}
		s.nulls = v
		return nil
	})
	f.offer("nulls", "impute", "reject", "skip")
	f.csvFlags(&s.how)
}

// rows is a file in memory, ready for a fit.
type rows struct {
	model.Data
	name     string // of the file, without its folder
	imputed  int    // values that are not finite and became NaN
	affected int    // rows that hold them
	skipped  int    // rows left out because of them
	noLabel  int    // rows without a label: left out where spec.labelled, else kept
	faults   []fault
	columns  columns
}

// fault is a row with a feature that is no number.
type fault struct {
	row  int // of the rows
	line int // of the file's rows, from 1
	arrowio.Fault
}

// readRows reads a whole file. It says on stderr what it left out or filled in.
func readRows(ctx context.Context, e *env, s rowsSpec) (*rows, error) {
	s.how.Label = s.label
	in, err := openData(e, s.path, s.how)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := s.check(in.Schema()); err != nil {
		return nil, err
	}
	decoder, err := arrowio.NewDecoder(s.decoderSpec())
	if err != nil {
		return nil, usageError{err}
	}
	r := &rows{name: filepath.Base(s.path)}
	r.columns = columns{name: r.name, label: s.label, key: s.key, other: "numbers that are not asked for"}
	if s.pinned != nil {
		r.columns.other = "numbers that are not in the model"
	}
	labels := map[string]int{}
	show := newProgress(e)
	defer show.end()
	read := 0
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		msg, err := in.NextMessage()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		m, err := decoder.Decode(msg)
		if err != nil {
			return nil, explainBatch(err, in, s.path, read)
		}
		r.columns.see(m)
		for _, b := range m.Batches() {
			r.add(b, s, labels, read)
			read += b.Rows()
		}
		show.show(fmt.Sprintf("reading %s: %d rows", r.name, read), -1)
	}
	show.end()
	r.Features = decoder.Features()
	r.M = len(r.Features)
	if s.pinned == nil {
		r.leaveEmpty()
	}
	if err := r.settle(s); err != nil {
		return nil, err
	}
	if s.label != "" {
		r.sortClasses(labels)
	} else {
		r.Y = nil
	}
	r.tell(e, in, s, read)
	if r.N == 0 {
		return nil, fmt.Errorf("%s: no row is left of %d to work with", s.path, read)
	}
	return r, nil
}

func (s rowsSpec) decoderSpec() arrowio.Spec {
	features := s.features
	if len(features) == 0 {
		features = []string{"*"}
	}
	return arrowio.Spec{Features: features, Label: s.label, Key: s.key, Pinned: s.pinned, Limits: file.Limits()}
}

// check finds a misspelt column before any row is read: on the wire an absent label is no fault, in a file it is one.
func (s rowsSpec) check(schema *arrow.Schema) error {
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	for _, c := range []struct{ flag, column string }{{"label", s.label}, {"key", s.key}} {
		if c.column != "" && !slices.Contains(names, c.column) {
			return usagef("%s has no column %q for --%s%s: its columns are %s", s.path, c.column, c.flag,
				didYouMean(c.column, names), listed(names))
		}
	}
	return nil
}

// listed is at most a dozen names.
func listed(names []string) string {
	if len(names) > 12 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:12], ", "), len(names)-12)
	}
	return strings.Join(names, ", ")
}

// explainBatch says where in the file a batch is that arrowio refuses, and what of the file made it so.
func explainBatch(err error, in *file.Reader, path string, read int) error {
	var refused *arrowio.Error
	if errors.As(err, &refused) && refused.Code == wire.NotNumeric {
		if why, _ := in.NotNumeric(refused.Column); why != "" {
			return fmt.Errorf("%s: column %q is text where the model needs numbers: %s", path, refused.Column, why)
		}
	}
	if refused != nil && refused.Code == wire.MissingColumn && refused.Column == "*" {
		var have []string
		for _, f := range in.Schema().Fields() {
			have = append(have, fmt.Sprintf("%q (%s)", f.Name, f.Type.Name()))
		}
		return fmt.Errorf("%s has no column of numbers, or of lists of them, but label and key; it has %s: cast one",
			path, listed(have))
	}
	if read == 0 {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s, in the batch after row %d: %w", path, read, err)
}

// add copies a batch. before counts the rows of the file before it.
func (r *rows) add(b *arrowio.Batch, s rowsSpec, labels map[string]int, before int) {
	faults := b.Faults()
	for i := range b.Rows() {
		var found *arrowio.Fault
		if len(faults) > 0 && faults[0].Row == i {
			found, faults = &faults[0], faults[1:]
		}
		class := -1
		if s.label != "" {
			text, ok := b.Label(i)
			if ok {
				if class, ok = labels[text]; !ok {
					class = len(labels)
					labels[text] = class
				}
			} else {
				r.noLabel++
				if s.labelled {
					continue
				}
			}
		}
		from := len(r.X)
		for _, block := range b.Features() {
			r.X = appendRow(r.X, block, i)
		}
		if found != nil {
			r.faults = append(r.faults, fault{r.N, before + i + 1, *found})
			for j, v := range r.X[from:] {
				if math.IsInf(v, 0) {
					r.X[from+j] = math.NaN()
				}
			}
		}
		r.Y = append(r.Y, class)
		r.N++
	}
}

// leaveEmpty takes the columns out that have no number in any row: nothing can be learned from them, and a fit refuses
// them. Elements of lists stay, since a model's list has no gaps.
func (r *rows) leaveEmpty() {
	single := map[string]bool{}
	for _, f := range r.columns.fields {
		single[f.Name] = f.Feature && f.Holds == "number"
	}
	r.columns.empty = map[string]bool{}
	if r.N == 0 || len(r.faults) < r.N {
		return // a row has all
	}
	var kept []int
	for j, name := range r.Features {
		if single[name] && r.without(j) {
			r.columns.empty[name] = true
		} else {
			kept = append(kept, j)
		}
	}
	if len(kept) == r.M {
		return
	}
	x := r.X[:0]
	for i := range r.N {
		for _, j := range kept {
			x = append(x, r.X[i*r.M+j])
		}
	}
	var names []string
	for _, j := range kept {
		names = append(names, r.Features[j])
	}
	r.X, r.Features, r.M = x, names, len(kept)
}

// without tells whether no row has a number in column j.
func (r *rows) without(j int) bool {
	for i := range r.N {
		if !math.IsNaN(r.X[i*r.M+j]) {
			return false
		}
	}
	return true
}

// settle does with the rows in which a feature is missing what --nulls says.
func (r *rows) settle(s rowsSpec) error {
	out := map[int]bool{}
	for _, f := range r.faults {
		row := r.X[f.row*r.M : (f.row+1)*r.M]
		first := slices.IndexFunc(row, func(v float64) bool { return !arrowio.Held(v) })
		if first < 0 {
			continue // only a column that was left out
		}
		switch s.nulls {
		case "reject":
			what := f.What
			if f.Feature != r.Features[first] {
				what = "no number"
			}
			return fmt.Errorf("%s: row %d, feature %q: %s: mend the row, or give --nulls impute or --nulls skip", s.path,
				f.line, r.Features[first], what)
		case "skip":
			out[f.row] = true
		default:
			r.affected++
			for _, v := range row {
				if math.IsNaN(v) {
					r.imputed++
				}
			}
		}
	}
	if r.skipped = len(out); r.skipped == 0 {
		return nil
	}
	n := 0
	for i := range r.N {
		if !out[i] {
			copy(r.X[n*r.M:], r.X[i*r.M:(i+1)*r.M])
			r.Y[n] = r.Y[i]
			n++
		}
	}
	r.X, r.Y, r.N = r.X[:n*r.M], r.Y[:n], n
	return nil
}

func appendRow(dst []float64, b arrowio.Block, row int) []float64 {
	for j := range b.Cols {
		at := row*b.RowStride + j*b.ColStride
		if b.F64 != nil {
			dst = append(dst, b.F64[at])
		} else {
			dst = append(dst, float64(b.F32[at]))
		}
	}
	return dst
}

// sortClasses puts the classes in the order people expect, 2 before 10 and numbers before words, whatever order the
// rows have: the same rows in another order then name the same classes. A class of rows that were left out is none.
func (r *rows) sortClasses(labels map[string]int) {
	used := make([]bool, len(labels))
	for _, c := range r.Y {
		if c >= 0 {
			used[c] = true
		}
	}
	for name, c := range labels {
		if used[c] {
			r.Classes = append(r.Classes, name)
		}
	}
	slices.SortFunc(r.Classes, compareClasses)
	place := make([]int, len(labels))
	for i, name := range r.Classes {
		place[labels[name]] = i
	}
	for i, c := range r.Y {
		if c >= 0 {
			r.Y[i] = place[c]
		}
	}
}

func compareClasses(a, b string) int {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	switch {
	case errX == nil && errY == nil && x != y:
		return cmp.Compare(x, y)
	case errX == nil && errY != nil:
		return -1
	case errX != nil && errY == nil:
		return 1
	}
	return cmp.Compare(a, b)
}

func (r *rows) tell(e *env, in *file.Reader, s rowsSpec, read int) {
	tellFile(e, in)
	r.columns.tell(e, in, r.Features)
	for _, class := range r.Classes {
		if file.Missing(class) && class != "" {
			fmt.Fprintf(e.stderr, "embedd: note: %q is one of the classes: --missing %s makes it no label\n", class, class)
		}
	}
	if r.imputed > 0 {
		fmt.Fprintf(e.stderr, "embedd: note: %d of %d values are missing, in %d rows: each becomes its feature's mean (--nulls skip leaves the rows out)\n",
			r.imputed, r.N*r.M, r.affected)
	}
	if r.skipped > 0 {
		fmt.Fprintf(e.stderr, "embedd: note: %d of %d rows are left out, because a feature is missing\n",
			r.skipped, read)
	}
	if r.noLabel > 0 {
		fmt.Fprintf(e.stderr, "embedd: note: %d of %d rows have no %s\n", r.noLabel, read, s.label)
	}
}

// tellFile prints what of a file is not read.
func tellFile(e *env, in *file.Reader) {
	for _, n := range in.Notes() {
		fmt.Fprintf(e.stderr, "embedd: note: %s\n", n)
	}
}

// modelRows is a batch's features as a model reads them: the same memory under another type.
func modelRows(b *arrowio.Batch) model.Rows {
	blocks := b.Features()
	r := model.Rows{N: b.Rows(), Blocks: make([]model.Block, len(blocks))}
	for i, k := range blocks {
		r.Blocks[i] = model.Block(k)
	}
	return r
}
