// Package file reads and writes tables of rows as CSV, Parquet and Arrow IPC, batch by batch. [Open] returns a [Reader]
// and [Create] a [Writer]; their zero values are not usable.
//
// The suffix of a path chooses the format:
//
//	.csv .csv.gz   CSV with a header line (gzip); .tsv and .tsv.gz are the same with tabs
//	.parquet       Parquet
//	.arrow         Arrow IPC file (random access, with a footer); .feather is the same
//	.arrows        Arrow IPC stream
//	.json .ndjson  JSON, as an array of objects or an object a line (.jsonl is the same); read only
//	-              Arrow IPC stream on standard input or output
//
// A batch travels in one of two forms: an arrow.Record, or a message, which is the same batch as one self-contained
// Arrow IPC stream (schema, dictionaries, one record batch), the form that package arrowio decodes and encodes. Between
// Arrow files and messages no value is interpreted and no column is rebuilt, so every Arrow type passes unchanged.
//
// Memory is bounded by a batch, and for CSV by 256 Ki values. Files are the user's own: lengths are checked against
// what is there before anything is allocated for Arrow files, and what panics inside a format's library becomes an
// error.
package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/embedd/embedd/arrowio"
)

type formatName int

const (
	csvFormat formatName = iota
	csvGzip
	parquetFormat
	arrowFile
	arrowStream
	jsonFormat
	linesFormat
)

// suffixes lists the file name suffixes that Open and Create accept.
var suffixes = []struct {
	end    string
	format formatName
}{
	{".csv", csvFormat}, {".csv.gz", csvGzip}, {".tsv", csvFormat}, {".tsv.gz", csvGzip},
	{".parquet", parquetFormat},
	{".arrow", arrowFile}, {".feather", arrowFile}, {".arrows", arrowStream},
	{".json", jsonFormat}, {".ndjson", linesFormat}, {".jsonl", linesFormat},
}

func formatOf(path string) (formatName, error) {
	lower := strings.ToLower(path)
	for _, s := range suffixes {
		if strings.HasSuffix(lower, s.end) {
			return s.format, nil
		}
	}
	return 0, fmt.Errorf("%s: its suffix is that of no format: %s", path, suffixFix(lower))
}

// suffixFix is what to do with a file of another suffix.
func suffixFix(path string) string {
	switch suffix := filepath.Ext(path); suffix {
	case ".xlsx", ".xls", ".ods", ".numbers":
		return "save the sheet as CSV"
	case ".bz2", ".xz", ".zst", ".zip", ".7z":
		return "unpack it first (of compressed files, only .csv.gz and .tsv.gz are read)"
	case ".npy", ".npz", ".h5", ".pkl", ".pickle", ".orc", ".avro", ".mat", ".sas7bdat":
		return "write the rows as .parquet, .arrow or .csv"
	}
	return "if it has rows, --input-format says how they are written: " + strings.Join(FormatNames(), ", ")
}

// tabDelimiter returns a tab if the suffix means tab-separated values, else 0.
func tabDelimiter(path string) rune {
	if strings.HasSuffix(strings.TrimSuffix(strings.ToLower(path), ".gz"), ".tsv") {
		return '\t'
	}
	return 0
}

// Limits returns the limits for batches of a file, which its user chose to open. They are wider than those for messages
// from the network.
func Limits() arrowio.Limits {
	return arrowio.Limits{Message: maxFrame, Body: 2 * maxFrame, Rows: 1<<31 - 1, Fields: 1 << 16, Metadata: 1 << 16}
}

// batchValues is the approximate number of values in a batch read from CSV or Parquet: large enough to amortize the
// cost of a batch, small enough for a cache.
const batchValues = 1 << 18

// batchRows returns the number of rows in a batch with this many columns.
func batchRows(columns int) int { return min(max(batchValues/max(columns, 1), 64), 8192) }

// source returns the batches of a file as records.
type source interface {
	schema() *arrow.Schema
	next() (arrow.Record, error) // io.EOF at the end
	count() int64                // rows, by the metadata of the file
	close() error
}

