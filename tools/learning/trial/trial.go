package trial

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
)

// Config describes a run.
type Config struct {
	Stream    streams.Stream
	Seed      uint64
	Rows      int // 0: the usual number of the stream
	Every     int // rows between two checkpoints; default 500
	Fit       fit.Config
	Configure func(*plugin.Config) // changes the configuration of the stage; nil: the defaults
	RestartAt []int                // rows before which the stage is closed and opened again from its checkpoint
}

// Rows on which models are scored. Promotions are scored on more, so that a point is seen.
const (
	refs        = 1000
	queries     = 2000
	manyRefs    = 2000
	manyQueries = 6000
)

// Checkpoint has the accuracies on fresh rows of the concept of the next row, and the state of the stage.
type Checkpoint struct {
	Row      int                 `json:"row"`
	HasAll   bool                `json:"has_all"` // every class of the fresh rows was in the stream
	Live     Figure              `json:"live"`
	All      Figure              `json:"all"`    // a fit on all rows so far
	Newest   [len(Newest)]Figure `json:"newest"` // fits on the newest rows
	Reported Figure              `json:"reported"`
	Chance   Figure              `json:"chance"` // as reported
	Alarms   int                 `json:"alarms"`
	Epoch    int                 `json:"epoch"`
	Width    int                 `json:"width"`
	Window   int                 `json:"window"`  // rows
	Classes  int                 `json:"classes"` // in the window
	SetAside int                 `json:"set_aside"`
	Note     string              `json:"note"`
}

// Promotion is a model that went live, the first one included.
type Promotion struct {
	Row    int    `json:"row"`  // rows learned before
	Rows   int    `json:"rows"` // it was fitted on
	Door   string `json:"door"`
	Before Figure `json:"before"` // accuracy on fresh rows of the model that it replaced
	After  Figure `json:"after"`
	Epoch  int    `json:"epoch"`
	// Stored is the accuracy after it with references in the coordinates of the first model of the epoch that was live.
	Stored   Figure `json:"stored"`
	NewEpoch bool   `json:"new_epoch"`
	Digest   string `json:"digest"`
	Why      string `json:"why"`
}

// Result is the course of a run.
type Result struct {
	Stream      string        `json:"stream"`
	Seed        uint64        `json:"seed"`
	Rows        int           `json:"rows"`
	Checkpoints []Checkpoint  `json:"checkpoints"`
	Promotions  []Promotion   `json:"promotions"`
	Widths      []int         `json:"widths"`
	SameAs      map[int]int   `json:"same_as"` // epochs that are recorded as one with earlier ones, and the first of these
	Failed      int           `json:"failed"`  // reports of failed fits, at most one in 1,000 rows
	Seconds     float64       `json:"-"`       // processor time of the stage, if no other run used the processor
	Status      plugin.Status `json:"-"`       // at the end
}

// Run runs a stage on a stream.
func Run(ctx context.Context, c Config) (*Result, error) {
	source, err := c.Stream.Open(c.Rows, c.Seed)
	if err != nil {
		return nil, err
	}
	if c.Every == 0 {
		c.Every = 500
	}
	player, err := NewPlayer(c.Stream, c.Fit, c.Configure)
	if err != nil {
		return nil, err
	}
	t := &trial{Config: c, source: source, player: player, refit: newRefit(c.Fit.Dim), seen: map[int]bool{},
		result: &Result{Stream: c.Stream.Name, Seed: c.Seed, Rows: source.Rows()}}
	defer func() { t.player.Close() }()
	for at := 0; at < source.Rows(); at += streams.BatchRows {
		if err := t.step(ctx, at); err != nil {
			return nil, fmt.Errorf("%s, seed %d, row %d: %w", c.Stream.Name, c.Seed, at, err)
		}
	}
	if err := t.end(ctx); err != nil {
		return nil, fmt.Errorf("%s, seed %d, after all rows: %w", c.Stream.Name, c.Seed, err)
	}
	t.result.SameAs, t.result.Failed = player.SameAs, len(player.Failed)
	t.result.Widths, t.result.Status, t.result.Seconds = player.Widths, player.Stage.Status(), player.Used.Seconds()
	return t.result, nil
}

// trial is a run in progress.
type trial struct {
	Config
	source streams.Source
	player *Player
	refit  *refit
	live   *model.Model
	seen   map[int]bool
	held   []*model.Data // messages whose labels have not arrived, oldest first
	from   int           // row of the first of them
	result *Result
}

