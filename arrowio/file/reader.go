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
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/embedd/embedd/arrowio"
)

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
