package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

const (
	everyRows = 500 // rows between two checkpoints; half of that after a change
	freshRows = 1000
	// Promotions, losses and stored coordinates are measured to fractions of a point, with more rows.
	manyRefs    = 4000
	manyQueries = 8000
	afterRows   = 5000 // the rows after an event with more frequent checkpoints
)

// figure is a number that may be missing.
type figure = trial.Figure

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
	// Broken is what references in the coordinates of the previous epoch's first model would lose, if it begins an epoch.
	Broken   figure `json:"broken"`
	NewEpoch bool   `json:"new_epoch"`
	Why      string `json:"why"`
}

// run is the result of one stream with one seed.
type run struct {
	Seed        uint64       `json:"seed"`
	Rows        int          `json:"rows"`
	First       int          `json:"first"` // rows learned when the first model went live
	Checkpoints []checkpoint `json:"checkpoints"`
	Promotions  []promotion  `json:"promotions"` // without the first model
	Epochs      int          `json:"epochs"`
	SameAs      map[int]int  `json:"same_as"` // epochs that are recorded as one with earlier ones, and the first of these
	Widths      []int        `json:"widths"`  // dimensions of the outputs, each new one
	Alarms      int          `json:"alarms"`  // drift alarms
}

// follower observes a stage during training.
type follower struct {
	stream stream
	source streams.Source
	run    run
	player *trial.Player
	oracle oracle

	live     *model.Model
	frozen   *model.Model
	atChange *model.Model // live at the last change
	lost     comparison   // the last one
}

// comparison is the difference between the errors of two models at a row.
type comparison struct {
	of, to *model.Model
	at     int
	share  figure
}

// follow runs one stream through a stage with the configuration c.
func follow(ctx context.Context, s stream, rows int, seed uint64, c fit.Config) (run, error) {
	source, err := s.Open(rows, seed)
	if err != nil {
		return run{}, err
	}
	f := &follower{stream: s, source: source, run: run{Seed: seed, Rows: source.Rows()}}
	if f.player, err = trial.NewPlayer(s.Stream, c, nil); err != nil {
		return run{}, err
	}
	defer f.player.Close()
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
	if f.live == nil {
		return run{}, fmt.Errorf("no model went live in %d rows; give more rows", f.run.Rows)
	}
	status := f.player.Stage.Status()
	if status.Dropped+status.OverClassLimit > 0 {
		return run{}, fmt.Errorf("%d rows were not learned", status.Dropped+status.OverClassLimit)
	}
	f.run.Alarms, f.run.Widths, f.run.SameAs = status.Alarms, f.player.Widths, f.player.SameAs
	err = f.check(ctx, f.run.Rows)
	return f.run, err
}

// step has the next message answered, and then learned.
func (f *follower) step(ctx context.Context, at int) error {
	d := f.source.Next()
	if !f.stream.IsPoisoned(float64(at) / float64(f.run.Rows)) {
		if err := f.oracle.add(ctx, d); err != nil {
			return err
		}
	}
	if err := f.player.Play(ctx, d); err != nil {
		return err
	}
	if err := errors.Join(f.player.Failed...); err != nil {
		return err
	}
	return f.note(ctx, at)
}

// note scores the models that went live while the message at a row was learned.
func (f *follower) note(ctx context.Context, at int) error {
	if len(f.player.Released) == 0 {
		return nil
	}
	last := f.player.Released[len(f.player.Released)-1].Model
	if live := f.player.Stage.Live(); live == nil || live.Model.Digest() != last.Digest() {
		return fmt.Errorf("the model that was stored last is not the live one")
	}
	for _, r := range f.player.Released {
		p := promotion{Row: at + batchRows, Epoch: r.Epoch, Before: none, Stored: none, Moved: none, Strayed: none,
			Broken: none, NewEpoch: r.NewEpoch, Why: r.Why}
		// The same random rows at each promotion, under the current concept.
		ref, query := f.source.Fresh(rand.New(rand.NewPCG(f.run.Seed, 3)), at, manyRefs, manyQueries)
		after, err := trial.Accuracy(ctx, r.Model, ref, query)
		if err != nil {
			return err
		}
		p.After = figure(after)
		if f.live != nil {
			if p.Before, p.Moved, err = f.compare(ctx, f.live, r.Model, ref, query); err != nil {
				return err
			}
		}
		kept, strayed := none, none
		if r.Against != nil {
			if kept, strayed, err = since(ctx, r.Against, r.Model, ref, query); err != nil {
				return err
			}
		}
		if r.NewEpoch {
			p.Broken = p.After - kept
			f.run.Epochs++
		} else {
			p.Stored, p.Strayed = kept, strayed
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

// since compares a model with the first of an epoch.
func since(ctx context.Context, first, m *model.Model, ref, query *model.Data) (kept, strayed figure, err error) {
	k, err := trial.StoredAccuracy(ctx, first, m, ref, query)
	if err != nil {
		return none, none, err
	}
	s, err := displacement(ctx, first, m, ref, query)
	return figure(k), figure(s), err
}

func (f *follower) compare(ctx context.Context, from, to *model.Model,
	ref, query *model.Data) (before, moved figure, err error) {
	b, err := trial.Accuracy(ctx, from, ref, query)
	if err != nil {
		return none, none, err
	}
	m, err := displacement(ctx, from, to, ref, query)
	return figure(b), figure(m), err
}

// isChange reports whether an event or poison starts at a row.
func (f *follower) isChange(at int) bool {
	return slices.ContainsFunc(f.stream.changes(), func(e streams.Event) bool { return rowOf(e.Start, f.run.Rows) == at })
}

// isCheckpoint reports whether the models are scored before a row is learned.
func (f *follower) isCheckpoint(at int) bool {
	close := slices.ContainsFunc(f.stream.changes(), func(e streams.Event) bool {
		start := rowOf(e.Start, f.run.Rows)
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
	ref, query := f.source.Fresh(r, at, freshRows, freshRows)
	chooseRef, choose := f.source.Fresh(r, at, freshRows, freshRows)
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
		a, err := trial.Accuracy(ctx, c.of, ref, query)
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
	if f.lost.of == f.live && f.lost.to == f.atChange && f.source.IsSame(f.lost.at, at) {
		return f.lost.share, nil
	}
	ref, query := f.source.Fresh(rand.New(rand.NewPCG(f.run.Seed, 3)), at, manyRefs, manyQueries)
	then, err := trial.Accuracy(ctx, f.atChange, ref, query)
	if err != nil {
		return none, err
	}
	now, err := trial.Accuracy(ctx, f.live, ref, query)
	f.lost = comparison{of: f.live, to: f.atChange, at: at, share: figure(then - now)}
	return f.lost.share, err
}

// conceptChunks returns how many chunks of the oracle have the concept of the next row.
func (f *follower) conceptChunks(at int) int {
	since := 0
	for _, e := range f.stream.Events {
		if start := rowOf(e.Start, f.run.Rows); start <= at {
			since = start
		}
	}
	return (at - since) / batchRows
}
