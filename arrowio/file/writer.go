package file

import (
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
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
		return w.named(errNoBatch)
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
