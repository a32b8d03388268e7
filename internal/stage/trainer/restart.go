package trainer

import (
	"context"

	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// resumeFrom continues from the model that was live before a restart.
func (t *Trainer) resumeFrom(r *spec.Live) {
	t.resume = &checkpoint{}
	if len(r.State) > 0 {
		if s, err := readCheckpoint(r.State); err != nil {
			t.log.Warn("the checkpoint cannot be read; the rows are learned again", "error", err)
		} else {
			t.resume, t.data.resumedRow, t.data.resumedTo = s, s.Last, s.Labels
		}
	}
	if r.Bootstrap {
		return
	}
	t.setLive(r)
	t.settle(r.Model, t.resume.Choice)
	t.fitter.resume(r.Model, t.resume.Landmarks)
}

func (t *Trainer) setLive(l *spec.Live) {
	t.live, t.origin = prequential.New(l.Model), l.Model
	if l.Origin != nil {
		t.origin = l.Origin
	}
}

// ResumedTimes returns the event time of the checkpoint that the trainer resumes from.
func (t *Trainer) ResumedTimes() (rows, labels EventTime) {
	if t.resume == nil {
		return EventTime{}, EventTime{}
	}
	return t.resume.Stamps, t.resume.Answers
}

// state is a checkpoint of the current state.
func (t *Trainer) state() []byte {
	t.data.sift() // as a restart does, which has the rows alone
	w := t.data.window
	s := checkpoint{Format: checkpointFormat, Labels: t.data.newestLabel, Start: w.Start(), Level: w.Quota(),
		References: t.data.references.Level(), Policy: t.schedule, Drift: t.drift,
		Choice: t.plan.choice, Landmarks: t.fitter.landmarks.renewal, Alarms: t.alarms}
	s.Stamps, s.Answers = t.host.Times()
	if w.Len() > 0 {
		s.Last = w.Back(1)
		s.Oldest = t.data.readFrom()
	}
	if t.live != nil {
		s.Live = t.live.Agreement
	}
	for _, c := range t.candidates {
		s.Candidates = append(s.Candidates, candidateState{c.size, c.comparison.Growing, c.comparison.Test, c.Agreement})
	}
	if t.isProbing() {
		s.Probe = t.probe.state()
	}
	return s.bytes()
}

// restore ends the refill of the window after a restart: the trainer is as it was at the checkpoint.
func (t *Trainer) restore(ctx context.Context) {
	s := t.resume
	t.resume = nil
	t.data.references = prequential.NewReferences(s.References)
	t.data.sift()
	t.data.referAll()
	if s.Format == 0 { // a model without a checkpoint
		t.schedule.Cut(t.data.window.Len())
		return
	}
	configured := t.schedule.Config
	t.schedule = s.Policy
	t.schedule.Config = configured
	t.drift, t.alarms = s.Drift, s.Alarms
	if t.live != nil {
		t.live.Agreement = s.Live
	}
	if !t.data.window.Trainable() || t.live == nil {
		return
	}
	if t.standby { // candidates are fitted when the stage may fit
		t.schedule.Fitted = nil
		return
	}
	fitted := t.schedule.Fitted
	for _, c := range s.Candidates {
		t.fitCandidate(ctx, c.Size)
		if back := t.candidateOf(c.Size); back != nil {
			back.comparison.Growing, back.comparison.Test, back.Agreement = c.Growing, c.Test, c.Agree
		}
	}
	t.schedule.Fitted = fitted
	if t.isProbing() {
		t.probe.restore(ctx, s.Probe)
	}
	t.fitDue(ctx) // as the trainer did after the checkpoint, before the next row
}

// setStandby stops or starts fitting. Candidates of a trainer that was only interrupted stay as they were. If another
// process has fitted meanwhile, the trainer starts from the model that it stored, which adopt has made live.
func (t *Trainer) setStandby(ctx context.Context, on bool) {
	t.standby = on
	if on {
		return
	}
	if len(t.candidates) == 0 {
		t.schedule.Fitted = nil
	}
	if t.resume == nil {
		t.fitDue(ctx)
	}
}

// adopt continues from a model that was chosen outside of the trainer.
func (t *Trainer) adopt(ctx context.Context, l *spec.Live, pinned bool) {
	t.pinned = pinned
	t.host.Promote(l)
	if l.Bootstrap {
		t.live, t.candidates = nil, nil
		return
	}
	t.setLive(l)
	t.candidates, t.newest = nil, 0
	t.settle(l.Model, t.syncWindow(l))
	t.fitter.keepLandmarks(ctx, l.Model)
	t.drift.Reset()
	t.schedule.Fitted = nil
	if t.resume != nil {
		t.resume.forgetModels()
	}
	t.log.Info("a chosen model goes live", "version", l.Version, "pinned", pinned)
}

// syncWindow brings the window of a stage on standby to the state of the process that stored a model, and returns the
// choice of auto there.
func (t *Trainer) syncWindow(l *spec.Live) *model.Choice {
	if len(l.State) == 0 {
		return nil
	}
	s, err := readCheckpoint(l.State)
	if err != nil {
		return nil // its format is newer; the model suffices
	}
	if t.standby && t.data.window != nil {
		t.data.cut(s.Start)
		t.data.window.LowerQuota(s.Level)
		t.data.references.Sync(t.data.window)
	}
	return s.Choice
}
