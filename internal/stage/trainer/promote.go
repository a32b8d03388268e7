package trainer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// alignedRows is the number of newest rows by which models are aligned.
const alignedRows = 3000

// passes asks the gate about a candidate.
func (t *Trainer) passes(c *candidate) (bool, string) {
	var standing *policy.Standing
	if t.plan.labelled() {
		standing = &policy.Standing{Agreement: &c.Agreement, CandidateBeats: c.Sensitivity.BeatsChance(),
			LiveBeats: t.live.Sensitivity.BeatsChance()}
	}
	if c.comparison.Door == policy.DoorMoreRows && t.rules.IsBehind(c.size) &&
		!(c.comparison.HeldOut.Evidence >= c.comparison.Required(t.config.Training.Gate)) { // rows of all classes say more
		return false, "more rows do not help: a shorter suffix is ahead"
	}
	if c.comparison.Door == policy.DoorBetter && standing != nil && standing.LiveBeats && t.data.references.AreFew() &&
		t.data.window.IsGrowing() { // else there would never be more
		return false, "few rows are held out, and the live model beats chance: with more references it may be the better one"
	}
	return policy.Passes(t.config.Training.Gate, &c.comparison, standing)
}

// reportRejected reports that the live model was kept, if candidates were scored.
func (t *Trainer) reportRejected() {
	var best *candidate
	for _, c := range t.candidates {
		if c.comparison.Test.Count > 0 && (best == nil || c.comparison.Evidence() > best.comparison.Evidence()) {
			best = c
		}
	}
	if best == nil {
		return
	}
	_, why := t.passes(best)
	t.host.Report(spec.Outcome{Live: t.host.Live(), Candidate: best.Agreement.Rate(),
		Previous: t.live.Agreement.Rate(), Rows: best.rows, Reason: why})
}

// promoteBest promotes the best candidate that passes the gate.
func (t *Trainer) promoteBest(ctx context.Context) {
	if t.pinned || t.standby || t.live == nil {
		return
	}
	var best *candidate
	var why string
	for _, c := range t.candidates {
		pass, reason := t.passes(c)
		if pass && (best == nil || c.comparison.Evidence() > best.comparison.Evidence()) {
			best, why = c, reason
		}
	}
	if best == nil {
		return
	}
	if err := promoteCandidate(ctx, t, best, best.comparison.Door, why); err != nil {
		// A model that was not stored has to pass the gate again.
		best.comparison = policy.NewComparison(t.config.Training.Gate, best.comparison.Door)
	}
}

// promoteCandidate promotes a candidate by a door, and reports a failure.
func promoteCandidate(ctx context.Context, t *Trainer, c *candidate, door, reason string) error {
	s := &window.Suffix{First: c.first, Last: c.last, Rows: c.rows}
	o := spec.Outcome{Candidate: c.Agreement.Rate(), Previous: t.live.Agreement.Rate(), Reason: reason, Door: door}
	err := t.promote(ctx, c.Model.Model, s, c, o, t.config.Clock())
	t.reportFailure(ctx, err, s.Rows)
	return err
}

// promote aligns a model to the live one, stores it and makes it live, in this order: every model that is live is in
// the store. Candidates start over, since their evidence was relative to the previous live model. If the model cannot
// be stored, the trainer is as before.
func (t *Trainer) promote(ctx context.Context, m *model.Model, s *window.Suffix, c *candidate, o spec.Outcome,
	begin time.Time) error {
	o.Rows = s.Rows
	live := t.host.Live()
	a := beginEpoch(m, t.config.Epochs+1)
	if live != nil {
		settleEpoch(ctx, t, window.Position{})
		live = t.host.Live()
		var err error
		if a, err = align(ctx, t, m, s, live, &o); err != nil {
			return fmt.Errorf("aligning to model %s: %w", live.Version, err)
		}
	}
	saved, savedLandmarks := *t, t.fitter.landmarks
	saved.schedule.Fitted = slices.Clone(saved.schedule.Fitted) // the fits below change it in place
	t.live, t.candidates, t.fitter.landmarks.New = prequential.New(a.model), nil, false
	t.origin, t.previousOrigin, t.liveRows = a.origin, a.previousOrigin, fittedRows{s.First, s.Last}
	t.live.FittedAt, t.judged = t.labels.Count, 0
	t.heldOutAccuracy = math.NaN()
	if c != nil {
		t.live.Sensitivity, t.live.FittedAt = c.Sensitivity, c.FittedAt
	}
	switch {
	case o.Door == policy.DoorFollowing: // the models of a rule are one series
	case c != nil && continuesSeries(&saved, t.live):
		t.drift.Replace()
	default:
		t.drift.Reset()
	}
	t.schedule.RecordCheckpoint()
	if c != nil && t.schedule.Nested {
		t.fitAll(ctx, c)
		carryOver(t, saved.candidates, c)
	} else {
		t.rules = policy.Rules{}
	}
	if t.isProbing() {
		t.probe.fitDue(ctx, true)
	}
	err := ctx.Err() // fits are missing then, which a restart would not repeat
	if err == nil {
		err = t.publish(ctx, a, s, &o, false)
	}
	if err != nil {
		*t, t.fitter.landmarks = saved, savedLandmarks
		return err
	}
	o.Duration = t.config.Clock().Sub(begin)
	t.host.Report(o)
	return nil
}