func (t *trial) step(ctx context.Context, at int) error {
	if at > 0 && at%t.Every == 0 {
		if err := t.check(ctx, at); err != nil {
			return err
		}
	}
	if slices.Contains(t.RestartAt, at) {
		if err := t.player.Restart(ctx); err != nil {
			return err
		}
		if err := t.note(ctx, at); err != nil {
			return err
		}
	}
	d := t.source.Next()
	if err := t.player.Play(ctx, d); err != nil {
		return err
	}
	if err := t.note(ctx, at+d.N); err != nil {
		return err
	}
	if !t.Stream.HasLateLabels() {
		return t.learned(ctx, d)
	}
	t.held = append(t.held, d)
	if delay := t.Stream.Delay + int(t.Stream.Slower*float64(t.from)); t.Stream.Reversed || at+d.N-t.from <= delay {
		return nil
	}
	return t.release(ctx, at+d.N, false)
}

// learned notes that rows with their labels have arrived.
func (t *trial) learned(ctx context.Context, d *model.Data) error {
	for _, y := range d.Y {
		t.seen[y] = true
	}
	return t.refit.add(ctx, d)
}

// release passes the labels of the oldest message that waits for them, or of the newest, to the stage.
func (t *trial) release(ctx context.Context, at int, newest bool) error {
	d, first := t.held[0], t.from
	if newest {
		last := len(t.held) - 1
		d, first = t.held[last], t.from+last*streams.BatchRows
		t.held = t.held[:last]
	} else {
		t.held, t.from = t.held[1:], t.from+d.N
	}
	rows, labels := make([]int, d.N), make([]string, d.N)
	for i := range rows {
		j := i
		if newest {
			j = d.N - 1 - i
		}
		rows[i], labels[i] = first+j, d.Classes[d.Y[j]]
	}
	if err := t.player.PlayLabels(ctx, rows, labels); err != nil {
		return err
	}
	if err := t.note(ctx, at); err != nil {
		return err
	}
	return t.learned(ctx, d)
}

// end passes the labels that still wait, and takes the last checkpoint.
func (t *trial) end(ctx context.Context) error {
	for len(t.held) > 0 {
		if err := t.release(ctx, t.source.Rows(), t.Stream.Reversed); err != nil {
			return err
		}
	}
	status := t.player.Stage.Status()
	if status.Dropped+status.OverClassLimit > 0 {
		return fmt.Errorf("%d rows were not learned", status.Dropped+status.OverClassLimit)
	}
	return t.check(ctx, t.source.Rows())
}

// note scores the models that went live with the last message, on rows of the concept of its last row: a swap at the
// border of two concepts was decided without a row of the second one.
func (t *trial) note(ctx context.Context, at int) error {
	for _, r := range t.player.Released {
		ref, query := t.source.Fresh(rand.New(rand.NewPCG(t.Seed, 3)), at-1, manyRefs, manyQueries)
		after, err := Accuracy(ctx, r.Model, ref, query)
		if err != nil {
			return err
		}
		before, stored := math.NaN(), math.NaN()
		if t.live != nil {
			if before, err = Accuracy(ctx, t.live, ref, query); err != nil {
				return err
			}
		}
		if r.Against != nil {
			if stored, err = StoredAccuracy(ctx, r.Against, r.Model, ref, query); err != nil {
				return err
			}
		}
		t.live = r.Model
		t.result.Promotions = append(t.result.Promotions, Promotion{Row: at, Rows: r.Rows, Door: r.Door,
			Before: Figure(before), After: Figure(after), Epoch: r.Epoch, Stored: Figure(stored), NewEpoch: r.NewEpoch,
			Digest: r.Model.Digest(), Why: r.Why})
	}
	return nil
}

// FreshRows returns the references and queries of the checkpoint at a row.
func FreshRows(source streams.Source, seed uint64, at int) (ref, query *model.Data) {
	return source.Fresh(rand.New(rand.NewPCG(seed, uint64(4+at))), at, refs, queries)
}

// check scores the models.
func (t *trial) check(ctx context.Context, at int) error {
	s := t.player.Stage.Status()
	p := Checkpoint{Row: at, Live: missing, Reported: Figure(s.Accuracy), Chance: Figure(s.Chance), Alarms: s.Alarms,
		Window: s.Rows, Classes: s.Classes, SetAside: s.Outliers, Note: s.Note}
	ref, query := FreshRows(t.source, t.Seed, at)
	p.HasAll = !slices.ContainsFunc(query.Y, func(y int) bool { return !t.seen[y] })
	if t.live != nil {
		p.Epoch, p.Width = t.player.Stage.Live().Epoch, t.live.Dim()
		a, err := Accuracy(ctx, t.live, ref, query)
		if err != nil {
			return err
		}
		p.Live = Figure(a)
	}
	p.All = missing
	for i := range p.Newest {
		p.Newest[i] = missing
	}
	if t.refit.all != nil {
		all, newest, err := t.refit.accuracies(ctx, ref, query)
		if err != nil {
			return err
		}
		p.All = Figure(all)
		for i, a := range newest {
			p.Newest[i] = Figure(a)
		}
	}
	t.result.Checkpoints = append(t.result.Checkpoints, p)
	return nil
}
