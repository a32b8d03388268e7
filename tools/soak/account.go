package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// account is the result of every input.
type account struct {
	inputs, bad    int
	outputs, dead  int
	lost           []uint64 // inputs without an answer
	twice          []uint64 // inputs with more than one
	wrong          []string // with the wrong kind of answer
	rows, gone     int      // rows of good inputs, and those of them that are in no output
	models, epochs int      // rows in outputs
	deliveries     []delivery
}

// inputState is what the streams have of one input.
type inputState struct {
	bad           bool
	ids           []int64
	answers, dead int
}

// account reads the three streams from beginning to end.
func (w *world) account(ctx context.Context) (*account, error) {
	a, all := &account{}, map[uint64]*inputState{}
	err := w.each(ctx, inputs, input, func(seq uint64, _ time.Time, h nats.Header, body []byte) error {
		f := &inputState{bad: h.Get(headerKind) == bad}
		a.inputs++
		if f.bad {
			a.bad++
		} else {
			var err error
			if f.ids, err = idsOf(body); err != nil {
				return err
			}
			a.rows += len(f.ids)
		}
		all[seq] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	models, epochs := map[string]bool{}, map[string]bool{}
	err = w.each(ctx, outputs, output, func(seq uint64, stored time.Time, h nats.Header, body []byte) error {
		a.outputs++
		f := source(h, all)
		if f == nil {
			a.wrong = append(a.wrong, fmt.Sprintf("output %d names no input: %q", seq, h.Get(wire.HeaderSource)))
			return nil
		}
		f.answers++
		if sent, err := strconv.ParseInt(h.Get(headerSent), 10, 64); err == nil {
			a.deliveries = append(a.deliveries, delivery{time.Unix(0, sent), stored})
		}
		models[h.Get(wire.HeaderModel)], epochs[h.Get(wire.HeaderEpoch)] = true, true
		ids, err := idsOf(body)
		if err != nil {
			a.wrong = append(a.wrong, fmt.Sprintf("output %d: %v", seq, err))
		} else if !slices.Equal(ids, f.ids) {
			a.wrong = append(a.wrong, fmt.Sprintf("output %d has rows %v of %s, which has %v", seq, ids,
				h.Get(wire.HeaderSource), f.ids))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = w.each(ctx, letters, letter, func(seq uint64, _ time.Time, h nats.Header, _ []byte) error {
		a.dead++
		f := source(h, all)
		switch {
		case f == nil:
			a.wrong = append(a.wrong, fmt.Sprintf("dead letter %d names no input: %q", seq, h.Get(wire.HeaderSource)))
			return nil
		case !f.bad:
			a.wrong = append(a.wrong, fmt.Sprintf("good input %s is a dead letter: %s: %s", h.Get(wire.HeaderSource),
				h.Get(wire.HeaderCode), h.Get(wire.HeaderError)))
		}
		f.dead++
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.models, a.epochs = len(models), len(epochs)
	for _, seq := range slices.Sorted(maps.Keys(all)) {
		switch f := all[seq]; {
		case f.answers+f.dead == 0:
			a.lost = append(a.lost, seq)
			a.gone += len(f.ids)
		case f.answers+f.dead > 1:
			a.twice = append(a.twice, seq)
		case f.bad && f.dead == 0:
			a.wrong = append(a.wrong, fmt.Sprintf("bad input %d is answered", seq))
		}
	}
	return a, nil
}

// source returns the input that an answer names.
func source(h nats.Header, all map[uint64]*inputState) *inputState {
	_, text, _ := strings.Cut(h.Get(wire.HeaderSource), ":")
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil
	}
	return all[seq]
}

// each reads the messages of a stream with a subject, from the first to the last.
func (w *world) each(ctx context.Context, name, subject string,
	do func(uint64, time.Time, nats.Header, []byte) error) error {
	s, err := w.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	last := s.CachedInfo().State.LastSeq
	c, err := w.js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	if last == 0 {
		return nil
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next()
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if msg.Subject() != subject {
			// a message of an attack
		} else if err := do(meta.Sequence.Stream, meta.Timestamp, msg.Headers(), msg.Data()); err != nil {
			return fmt.Errorf("%s, message %d: %w", name, meta.Sequence.Stream, err)
		}
		if meta.Sequence.Stream >= last {
			return nil
		}
	}
}

// idsOf returns the ids of the rows of a message.
func idsOf(body []byte) (ids []int64, err error) {
	r, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	for r.Next() {
		for i, f := range r.Record().Schema().Fields() {
			if f.Name == "id" {
				ids = append(ids, r.Record().Column(i).(*array.Int64).Int64Values()...)
			}
		}
	}
	return ids, r.Err()
}

// print writes the result of the run, and returns whether it is correct.
func (a *account) print(out io.Writer) bool {
	fmt.Fprintf(out, "inputs: %d, %d of them bad, %d rows\n", a.inputs, a.bad, a.rows)
	fmt.Fprintf(out, "answers: %d outputs by %d models of %d epochs, %d dead letters\n", a.outputs, a.models, a.epochs,
		a.dead)
	fmt.Fprintf(out, "lost: %d inputs, %d rows%s\n", len(a.lost), a.gone, some(a.lost))
	fmt.Fprintf(out, "duplicated: %d%s\n", len(a.twice), some(a.twice))
	fmt.Fprintf(out, "wrong: %d\n", len(a.wrong))
	for _, text := range a.wrong[:min(len(a.wrong), 10)] {
		fmt.Fprintln(out, "  ", text)
	}
	return len(a.lost)+len(a.twice)+len(a.wrong) == 0
}

// some returns the first of many.
func some(all []uint64) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprint(": ", all[:min(len(all), 20)])
}
