package main

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// lateLabels publishes labels on a separate subject, delay rows after their rows.
type lateLabels struct {
	to         *publisher
	key, label string
	delay      int
	rows       int64 // rows sent, the keys if the file has no key column
	waiting    []dueLabels
}

// dueLabels is a message of labels that is sent after a number of rows.
type dueLabels struct {
	body []byte
	rows int
	due  int64
}

// split removes the label column from a record, queues it as late labels, and returns the record with a key column.
func (a *lateLabels) split(rec arrow.Record) (arrow.Record, error) {
	n, at := rec.NumRows(), rec.Schema().FieldIndices(a.label)[0] // open has checked that it has the label
	label, rest := rec.Column(at), without(rec, a.label)
	if !rest.Schema().HasField(a.key) {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		defer b.Release()
		for i := range n {
			b.Append(a.rows + i)
		}
		numbers := b.NewArray()
		defer numbers.Release()
		defer rest.Release()
		meta := rec.Schema().Metadata()
		fields := append(rest.Schema().Fields(), arrow.Field{Name: a.key, Type: numbers.DataType()})
		rest = array.NewRecord(arrow.NewSchema(fields, &meta), append(rest.Columns(), numbers), n)
	}
	key := rest.Column(rest.Schema().FieldIndices(a.key)[0])
	labels := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: a.key, Type: key.DataType(), Nullable: true},
		rec.Schema().Field(at)}, nil), []arrow.Array{key, label}, n)
	defer labels.Release()
	body, err := encoded(labels, a.to.format)
	if err != nil {
		rest.Release()
		return nil, fmt.Errorf("late labels: %w", err)
	}
	a.rows += n
	a.waiting = append(a.waiting, dueLabels{body, int(n), a.rows + int64(a.delay)})
	return rest, nil
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
