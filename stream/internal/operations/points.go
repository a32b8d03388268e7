package operations

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// The bounds of a sample of points: rows, and outputs of each row.
const (
	DefaultPoints = 5000
	MaxPoints     = 20000
	maxOutputs    = 8 // so that the answer fits one message of a server with the default limit
)

// pointsAge is the least time between two projections, pointsWait how long one waits for a fit to end.
const (
	pointsAge  = time.Second
	pointsWait = 5 * time.Second
)

// Points are the same rows of the window under the previous and the live model.
type Points struct {
	Pipeline string    `json:"pipeline"`
	Time     time.Time `json:"time"` // of the projection
	Rows     int       `json:"rows"` // in the window
	// Oldest and Newest are the times of the oldest and the newest row of the window
	Oldest   time.Time           `json:"oldest"`
	Newest   time.Time           `json:"newest"`
	PerClass int                 `json:"per_class"`
	Classes  []stage.SampleClass `json:"classes"`
	Class    []int               `json:"class"` // of each row: an index of classes
	Live     *PointModel         `json:"live"`
	Previous *PointModel         `json:"previous"` // null if there is none, or one of other features
	// Comparable says whether the outputs of the two models are comparable: yes, no, or undecided; "" without two models
	Comparable string `json:"comparable,omitempty"`
}

// PointModel is a model, and its outputs of each row. An output that is not finite is null.
type PointModel struct {
	Version string      `json:"version"`
	Epoch   int         `json:"epoch"`
	Dim     int         `json:"dim"`
	Outputs [][]Decimal `json:"outputs"` // at most eight, each with a number for each row
}

// Decimal is a number that is written with four digits, which is more than a picture shows.
type Decimal float32

// MarshalJSON implements json.Marshaler.
func (d Decimal) MarshalJSON() ([]byte, error) {
	v := float64(d)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', 4, 32), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Decimal) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*d = Decimal(math.NaN())
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 32)
	*d = Decimal(v)
	return err
}

// points are points that were projected.
type points struct {
	*Points
	limit int
	at    time.Time
}

// project answers with points. Requests within a second share one projection.
func (p *Pipeline) project(ctx context.Context, q *Request) (any, error) {
	if !p.Running.Learns() {
		return nil, plugin.ErrFixed
	}
	if err := p.onlyTrainer(); err != nil {
		return nil, err
	}
	limit := cmp.Or(q.Limit, DefaultPoints)
	if limit < 1 || limit > MaxPoints {
		return nil, WithCode(CodeBadRequest, fmt.Errorf("limit %d: want 1 to %d rows", q.Limit, MaxPoints))
	}
	var last *points
	select {
	case last = <-p.points:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.points <- last }()
	live := p.Running.Live()
	if last != nil && last.limit == limit && time.Since(last.at) < pointsAge &&
		(live == nil) == (last.Live == nil) && (live == nil || live.Version == last.Live.Version) {
		return last.Points, nil
	}
	made, err := p.projectNow(ctx, limit, live)
	if err != nil {
		return nil, err
	}
	last = &points{made, limit, time.Now()}
	return made, nil
}

func (p *Pipeline) projectNow(ctx context.Context, limit int, live *plugin.Live) (*Points, error) {
	out := &Points{Pipeline: p.Name, Time: time.Now().UTC(), Classes: []stage.SampleClass{}, Class: []int{}}
	var models []*model.Model
	if live != nil {
		models = append(models, live.Model)
		out.Live = &PointModel{Version: live.Version, Epoch: live.Epoch, Dim: live.Model.Dim(), Outputs: [][]Decimal{}}
		if before, m := p.previous(ctx, live); m != nil {
			models = append(models, m)
			out.Previous = before
			out.Comparable = "no"
			switch {
			case before.Epoch == live.Epoch || live.SameAs > 0 && before.Epoch >= live.SameAs:
				out.Comparable = "yes"
			case live.Undecided > 0:
				out.Comparable = "undecided"
			}
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pointsWait, WithCode(CodeConflict,
		fmt.Errorf("the trainer has been busy for %v; request the points again after the fit", pointsWait)))
	defer cancel()
	s, err := stage.SampleOf(ctx, p.Running, limit, models)
	if err != nil {
		return nil, err
	}
	out.Rows, out.PerClass, out.Oldest, out.Newest = s.Rows, s.Limit, s.Oldest, s.Newest
	out.Classes, out.Class = append(out.Classes, s.Classes...), append(out.Class, s.Class...)
	for i, m := range []*PointModel{out.Live, out.Previous} {
		if m != nil {
			m.Outputs = columns(s.Outputs[i], m.Dim)
		}
	}
	if out.Previous != nil && out.Previous.Outputs == nil {
		out.Previous, out.Comparable = nil, ""
	}
	return out, nil
}

// previous is the version that was live before, and its model; nil if there is none that can be read.
func (p *Pipeline) previous(ctx context.Context, live *plugin.Live) (*PointModel, *model.Model) {
	r := p.Replica.Models
	if r == nil {
		return nil, nil
	}
	pointer, err := r.Pointer(ctx)
	if err != nil || pointer.Live != live.Version || pointer.Previous == "" {
		return nil, nil
	}
	v := pointer.Find(pointer.Previous)
	if v == nil || v.Damaged {
		return nil, nil
	}
	m, err := r.Model(ctx, v.Name)
	if err != nil {
		return nil, nil
	}
	return &PointModel{Version: v.Name, Epoch: v.Epoch, Dim: m.Dim()}, m
}

// columns are the first columns of a row-major matrix of d columns; nil for no matrix.
func columns(y []float32, d int) (out [][]Decimal) {
	if y == nil {
		return nil
	}
	for k := range min(d, maxOutputs) {
		column := make([]Decimal, 0, len(y)/d)
		for i := k; i < len(y); i += d {
			column = append(column, Decimal(y[i]))
		}
		out = append(out, column)
	}
	return out
}
