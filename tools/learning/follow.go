package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

const (
	everyRows = 500 // rows between two checkpoints; half of that after a change
	freshRows = 1000
	// Promotions, losses and stored coordinates are measured to fractions of a point, with more rows.
	manyRefs    = 4000
	manyQueries = 8000
	afterRows   = 5000 // the rows after an event with more frequent checkpoints
)

// figure is a number that may be missing: NaN, in JSON null.
type figure float64

// MarshalJSON writes NaN and infinities as null.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

var none = figure(math.NaN())

// checkpoint has the accuracy on fresh rows of the concept of the next row.
type checkpoint struct {
	Row    int    `json:"row"`
	Live   figure `json:"live"`
	Frozen figure `json:"frozen"`
	Oracle figure `json:"oracle"`
	Narrow figure `json:"narrow"` // an oracle with as many outputs as the stage
	// Loss is the difference between the model that was live at the last change and the live model, on many fresh rows.
	Loss figure `json:"loss"`
}

// promotion is a model that replaced another as the live one, scored on many fresh rows of the current concept.
type promotion struct {
	Row    int    `json:"row"` // rows learned before it
	Epoch  int    `json:"epoch"`
	Before figure `json:"before"`
	After  figure `json:"after"`
	// Stored is the accuracy if references have the coordinates of the epoch's first model.
	Stored  figure `json:"stored"`
	Moved   figure `json:"moved"`   // displacement of a probe by this promotion
	Strayed figure `json:"strayed"` // displacement of a probe from the epoch's first model
	Why     string `json:"why"`
}

// run is the result of one stream with one seed.
type run struct {
	Seed        uint64       `json:"seed"`
	Rows        int          `json:"rows"`
	First       int          `json:"first"` // rows learned when the first model went live
	Checkpoints []checkpoint `json:"checkpoints"`
	Promotions  []promotion  `json:"promotions"` // without the first model
	Epochs      int          `json:"epochs"`
	Widths      []int        `json:"widths"` // dimensions of the outputs, each new one
	Alarms      int          `json:"alarms"` // drift alarms
}

// follower observes a stage during training.
type follower struct {
	stream stream
	source source
	run    run
	stage  *plugin.Stage
	clock  atomic.Int64
	oracle oracle

	released []*plugin.Release // since the last message, from Config.Store
	failed   error
	live     *model.Model
	frozen   *model.Model
	atChange *model.Model // live at the last change
	founder  *model.Model // the epoch's first model
	epoch    int
	lost     comparison // the last one
}

// comparison is the difference between the errors of two models at a row.
type comparison struct {
	of, to *model.Model
	at     int
	share  figure
}

// follow runs one stream through a stage with the configuration c.
func follow(ctx context.Context, s stream, rows int, seed uint64, c fit.Config) (run, error) {
	source, err := s.open(rows, seed)
	if err != nil {
		return run{}, err
	}
	f := &follower{stream: s, source: source, run: run{Seed: seed, Rows: source.rows()}}
	f.stage, err = plugin.New(plugin.Config{
		Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:  c,
		Store: func(_ context.Context, r *plugin.Release) (string, error) {
			f.released = append(f.released, r)
			return r.Model.Digest()[:16], nil
		},
		Observe: func(o plugin.Outcome) {
			if o.Err != nil {
				f.failed = o.Err
			}
		},
		Clock: func() time.Time { return time.Unix(0, f.clock.Load()) },
	})
	if err != nil {
		return run{}, err
	}
	defer f.stage.Close()
	for at := 0; at < f.run.Rows; at += batchRows {
		if f.isChange(at) {
			f.atChange = f.live
		}
		if f.isCheckpoint(at) {
			if err := f.check(ctx, at); err != nil {
				return run{}, fmt.Errorf("row %d: %w", at, err)
			}
		}
		if err := f.step(ctx, at); err != nil {
			return run{}, fmt.Errorf("row %d: %w", at, err)
		}
	}
	status := f.stage.Status()
	if status.Dropped+status.OverClassLimit > 0 {
		return run{}, fmt.Errorf("%d rows were not learned", status.Dropped+status.OverClassLimit)
	}
	f.run.Alarms = status.Alarms
	err = f.check(ctx, f.run.Rows)
	return f.run, err
}

// step has the next message answered, and then learned.
func (f *follower) step(ctx context.Context, at int) error {
	d := f.source.next()
	if !f.stream.poisoned(float64(at) / float64(f.run.Rows)) {
		if err := f.oracle.add(ctx, d); err != nil {
			return err
		}
	}
	rec := record(d)
	defer rec.Release()
	msg, err := f.stage.FromRecord(rec)
	if err != nil {
		return err
	}
	if f.live != nil {
		answer, err := f.stage.Transform(ctx, msg)
		if err != nil {
			return err
		}
		if width := answer.Reduced.Dim; !slices.Contains(f.run.Widths, width) {
			f.run.Widths = append(f.run.Widths, width)
		}
	}
	// The stream has a thousand rows a second, by its own clock.
	f.clock.Store(int64(time.Duration(at) * time.Millisecond))
	now := time.Unix(0, f.clock.Load())
	seq := uint64(at/batchRows + 1)
	if err := f.stage.Learn(msg, plugin.Position{Created: time.Unix(0, 0), Seq: seq, Time: now}); err != nil {
		return err
	}
	if err := f.stage.Wait(ctx); err != nil {
		return err
	}
	if f.failed != nil {
		return f.failed
	}
	return f.note(ctx, at)
}

