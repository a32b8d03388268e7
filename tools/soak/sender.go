package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	features = 16
	classes  = 4
	steady   = 1000 // rows between two changes
)

// headerKind has what the account expects for a message: an output or a dead letter.
const (
	headerKind = "Soak-Kind"
	headerSent = "Soak-Sent"
	good       = "good"
	bad        = "bad"
)

// sender publishes labelled rows, each with an id, and bad messages among them. It permutes the features every few
// rows, so that models have to adapt.
type sender struct {
	options
	js     jetstream.JetStream
	random *rand.Rand
	means  [classes][features]float64
	number int64
	count  atomic.Int64
}

func newSender(o options, js jetstream.JetStream) *sender {
	s := &sender{options: o, js: js, random: rand.New(rand.NewPCG(o.seed, 1))}
	for c := range s.means {
		for j := range s.means[c] {
			s.means[c][j] = 3 * s.random.NormFloat64()
		}
	}
	return s
}

func (s *sender) sent() int64 { return s.count.Load() }

// run sends until ctx ends. It retries a message, with the same id, until the server has stored it.
func (s *sender) run(ctx context.Context) error {
	tick := time.NewTicker(time.Duration(float64(time.Second) / s.rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		msg, err := s.message()
		if err != nil {
			return err
		}
		id := fmt.Sprint("soak-", s.count.Load())
		err = again(context.WithoutCancel(ctx), 5*time.Minute, func(ctx context.Context) error {
			msg.Header.Set(headerSent, fmt.Sprint(time.Now().UnixNano()))
			_, err := s.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
			return err
		})
		if err != nil {
			return fmt.Errorf("sending: %w", err)
		}
		s.count.Add(1)
	}
}

func (s *sender) message() (*nats.Msg, error) {
	msg := &nats.Msg{Subject: input, Header: nats.Header{headerKind: {good}}}
	var err error
	if msg.Data, err = s.batch(); err != nil {
		return nil, err
	}
	if s.count.Load() > 1000/int64(s.rows) && s.random.Float64() < s.bad {
		msg.Header.Set(headerKind, bad)
		msg.Data = s.spoil(msg.Data)
	}
	return msg, nil
}

// spoil makes a message invalid.
func (s *sender) spoil(body []byte) []byte {
	switch s.random.IntN(4) {
	case 0:
		return nil
	case 1:
		return body[:1+s.random.IntN(len(body)/2)]
	case 2:
		junk := make([]byte, 1+s.random.IntN(4000))
		for i := range junk {
			junk[i] = byte(s.random.IntN(256))
		}
		return junk
	default:
		return append([]byte("{\"not\": \"arrow\"} "), body...)
	}
}

func (s *sender) batch() ([]byte, error) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "x", Type: arrow.FixedSizeListOf(features, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(1).(*array.FixedSizeListBuilder)
	values := list.ValueBuilder().(*array.Float32Builder)
	for range s.rows {
		class := s.random.IntN(classes)
		if s.number++; s.number%steady == 0 {
			for c := range s.means {
				s.random.Shuffle(features, func(i, j int) { s.means[c][i], s.means[c][j] = s.means[c][j], s.means[c][i] })
			}
		}
		b.Field(0).(*array.Int64Builder).Append(s.number)
		list.Append(true)
		for j := range features {
			values.Append(float32(s.means[class][j] + s.random.NormFloat64()))
		}
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprint("class ", class))
	}
	rec := b.NewRecord()
	defer rec.Release()
	var body bytes.Buffer
	w := ipc.NewWriter(&body, ipc.WithSchema(schema))
	if err := w.Write(rec); err != nil {
		return nil, err
	}
	return body.Bytes(), w.Close()
}
