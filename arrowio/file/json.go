package file

import (
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
)

// jsonRows reads a file of JSON as the pipelines read such a message, whole: an array and the types of columns are
// known at its end.
type jsonRows struct {
	file  *os.File
	whole *arrow.Schema
	recs  []arrow.Record
	rows  int64
}

// maxJSON is the most bytes of a file of JSON: positions in it are 32 bits.
const maxJSON = 1<<31 - 1

// openJSON reads an array of objects, or an object a line.
func openJSON(file *os.File, path string, f formatName, how Options) (*jsonRows, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	if info.Size() > maxJSON {
		return nil, fmt.Errorf("%s: JSON is read whole, and the limit is %d bytes; split it, or write Parquet, Arrow or "+
			"CSV, which are read in batches", path, maxJSON)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	spec := arrowio.Spec{Format: wire.FormatJSON, Limits: Limits(), Label: how.Label}
	for _, column := range how.Categories {
		spec.Encodings = append(spec.Encodings, arrowio.Encoding{Column: column, Values: []string{}})
	}
	spec.Limits.Message = maxJSON
	if f == linesFormat {
		spec.Format = wire.FormatNDJSON
	}
	d, err := arrowio.NewDecoder(spec)
	if err != nil {
		return nil, err
	}
	m, err := d.Decode(text, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	msg, err := arrowio.Arrow(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	j := &jsonRows{file: file}
	if j.whole, j.recs, err = arrowio.Records(msg); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, rec := range j.recs {
		j.rows += rec.NumRows()
	}
	return j, nil
}

func (j *jsonRows) schema() *arrow.Schema { return j.whole }

func (j *jsonRows) count() int64 { return j.rows }

func (j *jsonRows) next() (rec arrow.Record, err error) {
	if len(j.recs) == 0 {
		return nil, io.EOF
	}
	rec, j.recs = j.recs[0], j.recs[1:]
	return rec, nil
}

func (j *jsonRows) close() error {
	for _, rec := range j.recs {
		rec.Release()
	}
	j.recs = nil
	return j.file.Close()
}
