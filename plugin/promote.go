package plugin

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/window"
)

// refused tells that candidates were looked at and the live model was kept, where rows judged them.
func (t *trainer) refused() {
	var best *candidate
	for _, c := range t.candidates {
		if c.Test.Count > 0 && (best == nil || c.Test.Value() > best.Test.Value()) {
			best = c
		}
	}
	if best == nil {
		return
	}
	_, why := t.passes(best)
	t.stage.learner.ended(Outcome{Live: t.stage.Live(), Candidate: best.agree.rate(), Previous: t.live.agree.rate(),
		Rows: best.rows, Reason: why})
}

// passes asks the gate about a candidate.
func (t *trainer) passes(c *candidate) (bool, string) {
	if !t.labelled() {
		return t.config.Training.Gate.passes(c.standing, nil)
	}
	return t.config.Training.Gate.passes(c.standing, &c.agree)
}

// promoteBest promotes the candidate for which most speaks, where it passes the gate.
func (t *trainer) promoteBest(ctx context.Context) {
	if t.pinned || t.standby || t.live == nil {
		return
	}
	var best *candidate
	var why string
	for _, c := range t.candidates {
		pass, reason := t.passes(c)
		if pass && (best == nil || c.Test.Value() > best.Test.Value()) {
			best, why = c, reason
		}
	}
	if best == nil {
		return
	}
	s := &window.Suffix{First: best.first, Last: best.last, Rows: best.rows}
	begin := t.config.Clock()
	if err := t.promote(ctx, best.model, s, best, why, begin); err != nil {
		best.Test = t.config.Training.Gate.begin(best.Growing) // what was not stored has to earn it again
		t.failed(ctx, err, best.rows)
	}
}

// promote aligns a model to the live one, stores it and moves the pointer, in this order: what answers is always in
// the store. What was known of candidates spoke about the model that was live: they begin anew.
func (t *trainer) promote(ctx context.Context, m *model.Model, s *window.Suffix, c *candidate, why string,
	begin time.Time) error {
	o := Outcome{Candidate: math.NaN(), Previous: math.NaN(), Rows: s.Rows, Reason: why}
	if c != nil {
		o.Candidate, o.Previous = c.agree.rate(), t.live.agree.rate()
	}
	live := t.stage.Live()
	epoch, origin := t.config.Epochs+1, m
	if live != nil {
		var err error
		if m, epoch, origin, err = t.align(ctx, m, live, &o); err != nil {
			return fmt.Errorf("aligning to model %s: %w", live.Version, err)
		}
	}
	before := *t
	t.live, t.origin, t.candidates, t.marks.New = newView(m), origin, nil, false
	t.drift.Reset()
	t.policy.saved()
	t.fitOthers(ctx, c)
	t.scout(ctx, true)
	err := ctx.Err() // then fits are missing that a restart would never make
	if err == nil {
		err = t.publish(ctx, m, epoch, s, &o, false)
	}
	if err != nil {
		*t = before
		return err
	}
	o.Duration = t.config.Clock().Sub(begin)
	t.stage.learner.ended(o)
	return nil
}

// align brings a model into the coordinates of the live one, and says which epoch its outputs belong to.
func (t *trainer) align(ctx context.Context, m *model.Model, live *Live,
	o *Outcome) (*model.Model, int, *model.Model, error) {
	if live.Bootstrap {
		return m, live.nextEpoch(), m, nil
	}
	x, labels := newestRows(t.window, epochRows)
	anchors := model.DenseRows(x, len(labels), m.M())
	aligned, a, err := model.Align(ctx, m, live.Model, anchors, string(t.config.Training.Align))
	if err != nil {
		return nil, 0, nil, err
	}
	o.Displacement = a.Residual
	loss, spread, comparable := 0.0, 0.0, a.Comparable
	if t.labelled() {
		if loss, spread, err = crossLoss(ctx, t.origin, aligned, x, labels); err != nil {
			return nil, 0, nil, err
		}
		comparable = loss+1.5*spread <= maxCrossLoss
	}
	if t.marks.New {
		o.Reason += "; a new epoch: it is behind new landmarks"
		return aligned, live.nextEpoch(), aligned, nil
	}
	if comparable {
		o.Reason += fmt.Sprintf("; coordinates of the epoch's first model lose %.1f points", 100*loss)
		return aligned, live.Epoch, t.origin, nil
	}
	o.Reason += fmt.Sprintf("; a new epoch: coordinates of the old one's first model lose %.1f points", 100*loss)
	return aligned, live.nextEpoch(), aligned, nil
}

// nextEpoch is one that no model had before.
func (l *Live) nextEpoch() int { return max(l.Epoch, l.Epochs) + 1 }

// publish stores a model and moves the pointer.
func (t *trainer) publish(ctx context.Context, m *model.Model, epoch int, s *window.Suffix, o *Outcome,
	bootstrap bool) error {
	note := model.Note{Created: t.config.Clock(), Epoch: uint64(epoch), Source: map[string]string{}}
	for k, v := range t.config.Source {
		note.Source[k] = v
	}
	if at := s.Last.Created; at != 0 && note.Source["created"] != "" { // the stream may have been made anew meanwhile
		note.Source["created"] = time.Unix(0, at).UTC().Format(time.RFC3339Nano)
	}
	from := t.readFrom()
	if from.Created != s.Last.Created { // the window begins in the stream before: all of this one is in it
		from.Seq = 0
	}
	note.Source["first"] = strconv.FormatUint(from.Seq, 10)
	note.Source["last"] = strconv.FormatUint(s.Last.Seq, 10)
	live := &Live{Version: m.Digest()[:16], Epoch: epoch, Seen: s.Last.Seq, Bootstrap: bootstrap, Origin: t.origin}
	if before := t.stage.Live(); before != nil {
		live.Epochs = max(before.Epochs, epoch)
	}
	if t.config.Store != nil {
		r := &Release{Model: m.WithNote(note), Epoch: epoch, Bootstrap: bootstrap, First: s.First.Seq, Last: s.Last.Seq,
			Rows: s.Rows, Score: o.Candidate, LiveScore: o.Previous, Why: o.Reason, State: t.state(),
			NewEpoch: t.origin == m}
		if before := t.stage.Live(); before != nil {
			r.Parent = before.Version
		}
		version, err := t.config.Store(ctx, r)
		if err != nil {
			return fmt.Errorf("storing the model: %w", err)
		}
		live.Version = version
	}
	note.Version = live.Version
	live.Model = m.WithNote(note)
	o.Live, o.Promoted = live, true
	t.stage.promote(live)
	t.log.Info("model goes live", "version", live.Version, "method", m.Method(), "dim", m.Dim(), "epoch", epoch,
		"rows", s.Rows, "reason", o.Reason)
	return nil
}
