package main

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
)

// apart sends the labels of rows to a subject of their own, so many rows later.
type apart struct {
	to         *publisher
	key, label string
	delay      int
	rows       int64 // so far: their numbers are the keys where the file has none
	waiting    []delayed
}

// delayed is a message of labels that leaves once so many rows have.
type delayed struct {
	body []byte
	rows int
	due  int64
}

// split takes the label out of a record that is about to leave. The record that it returns has the key.
func (a *apart) split(rec arrow.Record) (arrow.Record, error) {
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
		labelField},
		nil), []arrow.Array{key, label}, n)
	defer labels.Release()
	body, err := arrowio.FromRecords(labels.Schema(), labels)
	if err != nil {
		return nil, fmt.Errorf("the labels: %w", err)
	}
	a.rows += n
	a.waiting = append(a.waiting, delayed{body, int(n), a.rows + int64(a.delay)})
	meta := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &meta), columns, n), nil
}

// send sends the labels that are due, or all.
func (a *apart) send(ctx context.Context, all bool) error {
	for len(a.waiting) > 0 && (all || a.waiting[0].due <= a.rows) {
		if err := a.to.send(ctx, a.waiting[0].body, a.waiting[0].rows); err != nil {
			return err
		}
		a.waiting = a.waiting[1:]
	}
	return nil
}
