package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
)

// answers are the outputs of one pipeline.
type answers struct {
	messages, rows int
	dead           int
	model          string // models of the outputs after the mark
	dim            int
	y              map[int][]float32 // by row, after the mark
}

// collect reads the output of a pipeline until every input has an output or a dead letter.
func (d *Demo) collect(ctx context.Context, pipeline string, mark int, failed func() error) (*answers, error) {
	a := &answers{y: map[int][]float32{}}
	dead, err := d.js.Stream(ctx, "DEAD")
	if err != nil {
		return nil, err
	}
	c, err := d.js.OrderedConsumer(ctx, "REDUCED",
		jetstream.OrderedConsumerConfig{FilterSubjects: []string{"reduced." + pipeline}})
	if err != nil {
		return nil, err
	}
	msgs, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer msgs.Stop()
	for a.messages+a.dead < d.sent {
		msg, err := msgs.Next(jetstream.NextMaxWait(500 * time.Millisecond))
		if errors.Is(err, nats.ErrTimeout) {
			info, err := dead.Info(ctx, jetstream.WithSubjectFilter("dead."+pipeline))
			if err != nil {
				return nil, err
			}
			a.dead = int(info.State.Subjects["dead."+pipeline])
			if err := failed(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := a.take(msg.Data(), msg.Headers().Get(wire.HeaderModel), a.messages >= mark); err != nil {
			return nil, err
		}
		d.show(fmt.Sprintf("reading %s: %d of %d messages", pipeline, a.messages, d.sent), -1)
	}
	return a, nil
}

// take reads one output message. It keeps the rows if they are compared.
func (a *answers) take(body []byte, version string, keep bool) error {
	_, records, err := arrowio.Records(body)
	if err != nil {
		return err
	}
	a.messages++
	for _, r := range records {
		a.rows += int(r.NumRows())
		if keep {
			a.model = version
			ids := r.Column(r.Schema().FieldIndices("id")[0]).(*array.Int32)
			list := r.Column(r.Schema().FieldIndices("embedding")[0]).(*array.FixedSizeList)
			a.dim = int(list.DataType().(*arrow.FixedSizeListType).Len())
			y := list.ListValues().(*array.Float32).Float32Values()
			for i := range int(r.NumRows()) {
				a.y[int(ids.Value(i))] = slices.Clone(y[i*a.dim : (i+1)*a.dim])
			}
		}
		r.Release()
	}
	return nil
}