// note scores the models that went live while the message at a row was learned.
func (f *follower) note(ctx context.Context, at int) error {
	defer func() { f.released = f.released[:0] }()
	if len(f.released) == 0 {
		return nil
	}
	last := f.released[len(f.released)-1].Model
	if live := f.stage.Live(); live == nil || live.Model.Digest() != last.Digest() {
		return fmt.Errorf("the model that was stored last is not the live one")
	}
	for _, r := range f.released {
		p := promotion{Row: at + batchRows, Epoch: r.Epoch, Before: none, Stored: none, Moved: none, Strayed: none,
			Why: r.Why}
		// The same random rows at each promotion, under the current concept.
		ref, query := f.source.fresh(rand.New(rand.NewPCG(f.run.Seed, 3)), at, manyRefs, manyQueries)
		after, err := accuracy(ctx, r.Model, ref, query)
		if err != nil {
			return err
		}
		p.After = figure(after)
		if f.live != nil {
			if p.Before, p.Moved, err = f.compare(ctx, f.live, r.Model, ref, query); err != nil {
				return err
			}
		}
		if f.epoch != r.Epoch {
			f.epoch, f.founder = r.Epoch, r.Model
			f.run.Epochs++
		} else if p.Stored, p.Strayed, err = f.sinceFounder(ctx, r.Model, ref, query); err != nil {
			return err
		}
		if f.live == nil {
			f.run.First, f.frozen = p.Row, r.Model
		} else {
			f.run.Promotions = append(f.run.Promotions, p)
		}
		f.live = r.Model
	}
	return nil
}

// sinceFounder compares a model with the first of its epoch.
func (f *follower) sinceFounder(ctx context.Context, m *model.Model,
	ref, query *model.Data) (kept, strayed figure, err error) {
	k, err := storedAccuracy(ctx, f.founder, m, ref, query)
	if err != nil {
		return none, none, err
	}
	s, err := displacement(ctx, f.founder, m, ref, query)
	return figure(k), figure(s), err
}

func (f *follower) compare(ctx context.Context, from, to *model.Model,
	ref, query *model.Data) (before, moved figure, err error) {
	b, err := accuracy(ctx, from, ref, query)
	if err != nil {
		return none, none, err
	}
	m, err := displacement(ctx, from, to, ref, query)
	return figure(b), figure(m), err
}

// isChange reports whether an event or poison starts at a row.
func (f *follower) isChange(at int) bool {
	return slices.ContainsFunc(f.stream.changes(), func(e event) bool { return rowOf(e.start, f.run.Rows) == at })
}

// isCheckpoint reports whether the models are scored before a row is learned.
func (f *follower) isCheckpoint(at int) bool {
	close := slices.ContainsFunc(f.stream.changes(), func(e event) bool {
		start := rowOf(e.start, f.run.Rows)
		return start <= at && at < start+afterRows
	})
	return at%everyRows == 0 || close
}

// check scores the models on rows of the concept of the next row.
func (f *follower) check(ctx context.Context, at int) error {
	if f.live == nil {
		return nil
	}
	r := rand.New(rand.NewPCG(f.run.Seed, uint64(4+at)))
	ref, query := f.source.fresh(r, at, freshRows, freshRows)
	chooseRef, choose := f.source.fresh(r, at, freshRows, freshRows)
	best, err := f.oracle.best(ctx, f.conceptChunks(at), 0, chooseRef, choose)
	if err != nil {
		return err
	}
	narrow := best
	if dim := f.live.Dim(); dim < best.Dim() {
		if narrow, err = f.oracle.best(ctx, f.conceptChunks(at), dim, chooseRef, choose); err != nil {
			return err
		}
	}
	p := checkpoint{Row: at, Loss: none}
	for _, c := range []struct {
		to *figure
		of *model.Model
	}{{&p.Live, f.live}, {&p.Frozen, f.frozen}, {&p.Oracle, best}, {&p.Narrow, narrow}} {
		a, err := accuracy(ctx, c.of, ref, query)
		if err != nil {
			return err
		}
		*c.to = figure(a)
	}
	if f.atChange != nil {
		if p.Loss, err = f.loss(ctx, at); err != nil {
			return err
		}
	}
	f.run.Checkpoints = append(f.run.Checkpoints, p)
	return nil
}

// loss returns the difference between the model that was live at the last change and the live model. It is expensive to
// compute, and constant as long as both models are.
func (f *follower) loss(ctx context.Context, at int) (figure, error) {
	if f.atChange == f.live {
		return 0, nil
	}
	if f.lost.of == f.live && f.lost.to == f.atChange && f.source.same(f.lost.at, at) {
		return f.lost.share, nil
	}
	ref, query := f.source.fresh(rand.New(rand.NewPCG(f.run.Seed, 3)), at, manyRefs, manyQueries)
	then, err := accuracy(ctx, f.atChange, ref, query)
	if err != nil {
		return none, err
	}
	now, err := accuracy(ctx, f.live, ref, query)
	f.lost = comparison{of: f.live, to: f.atChange, at: at, share: figure(then - now)}
	return f.lost.share, err
}

// conceptChunks returns how many chunks of the oracle have the concept of the next row.
func (f *follower) conceptChunks(at int) int {
	since := 0
	for _, e := range f.stream.events {
		if start := rowOf(e.start, f.run.Rows); start <= at {
			since = start
		}
	}
	return (at - since) / batchRows
}

// record returns the rows as an Arrow record.
func record(d *model.Data) arrow.Record {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(int32(d.M), arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list, label := b.Field(0).(*array.FixedSizeListBuilder), b.Field(1).(*array.StringBuilder)
	values := list.ValueBuilder().(*array.Float32Builder)
	for i, y := range d.Y {
		list.Append(true)
		for _, v := range d.X[i*d.M : (i+1)*d.M] {
			values.Append(float32(v))
		}
		label.Append(d.Classes[y])
	}
	return b.NewRecord()
}