// Reader reads the rows of a file, or of several as one table. It is not safe for concurrent use.
type Reader struct {
	name     string
	schema   *arrow.Schema
	records  source   // CSV and Parquet
	messages *frames  // Arrow
	first    []byte   // the first message of messages, read ahead
	spooled  *os.File // the temporary file that it reads; nil: none
	label    int      // index of the label column if its numbers become integers, else -1
	check    *arrowio.Decoder
	notes    []string
	why      map[string]textColumn
	size     int64 // bytes of regular files
	err      error
}

// Open opens the file at path, or standard input for "-".
func Open(path string) (*Reader, error) { return Options{}.Open(path) }

// Open opens the file at path, or standard input for "-", with these options.
func (how Options) Open(path string) (*Reader, error) {
	if path == "-" {
		return how.NewReader(os.Stdin, "standard input")
	}
	f, err := how.formatOf(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := open(file, path, f, how)
	if err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

func open(file *os.File, path string, f formatName, how Options) (r *Reader, err error) {
	defer recoverTo(path, &err)
	if is, _ := recognise(headOf(file)); is == csvGzip && f == csvFormat && how.Format != "" {
		f = csvGzip
	}
	if err := looksLike(file, path, f); err != nil {
		return nil, err
	}
	r = &Reader{name: path}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		r.size = info.Size()
	}
	switch f {
	case csvFormat, csvGzip:
		c, err := openCSV(file, path, f == csvGzip, how)
		if err != nil {
			return nil, err
		}
		r.records, r.why, r.notes = c, c.why(), c.notes()
	case parquetFormat:
		p, err := openParquet(file, path)
		if err != nil {
			return nil, err
		}
		r.records, r.notes = p, p.notes
	case arrowFile:
		if r.messages, err = openArrowFile(file, path); err != nil {
			return nil, err
		}
	case arrowStream:
		if r.messages, err = openArrowStream(file, path, 0); err != nil {
			return nil, err
		}
		r.messages.closer = file
	case jsonFormat, linesFormat:
		if r.records, err = openJSON(file, path, f, how); err != nil {
			return nil, err
		}
	}
	return r, r.start(how.Label)
}

// NewReader returns a reader of rows in any of the formats, which it recognises by the first bytes. name identifies it
// in errors. All but an Arrow IPC stream is first copied to a temporary file. Close does not close in.
func NewReader(in io.Reader, name string) (*Reader, error) { return Options{}.NewReader(in, name) }

// NewReader returns a reader of rows with these options; see [NewReader].
func (how Options) NewReader(in io.Reader, name string) (*Reader, error) {
	b := bufio.NewReaderSize(in, 1<<16)
	head, _ := b.Peek(4) // the read reports an error
	if f, _ := recognise(head); f != arrowStream {
		head, _ = b.Peek(512) // more bytes are needed to recognise text; a stream may not have them yet
	}
	f, found := recognise(head)
	if how.Format != "" && len(head) > 0 {
		var err error
		if f, err = how.formatOf(name); err != nil {
			return nil, err
		}
		found = true
	}
	if found && f != arrowStream {
		file, err := spool(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r, err := open(file, name, f, how)
		if err != nil {
			removeTemporary(file)
			return nil, err
		}
		r.spooled = file
		return r, nil
	}
	m, err := openArrowStream(b, name, 0)
	if err != nil {
		return nil, err
	}
	r := &Reader{name: name, messages: m}
	return r, r.start(how.Label)
}

// spool copies in to a temporary file, which has no name where an open file can be removed.
func spool(in io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "embedd-*")
	if err != nil {
		return nil, fmt.Errorf("it is copied to a temporary file: %w: set TMPDIR to another folder", err)
	}
	os.Remove(file.Name())
	if _, err = io.Copy(file, in); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		removeTemporary(file)
		return nil, err
	}
	return file, nil
}

func (r *Reader) start(label string) (err error) {
	defer recoverTo(r.name, &err)
	defer func() {
		if err == nil {
			r.schema, r.label = integerLabelSchema(r.schema, label)
		}
	}()
	if r.messages == nil {
		r.schema = r.records.schema()
		return nil
	}
	if r.check, err = arrowio.NewDecoder(arrowio.Spec{Limits: Limits()}); err != nil {
		return err
	}
	// The schema comes from the first batch, because arrowio checks whole messages. That batch is returned first.
	if r.first, err = r.messages.next(); err == io.EOF {
		r.err = io.EOF
		r.schema, err = r.checkedSchema(r.messages.empty())
		return err
	}
	if err != nil {
		return err
	}
	r.schema, err = r.checkedSchema(r.first)
	return err
}

