package main

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
)

// lateLabels publishes labels on a separate subject, delay rows after their rows.
type lateLabels struct {
	to         *publisher
	key, label string
	delay      int
	rows       int64 // rows so far, the keys if the file has no key column
	waiting    []delayed
}

// delayed is a message of labels that is due after a number of rows.
type delayed struct {
	body []byte
	rows int
	due  int64
}

// split removes the label column from a record, queues it as late labels, and returns the record with a key column.
func (a *lateLabels) split(rec arrow.Record) (arrow.Record, error) {
	n := rec.NumRows()
	var fields []arrow.Field
	var columns []arrow.Array
	var key, label arrow.Array
	var labelField arrow.Field
	for i, f := range rec.Schema().Fields() {
		switch f.Name {
		case a.label:
			label, labelField = rec.Column(i), f
			continue
		case a.key:
			key = rec.Column(i)
		}
		fields, columns = append(fields, f), append(columns, rec.Column(i))
	}
	if key == nil {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		defer b.Release()
		for i := range n {
			b.Append(a.rows + i)
		}
		numbers := b.NewArray()
		defer numbers.Release()
		key = numbers
		fields = append(fields, arrow.Field{Name: a.key, Type: key.DataType()})
		columns = append(columns, key)
	}
	labels := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: a.key, Type: key.DataType(), Nullable: true},
		labelField}, nil), []arrow.Array{key, label}, n)
	defer labels.Release()
	body, err := arrowio.FromRecords(labels.Schema(), labels)
	if err != nil {
		return nil, fmt.Errorf("late labels: %w", err)
	}
	a.rows += n
	a.waiting = append(a.waiting, delayed{body, int(n), a.rows + int64(a.delay)})
	meta := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &meta), columns, n), nil
}

// send publishes the labels that are due, or all.
func (a *lateLabels) send(ctx context.Context, all bool) error {
	for len(a.waiting) > 0 && (all || a.waiting[0].due <= a.rows) {
		if err := a.to.send(ctx, a.waiting[0].body, a.waiting[0].rows); err != nil {
			return err
		}
		a.waiting = a.waiting[1:]
	}
	return nil
}
