package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Source returns the rows of a file as records, and then io.EOF.
type Source interface{ Next() (arrow.Record, error) }

// shuffledRows is the maximum number of rows of a record of Shuffled.
const shuffledRows = 4096

// Shuffled returns the rows of a file in a random order. It holds the whole file in memory until Release.
type Shuffled struct {
	records []arrow.Record
	order   []place // of the rows that are not returned yet
}

// place is a row of a record.
type place struct{ record, row int }

// Shuffle reads all rows. The order is a function of the rows and of r.
func Shuffle(ctx context.Context, in Source, r *rand.Rand) (*Shuffled, error) {
	s := &Shuffled{}
	for {
		rec, err := in.Next()
		if err == nil && ctx.Err() != nil {
			rec.Release()
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.Release()
			return nil, err
		}
		for row := range int(rec.NumRows()) {
			s.order = append(s.order, place{len(s.records), row})
		}
		s.records = append(s.records, rec)
	}
	r.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	return s, nil
}

// Next returns the next rows as a new record.
func (s *Shuffled) Next() (arrow.Record, error) {
	rows := s.order[:min(len(s.order), shuffledRows)]
	s.order = s.order[len(rows):]
	if len(rows) == 0 {
		return nil, io.EOF
	}
	schema := s.records[0].Schema()
	columns := make([]arrow.Array, schema.NumFields())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for j := range columns {
		var err error
		if columns[j], err = s.gather(rows, j); err != nil {
			return nil, fmt.Errorf("shuffling column %q: %w", schema.Field(j).Name, err)
		}
	}
	return array.NewRecord(schema, columns, int64(len(rows))), nil
}

// gather returns the values of a column in some rows.
func (s *Shuffled) gather(rows []place, column int) (arrow.Array, error) {
	parts := make([]arrow.Array, len(rows))
	for i, p := range rows {
		parts[i] = array.NewSlice(s.records[p.record].Column(column), int64(p.row), int64(p.row)+1)
	}
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	return array.Concatenate(parts, memory.DefaultAllocator)
}

// Release frees the rows.
func (s *Shuffled) Release() {
	for _, rec := range s.records {
		rec.Release()
	}
	s.records, s.order = nil, nil
}