// publish stores a model and makes it live.
func (t *Trainer) publish(ctx context.Context, a *placement, s *window.Suffix, o *spec.Outcome, bootstrap bool) error {
	m, epoch := a.model, a.epoch
	note := model.Note{Created: t.config.Clock(), Epoch: uint64(epoch), Source: map[string]string{},
		SameAs: uint64(a.sameAs), Conversion: a.conversion, Nulls: string(t.config.Nulls)}
	maps.Copy(note.Source, t.config.Source)
	if at := s.Last.Created; at != 0 && note.Source["created"] != "" { // it may have been created again
		note.Source["created"] = time.Unix(0, at).UTC().Format(time.RFC3339Nano)
	}
	from := t.data.readFrom()
	if from.Created != s.Last.Created { // the window begins in the previous stream: it has all of this one
		from.Seq = 0
	}
	note.Source["first"] = strconv.FormatUint(from.Seq, 10)
	note.Source["last"] = strconv.FormatUint(s.Last.Seq, 10)
	live := &spec.Live{Version: m.Digest()[:16], Epoch: epoch, Seen: s.Last.Seq, Bootstrap: bootstrap, Origin: t.origin,
		SameAs: a.sameAs, Undecided: a.undecided, Before: a.previousOrigin}
	if !math.IsNaN(o.Candidate) {
		live.Score = o.Candidate
	}
	previous := t.host.Live()
	if previous != nil {
		live.Epochs = max(previous.Epochs, epoch)
	}
	if t.config.Store != nil {
		r := &spec.Release{Model: m.WithNote(note), Epoch: epoch, Bootstrap: bootstrap, First: s.First.Seq, Last: s.Last.Seq,
			Rows: s.Rows, Score: o.Candidate, LiveScore: o.Previous, Why: o.Reason, Door: o.Door,
			State: t.state(), NewEpoch: t.origin == m, SameAs: a.sameAs, Undecided: a.undecided}
		if previous != nil {
			r.Parent, r.AfterReset = previous.Version, previous.WasReset
		}
		version, err := store(ctx, t.config, r)
		if err != nil {
			return fmt.Errorf("storing the model: %w", err)
		}
		live.Version = version
	}
	note.Version = live.Version
	live.Model = m.WithNote(note)
	if t.origin == m {
		t.origin, live.Origin = live.Model, live.Model
	}
	o.Live, o.Promoted = live, true
	t.host.Promote(live)
	if t.live != nil { // not of a bootstrap model
		t.live.Model = live.Model // so that adopt recognises it by its version
	}
	t.log.Info("a model goes live", "version", live.Version, "method", m.Method(), "dim", m.Dim(), "epoch", epoch,
		"rows", s.Rows, "door", o.Door, "reason", o.Reason)
	return nil
}

// store calls Config.Store. A panic there is an error, so that the model is stored again.
func store(ctx context.Context, c *spec.Config, r *spec.Release) (version string, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.Logger.Error("Config.Store panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("Config.Store panicked: %v", p)
		}
	}()
	return c.Store(ctx, r)
}

// followsChange reports whether a change of the live model's accuracy is one more step of the drift that the stage
// follows. A cut would end the following, and the evidence that begins it takes thousands of rows. After an abrupt
// change the live model no longer beats chance. Whether landmarks still serve is found from the rows that a cut leaves.
func followsChange(t *Trainer) bool {
	return t.rules.Followed != 0 && !t.plan.hasLandmarks() && t.live.Sensitivity.BeatsChance()
}

// follow makes the newest fit of the suffix that the stage follows live.
func follow(ctx context.Context, t *Trainer) {
	c := t.candidateOf(t.rules.Followed)
	if c == nil || c.size == 0 || t.pinned || t.standby || t.live == nil || ctx.Err() != nil ||
		!t.schedule.IsFresh(c.size) || !t.rules.FollowingDue(t.schedule.Learned) {
		return
	}
	if c.Agreement.AboveChance() && c.Sensitivity.BeatsChance() {
		_ = promoteCandidate(ctx, t, c, policy.DoorFollowing,
			fmt.Sprintf("refitting the newest %d rows is better than the whole window", c.size))
	}
}

// carryOver continues the evidence for the rules after a swap, and the agreement with the labels of their models.
func carryOver(t *Trainer, before []*candidate, c *candidate) {
	t.rules = t.rules.Swap(c.size, t.schedule.Learned)
	t.live.Agreement = c.Agreement
	for _, old := range before {
		now := t.candidateOf(old.size)
		if now == nil || old == c {
			continue
		}
		now.Agreement, now.Sensitivity = old.Agreement, old.Sensitivity
	}
}