func (r *Reader) checkedSchema(msg []byte) (*arrow.Schema, error) {
	if _, err := r.check.Decode(msg, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	in, err := ipc.NewReader(bytes.NewReader(msg))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: cast the column to an older type before it is written (decimal128 in place of "+
			"decimal32 and decimal64)",
			r.name, err)
	}
	defer in.Release()
	return in.Schema(), nil
}

// message returns the next batch of an Arrow file or stream.
func (r *Reader) message() (msg []byte, err error) {
	if msg = r.first; msg != nil {
		r.first = nil
		return msg, nil
	}
	return r.messages.next()
}

// Schema returns the schema of all batches.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// Notes returns a sentence for each part of the file that is not read and why, such as Parquet columns of nested types,
// and for each of Options.Missing that no field has.
func (r *Reader) Notes() []string { return r.notes }

// Indexes returns the columns that pandas stored as the index of its rows, by the metadata of a Parquet or Arrow file.
func (r *Reader) Indexes() (columns []string) {
	meta := r.schema.Metadata()
	if at := meta.FindKey("pandas"); at >= 0 {
		return arrowio.IndexColumns([]byte(meta.Values()[at]))
	}
	return nil
}

// NotNumeric returns why a column of a CSV file is text: its first value that is not a number, with its line. doubtful
// reports whether the column may be meant as numbers: it has some, or no values. why is "" for other columns and
// formats.
func (r *Reader) NotNumeric(column string) (why string, doubtful bool) {
	t := r.why[column]
	return t.why, t.doubtful
}

type textColumn struct {
	why      string
	doubtful bool
}

// Rows returns how many rows a CSV or Parquet file declares; 0 for other formats, which declare none.
func (r *Reader) Rows() int64 {
	if r.records == nil {
		return 0
	}
	return r.records.count()
}

// Size returns the bytes of the files, 0 for what is no regular file.
func (r *Reader) Size() int64 { return r.size }

// Next returns the next batch, io.EOF after the last, os.ErrClosed after Close. The caller releases it.
func (r *Reader) Next() (rec arrow.Record, err error) {
	if r.err != nil {
		return nil, r.err
	}
	defer func() { r.err = err }()
	defer recoverTo(r.name, &err)
	if rec, err = r.record(); err != nil || r.label < 0 {
		return rec, err
	}
	defer rec.Release()
	whole, err := integerLabels(rec, r.label, r.schema)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	return whole, nil
}

// record returns the next batch as stored in the file.
func (r *Reader) record() (arrow.Record, error) {
	if r.messages == nil {
		return r.records.next()
	}
	msg, err := r.message()
	if err != nil {
		return nil, err
	}
	if _, err := r.check.Decode(msg, nil); err != nil {
		return nil, fmt.Errorf("%s: batch %d: %w", r.name, r.messages.batches, err)
	}
	_, recs, err := arrowio.Records(msg)
	if err != nil {
		return nil, fmt.Errorf("%s: batch %d: %w", r.name, r.messages.batches, err)
	}
	return recs[0], nil
}

// NextMessage returns the next batch as a self-contained Arrow IPC stream, io.EOF after the last. The caller owns the
// bytes. For Arrow files and streams only the frame of the batch is checked; arrowio.Decoder checks the rest.
func (r *Reader) NextMessage() ([]byte, error) {
	if r.messages != nil && r.label < 0 {
		if r.err != nil {
			return nil, r.err
		}
		msg, err := r.message()
		r.err = err
		return msg, err
	}
	rec, err := r.Next()
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return arrowio.FromRecords(r.schema, rec)
}

// Close closes the file.
func (r *Reader) Close() error {
	r.err = fmt.Errorf("%s: %w", r.name, os.ErrClosed)
	if r.spooled != nil {
		defer removeTemporary(r.spooled)
	}
	if r.messages != nil {
		return r.messages.close()
	}
	return r.records.close()
}

