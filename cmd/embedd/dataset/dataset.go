// Package dataset reads files of rows for the verbs that learn from them, and explains which columns are features.
package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/memory"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
)

// maxBuffered is the size of the rows that are kept in memory if more may be kept in a file.
const maxBuffered = 16 << 20

// Rows is a file in memory, ready for a fit.
type Rows struct {
	model.Data
	Name  string // of the file, without its directory
	Nulls string // what became of rows with a missing feature
	// Categories and Dates are those of the Spec.
	Categories, Dates []string
	Skipped           int // rows left out because a feature is not finite

	imputed  int // values that are not finite and became NaN
	affected int // rows with such values
	noLabel  int // rows without a label: left out with Spec.Labelled, else kept
	faults   []fault
	columns  Columns
	spool    *spool // of the rows before X; nil: none
}

// Close removes the file of stored rows.
func (r *Rows) Close() {
	if r.spool != nil {
		r.spool.close()
	}
}

// fault is a row with a feature that is not a finite number.
type fault struct {
	row  int // in Rows
	line int // row of the file, from 1
	arrowio.Fault
}

// reading is the read of a file into rows.
type reading struct {
	*Rows
	spec     Spec
	in       *file.Reader
	labels   map[string]int // numbers of the classes, in the order of their first rows
	fileRows int
	unseen   int // values of categories that the fit did not see
}