var (
	errSchema  = errors.New("the schema changes between batches: one file holds one schema")
	errNothing = errors.New("nothing was written, not even a schema")
)

// writeRecords writes records and releases them.
func writeRecords(recs []arrow.Record, write func(arrow.Record) error) error {
	for _, rec := range recs {
		err := write(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// sink writes the batches of one format. Its errors do not name the file.
type sink interface {
	write(msg []byte) error
	close() error // writes buffered rows and the end of the format; does not close the file
}

// Writer writes batches of one schema. It is not safe for concurrent use.
type Writer struct {
	name string
	sink sink
	file *Whole // nil if the caller owns the output
	done bool
}

// Create creates the file at path, or writes to standard output for "-". A regular file gets its name at Close: a
// failed run leaves no partial file and keeps an existing one.
func Create(path string) (*Writer, error) {
	if path == "-" {
		return NewWriter(os.Stdout, "standard output"), nil
	}
	f, err := formatOf(path)
	if err != nil || f == jsonFormat || f == linesFormat {
		return nil, fmt.Errorf("%s: the suffix says the format of the output: use .csv, .csv.gz, .tsv, .parquet, .arrow "+
			"(IPC file), .arrows (IPC stream), or - for an IPC stream", path)
	}
	out, err := CreateWhole(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{name: path, file: out}
	switch f {
	case csvFormat, csvGzip:
		w.sink = newCSVWriter(out, path, f == csvGzip)
	case parquetFormat:
		w.sink = &parquetWriter{out: out}
	case arrowFile:
		w.sink = &frameWriter{out: out, footer: true}
	case arrowStream:
		w.sink = &frameWriter{out: out}
	}
	return w, nil
}

// NewWriter returns a writer of an Arrow IPC stream to out, with one Write per batch. Close does not close out.
func NewWriter(out io.Writer, name string) *Writer {
	return &Writer{name: name, sink: &frameWriter{out: out}}
}

// Write writes one batch. All batches have the schema of the first. After Close or Discard the error is os.ErrClosed.
// Call Discard after an error: Close completes the file with the batches before.
func (w *Writer) Write(rec arrow.Record) error {
	if rec == nil {
		return w.named(errNothing)
	}
	msg, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		return w.named(err)
	}
	return w.WriteMessage(msg)
}

// WriteMessage writes the batches of a message that an arrowio.Decoder accepted or an arrowio.Encoder wrote. A message
// without batches only sets the schema. The writer does not keep msg.
func (w *Writer) WriteMessage(msg []byte) (err error) {
	if w.done {
		return w.named(os.ErrClosed)
	}
	defer recoverTo(w.name, &err)
	return w.named(w.sink.write(msg))
}

// named puts the name of the file before an error.
func (w *Writer) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", w.name, err)
}

// Close finishes the file and renames it to its path.
func (w *Writer) Close() (err error) {
	if w.done {
		return nil
	}
	defer w.Discard()
	defer recoverTo(w.name, &err)
	if err := w.sink.close(); err != nil {
		return w.named(err)
	}
	if w.file == nil {
		return nil
	}
	return w.named(w.file.Close())
}

// Discard removes what was written. After Close it does nothing.
func (w *Writer) Discard() {
	w.done = true
	if w.file != nil {
		w.file.Discard()
	}
}

// looksLike returns an error if the content clearly has another format than the file name.
func looksLike(file *os.File, path string, want formatName) error {
	head := headOf(file)
	switch is, marked := recognise(head); {
	case head == nil:
		return nil // not a regular file, so nothing can be read ahead
	case len(head) == 0:
		return fmt.Errorf("%s is empty: write the names of the columns in its first line, and rows after it", path)
	case isUTF16(head) && (want == csvFormat || want == csvGzip):
		return fmt.Errorf("%s: the content is UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)", path)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return fmt.Errorf("%s: the content is a ZIP archive, as XLSX is: unpack it, or save the sheet as CSV", path)
	case CheckContent(head) != nil:
		return fmt.Errorf("%s: %w", path, CheckContent(head))
	case marked && is != want && !is.isText():
		return fmt.Errorf("%s: the content is %s", path, contents[is])
	case want == csvGzip && is != csvGzip:
		return fmt.Errorf("%s: the content is not gzip: name it .csv if it is plain text", path)
	case want == csvFormat && (is == jsonFormat || is == linesFormat):
		return fmt.Errorf("%s: the content is JSON: name it .json, or .ndjson with an object a line", path)
	case !want.isText() && want != csvGzip && want != arrowStream && is != want:
		return fmt.Errorf("%s: the content is not the format of its name; it begins with %.12q: --input-format says "+
			"which it is", path, head)
	}
	return nil
}

// isText reports whether a format is text. The first bytes of a file do not distinguish these formats reliably.
func (f formatName) isText() bool { return f == csvFormat || f == jsonFormat || f == linesFormat }

// headOf returns the first bytes of a file, nil if it is not a regular one.
func headOf(file *os.File) []byte {
	head := make([]byte, 64)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return head[:n]
}

// contents is how to name a file of each format that is recognised by its first bytes.
var contents = map[formatName]string{
	arrowFile:     "an Arrow IPC file: name it .arrow",
	parquetFormat: "Parquet: name it .parquet",
	arrowStream:   "an Arrow IPC stream: name it .arrows",
	csvGzip:       "gzip: name it .csv.gz if it holds CSV, else unpack it",
}

// mark matches the beginning of a web page or of another document of tags.
var mark = regexp.MustCompile(`^(?i:\x{feff}?\s*<(!DOCTYPE|html|\?xml|table)\b)`)

// CheckContent returns an error if the first bytes of a file are a web page or a Git LFS pointer instead of data.
func CheckContent(head []byte) error {
	switch {
	case mark.Match(head):
		return errors.New("the content is HTML or XML, such as a page to log in: download the file itself, or save the " +
			"table as CSV")
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return errors.New("the content is a pointer of Git LFS, not the file: get it with git lfs pull")
	}
	return nil
}

// split is how an object of columns and data begins, as pandas writes it with orient="split", mostly in one line.
var split = regexp.MustCompile(`^\{\s*"(columns"\s*:\s*\["|index"\s*:\s*\[|data"\s*:\s*\[\s*\[)`)

// follows is where an object is followed by one in another line: no comma is between them.
var follows = regexp.MustCompile(`\}[ \t\r]*\n\s*\{`)

// recognise returns the format of content by its first bytes. Text is CSV unless it begins as JSON.
func recognise(head []byte) (f formatName, found bool) {
	switch {
	case bytes.HasPrefix(head, []byte("ARROW1")):
		return arrowFile, true
	case bytes.HasPrefix(head, []byte("PAR1")), bytes.HasPrefix(head, []byte("PARE")): // PARE: with an encrypted footer
		return parquetFormat, true
	case bytes.HasPrefix(head, []byte{0xff, 0xff, 0xff, 0xff}):
		return arrowStream, true
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return csvGzip, true
	}
	if text := bytes.TrimSpace(head); len(text) > 1 {
		inside := bytes.TrimSpace(text[1:]) // not empty: text does not end with white space
		space := text[1 : len(text)-len(inside)]
		switch {
		case split.Match(text) && !follows.Match(text):
			return jsonFormat, true
		case text[0] == '{' && inside[0] == '"' && !bytes.Contains(space, []byte{'\n'}):
			return linesFormat, true
		case text[0] == '{' && inside[0] == '"', text[0] == '[' && inside[0] == '{':
			return jsonFormat, true
		}
	}
	return csvFormat, len(head) > 0 && (isUTF16(head) || !bytes.Contains(head, []byte{0}))
}

// isUTF16 reports whether text begins with the byte order mark of UTF-16.
func isUTF16(head []byte) bool {
	return len(head) > 1 && (head[0] == 0xff && head[1] == 0xfe || head[0] == 0xfe && head[1] == 0xff)
}

// recoverTo converts a panic of a format's library into an error (Invariant 6).
func recoverTo(name string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: the file is damaged or its content is not supported (%v): write it again with "+
			"another tool", name, p)
	}
}