// Read reads a whole file. It prints notes on stderr about what it left out or imputed.
func Read(ctx context.Context, e *cli.Env, s Spec) (_ *Rows, err error) {
	s.File.Label, s.File.Categories, s.Nulls = s.Label, s.Categories, cmp.Or(s.Nulls, "impute")
	if s.ModelFeatures == nil && len(s.Categories) > 0 && s.Path == "-" {
		return nil, cli.Usagef("--categories reads the rows twice, and standard input can be read once: name a file with " +
			"--data")
	}
	in, err := files.Open(ctx, e, s.Path, s.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := s.Check(in.Schema()); err != nil {
		return nil, err
	}
	s.Features = splitNames(s.Features, in.Schema())
	if err := s.encode(ctx, e, in.Schema()); err != nil {
		return nil, err
	}
	r := &reading{spec: s, in: in, labels: map[string]int{}, Rows: &Rows{Name: files.Base(s.Path), Nulls: s.Nulls,
		Categories: s.Categories, Dates: s.Dates}}
	r.columns = Columns{Name: r.Name, Label: s.Label, Key: s.Key, Other: "numbers that --features does not select",
		empty: map[string]bool{}, index: map[string]string{}}
	if s.ModelFeatures != nil {
		r.columns.Other = "numbers that are not in the model"
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := r.readAll(ctx, e); err != nil {
		return nil, err
	}
	if err := r.clean(e); err != nil {
		return nil, err
	}
	r.note(e)
	if r.M == 0 {
		return nil, fmt.Errorf("%s: no feature is left: correct a column that the notes name, or name features with "+
			"--features", s.Path)
	}
	if r.N == 0 {
		return nil, fmt.Errorf("%s: none of the %d rows can be used: fill the label and a feature, or leave out --nulls skip",
			s.Path, r.fileRows)
	}
	return r.Rows, nil
}

// readAll reads all batches of the file, and shows the progress.
func (r *reading) readAll(ctx context.Context, e *cli.Env) error {
	decoder, contract, err := r.spec.Decoder()
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if r.spec.CanSpool {
		memory.HoldRows(8 * maxBuffered) // batches are read and written one after the other, and become garbage
	}
	show, begin := report.NewProgress(e), time.Now()
	defer show.End()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		msg, err := r.in.NextMessage()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		m, err := decoder.Decode(msg, contract)
		if err != nil {
			return ExplainBatch(err, r.in, r.spec.Path, r.fileRows, r.spec.Features)
		}
		contract = m.Contract() // all batches of a file have the columns of the first
		if err := r.addBatch(m); err != nil {
			return err
		}
		show.Show(progressOf(r.Name, int64(r.fileRows), r.in.Rows(), time.Since(begin)))
	}
	r.Features = contract.Elements()
	r.M = len(r.Features)
	return r.endStore()
}

// addBatch copies the rows of a message, and releases it.
func (r *reading) addBatch(m *arrowio.Message) error {
	features := len(m.Contract().Elements())
	if r.fileRows == 0 {
		r.M = features
		r.reserve()
	}
	r.unseen += m.Unseen()
	r.columns.See(m)
	if r.spec.CanSpool {
		r.X = slices.Grow(r.X, m.Rows()*features)
	}
	for _, b := range m.Batches() {
		if err := r.add(b); err != nil {
			return err
		}
		r.fileRows += b.Rows()
	}
	m.Release()
	if r.spec.CanSpool && (r.spool != nil || 8*len(r.X) > maxBuffered) {
		return r.store()
	}
	return nil
}

// clean drops columns without information, applies --nulls, and orders the classes.
func (r *reading) clean(e *cli.Env) error {
	if r.spec.ModelFeatures == nil {
		r.dropEmpty()
	}
	if r.spec.ModelFeatures == nil && len(r.spec.Features) == 0 {
		if err := r.dropIndexes(e); err != nil {
			return err
		}
	}
	if err := r.applyNulls(); err != nil {
		return err
	}
	if r.spec.Label != "" {
		r.sortClasses(r.labels)
	} else {
		r.Y = nil
	}
	if r.fileRows == 0 {
		return fmt.Errorf("%s has the names of columns and no rows: write a row in each line after them", r.spec.Path)
	}
	return nil
}

// maxReserved is the maximum number of values for which memory is reserved, in a byte of a file: a small file may say
// that it has any number of rows.
const maxReserved = 64

// reserve allocates for the number of rows in the file's metadata, so that they are not copied while they grow.
func (r *reading) reserve() {
	n := max(0, int(min(r.in.Rows(), maxReserved*r.in.Size()/int64(max(r.M, 1)))))
	held := n * r.M
	if r.spec.CanSpool && held > maxBuffered/8 {
		held = 0 // it will not stay in memory
	}
	r.X, r.Y = make([]float64, 0, held), make([]int, 0, n)
	memory.HoldRows(8 * int64(cap(r.X)))
}

// store moves the rows in memory to the file.
func (r *Rows) store() (err error) {
	if r.spool == nil {
		if r.spool, err = newSpool(r.M); err != nil {
			return err
		}
	}
	err = r.spool.write(r.X)
	if r.X = r.X[:0]; 8*cap(r.X) > maxBuffered {
		r.X = nil
	}
	return err
}

// endStore ends the reading of rows. Rows with a missing value are changed or left out, which is done in memory.
func (r *Rows) endStore() error {
	if r.spool == nil {
		return nil
	}
	if err := r.store(); err != nil {
		return err
	}
	r.X, r.spool.bytes = nil, nil
	if len(r.faults) == 0 {
		r.Stored = r.spool
		return nil
	}
	r.X = make([]float64, r.N*r.M)
	memory.HoldRows(8 * int64(len(r.X)))
	return r.spool.ReadRows(r.X, 0)
}

// ExplainBatch adds to an error of arrowio which batch of the file was refused, and why. asked are the names of
// --features.
func ExplainBatch(err error, in *file.Reader, path string, read int, asked []string) error {
	refused, ok := errors.AsType[*arrowio.Error](err)
	if ok && refused.Code == wire.NotNumeric {
		if why, _ := in.NotNumeric(refused.Column); why != "" {
			return fmt.Errorf("%s: column %q is text where the model needs numbers: %s", path, refused.Column, why)
		}
	}
	var have []string
	for _, f := range in.Schema().Fields() {
		why, _ := in.NotNumeric(f.Name)
		have = append(have, fmt.Sprintf("%q (%s)", f.Name, cmp.Or(why, f.Type.Name())))
	}
	names := ColumnNames(in.Schema())
	if refused != nil && refused.Code == wire.MissingColumn && refused.Column == "*" {
		return fmt.Errorf("%s has no column of numbers, or of lists of them, but label and key; it has %s: write one as "+
			"numbers", path, cli.Listed(have))
	}
	if refused != nil && refused.Code == wire.MissingColumn {
		hint := cli.DidYouMean(refused.Column, names)
		for _, mark := range []string{"..", ":", "-"} {
			from, to, _ := strings.Cut(refused.Column, mark)
			if slices.Contains(asked, refused.Column) && slices.Contains(names, from) && slices.Contains(names, to) {
				hint = ", and ranges are not read: name each, with commas between them, or use a glob such as 'x*'"
			}
		}
		err := fmt.Errorf("%s has no column %q for a feature%s: its columns are %s", path, refused.Column, hint,
			cli.Listed(names))
		if slices.Contains(asked, refused.Column) {
			return cli.Usagef("%w", err)
		}
		return err // of a model
	}
	if refused != nil && refused.Code == wire.SchemaChanged {
		refused.Hint = "write all rows of the file with the same columns"
	}
	path, row := in.Place(read + 1)
	if row == 1 {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s, in the batch after row %d: %w", path, row-1, err)
}

// add copies a batch.
func (r *reading) add(b *arrowio.Batch) error {
	faults := b.Faults()
	for i := range b.Rows() {
		var found *arrowio.Fault
		if len(faults) > 0 && faults[0].Row == i {
			found, faults = &faults[0], faults[1:]
		}
		class := r.classOf(b, i)
		if class < 0 && r.spec.Label != "" {
			r.noLabel++
			if r.spec.Labelled {
				continue
			}
		}
		from := len(r.X)
		for _, block := range b.Features() {
			r.X = appendRow(r.X, block, i)
		}
		if found != nil && found.Code != "" {
			path, row := r.in.Place(r.fileRows + i + 1)
			return fmt.Errorf("%s: row %d, column %q: %s: fix the row, or leave the column out", path, row, found.Feature,
				found.What)
		}
		if found != nil {
			r.faults = append(r.faults, fault{r.N, r.fileRows + i + 1, *found})
			for j, v := range r.X[from:] {
				if !arrowio.FitsFloat32(v) {
					r.X[from+j] = math.NaN() // as a pipeline does
				}
			}
		}
		r.Y = append(r.Y, class)
		r.N++
	}
	return nil
}

// dropEmpty removes the columns without a number in any row: a fit refuses them. Elements of lists stay, since the list
// of a model has no gaps.
func (r *Rows) dropEmpty() {
	single := r.columns.numberColumns()
	if r.N == 0 || len(r.faults) < r.N {
		return // some row is complete
	}
	r.keepColumns(func(j int) bool {
		r.columns.empty[r.Features[j]] = single[r.Features[j]] && r.isEmpty(j)
		return !r.columns.empty[r.Features[j]]
	})
}

// keepColumns removes all columns but those for which isKept returns true.
func (r *Rows) keepColumns(isKept func(j int) bool) {
	var kept []int
	var names []string
	for j, name := range r.Features {
		if isKept(j) {
			kept, names = append(kept, j), append(names, name)
		}
	}
	if len(kept) == r.M {
		return
	}
	if r.Stored != nil {
		r.spool.columns, r.Features, r.M = kept, names, len(kept)
		return
	}
	x := r.X[:0]
	for i := range r.N {
		for _, j := range kept {
			x = append(x, r.X[i*r.M+j])
		}
	}
	r.X, r.Features, r.M = x, names, len(kept)
}

// isEmpty reports whether no row has a number in column j.
func (r *Rows) isEmpty(j int) bool {
	for i := range r.N {
		if !math.IsNaN(r.X[i*r.M+j]) {
			return false
		}
	}
	return true
}

// applyNulls applies --nulls to the rows with a missing feature.
func (r *reading) applyNulls() error {
	out := map[int]bool{}
	for _, f := range r.faults {
		row := r.X[f.row*r.M : (f.row+1)*r.M]
		first := slices.IndexFunc(row, func(v float64) bool { return !arrowio.FitsFloat32(v) })
		if first < 0 {
			continue // only in a column that dropEmpty removed
		}
		switch r.Nulls {
		case "reject":
			what := f.What
			if f.Feature != r.Features[first] {
				what = "not a number"
			}
			path, row := r.in.Place(f.line)
			return fmt.Errorf("%s: row %d, feature %q: %s: fix the row, or use --nulls impute or --nulls skip", path, row,
				r.Features[first], what)
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
	if r.Skipped = len(out); r.Skipped == 0 {
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
		dst = append(dst, b.At(row, j))
	}
	return dst
}

// note prints what was left out or imputed.
func (r *reading) note(e *cli.Env) {
	NoteFile(e, r.in)
	r.columns.Note(e, r.in, r.Features)
	plain, alike, first := map[string]string{}, 0, ""
	for _, class := range r.Classes {
		e.NoteIf(file.Missing(class) && class != "", "%q is one of the classes: with --missing %s it is a missing label",
			class, class)
		key := strings.ToLower(strings.TrimSpace(class))
		if other, twice := plain[key]; twice {
			if alike++; alike == 1 {
				first = fmt.Sprintf("%q and %q are two classes", other, class)
			}
		}
		plain[key] = class
	}
	if alike > 1 {
		first += fmt.Sprintf(", and so are %d other pairs that look alike", alike-1)
	}
	e.NoteIf(alike > 0, "%s: write both in the same way if they are one", first)
	e.NoteIf(r.isSorted(), "%s: rows are sorted by %q: this does not matter here, but to a pipeline; publish the file "+
		"with --shuffle", r.Name, r.spec.Label)
	e.NoteIf(r.imputed > 0, "%d of %d values are missing, in %d rows: each becomes its feature's mean (--nulls skip "+
		"leaves the rows out)", r.imputed, r.N*r.M, r.affected)
	e.NoteIf(r.Skipped > 0, "%d of %d rows are left out, because a feature is missing", r.Skipped, r.fileRows)
	e.NoteIf(r.noLabel > 0, "%d of %d rows have no %s", r.noLabel, r.fileRows, r.spec.Label)
	NoteUnseen(e, r.unseen)
}

// NoteFile prints which parts of a file are not read.
func NoteFile(e *cli.Env, in *file.Reader) {
	for _, n := range in.Notes() {
		e.Notef("%s", n)
	}
}
