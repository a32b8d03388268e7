package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// checkpointFormat is the version of the format of a checkpoint.
const checkpointFormat = 2

// checkpoint is the state of a trainer without the rows of its window and the live model. It is taken when all
// candidates have just been fitted, so that they can be fitted again from the rows.
type checkpoint struct {
	Format          int                    `json:"format"`
	Last            window.Position        `json:"last"`   // of the newest row that was learned
	Oldest          window.Position        `json:"oldest"` // of the window, from which a restart reads
	NewestLabel     window.Position        `json:"labels"` // that was read separately
	Start           window.Position        `json:"start"`  // of the window, with Quota: see window.Window.Bounds
	Quota           int                    `json:"level"`
	MaxReferences   int                    `json:"references"` // maximum per class
	Policy          policy.Schedule        `json:"policy"`
	Drift           evidence.DriftDetector `json:"changes"` // of format 1: "drift", of values without classes
	LiveAgreement   policy.Agreement       `json:"live"`
	LiveSensitivity policy.Sensitivity     `json:"live_beats"`
	LiveFittedAt    int                    `json:"live_fitted"`
	LiveFirst       window.Position        `json:"live_from,omitzero"`
	LiveLast        window.Position        `json:"live_to,omitzero"`
	Labels          evidence.LabelSequence `json:"sampling"`
	Suspicion       policy.Suspicion       `json:"suspicion"`
	Judged          int                    `json:"judged"`
	Candidates      []candidateState       `json:"candidates"`
	Rules           policy.Rules           `json:"rules,omitzero"`
	Probe           *probeState            `json:"scouts,omitempty"`
	Choice          *model.Choice          `json:"choice,omitempty"`
	ChoiceClasses   int                    `json:"known_classes,omitempty"` // from which auto chose
	Landmarks       renewal                `json:"landmarks,omitzero"`
	Alarms          int                    `json:"alarms"`
	RowTime         EventTime              `json:"stamps"`
	LabelTime       EventTime              `json:"answers"`
}

// candidateState is the comparison of one candidate.
type candidateState struct {
	Size           int                     `json:"size"`
	NonInferiority bool                    `json:"growing"`        // see policy.Comparison.IsNonInferiority
	Door           string                  `json:"door,omitempty"` // if it is not the one that NonInferiority implies
	Test           evidence.SequentialTest `json:"test"`
	Nearest        evidence.SequentialTest `json:"nearest,omitzero"`
	Agreement      policy.Agreement        `json:"agree"`
	Sensitivity    policy.Sensitivity      `json:"beats"`
	HeldOut        policy.HeldOut          `json:"held_out"`
}

// stateOf returns the state of a candidate.
func stateOf(c *candidate) candidateState {
	s := candidateState{Size: c.size, NonInferiority: c.comparison.IsNonInferiority(), Test: c.comparison.Test,
		Nearest: c.comparison.Nearest, Agreement: c.Agreement, Sensitivity: c.Sensitivity, HeldOut: c.comparison.HeldOut}
	if c.comparison.Door == policy.DoorNewClass {
		s.Door = c.comparison.Door
	}
	return s
}

// maxCheckpoint is the maximum size of a checkpoint without the evidence for rules. That evidence grows with the square
// of the number of suffixes. The size limit of the stores has room for both.
const maxCheckpoint = 40 << 10

// state is a checkpoint of the current state.
func (t *Trainer) state() []byte {
	t.data.sift() // as a restart does, which has the rows alone
	w := t.data.window
	start, quota := w.Bounds()
	s := checkpoint{Format: checkpointFormat, NewestLabel: t.data.newestLabel, Start: start, Quota: quota,
		MaxReferences: t.data.references.MaxPerClass(), Policy: t.schedule, Drift: t.drift, Labels: t.labels,
		Suspicion: t.suspicion, Judged: t.judged, Rules: t.rules,
		Choice: t.plan.choice, ChoiceClasses: t.plan.choiceClasses, Landmarks: t.fitter.landmarks.renewal, Alarms: t.alarms}
	s.RowTime, s.LabelTime = t.host.Times()
	if w.Len() > 0 {
		s.Last = w.Back(1)
		s.Oldest = t.data.readFrom()
	}
	if t.live != nil {
		s.LiveAgreement, s.LiveSensitivity, s.LiveFittedAt = t.live.Agreement, t.live.Sensitivity, t.live.FittedAt
		s.LiveFirst, s.LiveLast = t.liveRows.first, t.liveRows.last
	}
	for _, c := range t.candidates {
		s.Candidates = append(s.Candidates, stateOf(c))
	}
	if t.isProbing() {
		s.Probe = t.probe.state()
	}
	return s.bytes()
}

func (s *checkpoint) bytes() []byte {
	text := s.marshal()
	rest := checkpoint{Rules: s.Rules, Probe: s.Probe}
	if len(text) > maxCheckpoint+len(rest.marshal()) { // very many classes: a restart counts their agreement again
		s.LiveAgreement = policy.Agreement{}
		for i := range s.Candidates {
			s.Candidates[i].Agreement = policy.Agreement{}
		}
		text = s.marshal()
	}
	return text
}

func (s *checkpoint) marshal() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("marshalling a checkpoint: %v", err)) // impossible for plain data
	}
	return text
}

// readCheckpoint reads a checkpoint. If this version cannot read it, it is empty, and the rows are read from the stream
// again.
func readCheckpoint(text []byte) (*checkpoint, error) {
	s := &checkpoint{}
	if err := json.Unmarshal(text, s); err != nil {
		return &checkpoint{}, fmt.Errorf("the checkpoint is damaged: %w", err)
	}
	if s.Format > checkpointFormat {
		return &checkpoint{}, fmt.Errorf("the checkpoint has format %d and this embedd reads %d; use a newer embedd",
			s.Format, checkpointFormat)
	}
	return s, nil
}

// ReadFrom returns the first message that must be learned again to restore the window of a checkpoint: the creation
// time of its stream in nanoseconds, and its sequence number; 0 is the first message.
func ReadFrom(text []byte) (created int64, seq uint64) {
	s, _ := readCheckpoint(text)
	return s.Oldest.Created, s.Oldest.Seq
}

// Times returns the event time of a checkpoint, the zero value if it cannot be read.
func Times(text []byte) (rows, labels EventTime) {
	s, _ := readCheckpoint(text)
	return s.RowTime, s.LabelTime
}

// resumeFrom continues from the model that was live before a restart.
func (t *Trainer) resumeFrom(r *spec.Live) {
	s, err := readCheckpoint(r.State)
	if err != nil && len(r.State) > 0 {
		t.log.Warn("the checkpoint cannot be read; the rows are learned again", "error", err)
	}
	t.resume, t.data.resumedRow, t.data.resumedTo = s, s.Last, s.NewestLabel
	if r.IsProvisional() {
		return
	}
	t.setLive(r)
	t.keepMethod(r.Model.Dim(), t.resume.Choice, t.resume.ChoiceClasses)
	t.fitter.resumeLandmarks(r.Model, t.resume.Landmarks)
}

// restore ends the refill of the window after a restart: the trainer is as it was at the checkpoint.
func (t *Trainer) restore(ctx context.Context) {
	s := t.resume
	t.resume = nil
	// A model that goes live here has a checkpoint without the rows that are learned next.
	defer func(next window.Position) { t.data.newestLabel = next }(t.data.newestLabel)
	t.data.newestLabel = s.NewestLabel
	t.data.references = prequential.NewReferences(s.MaxReferences)
	t.data.sift()
	t.data.referAll()
	t.data.references.Sync(t.data.window)
	if s.Format == 0 { // a model without a checkpoint
		t.schedule.Cut(t.data.window.Len())
		return
	}
	configured := t.schedule.Config
	t.schedule = s.Policy
	t.schedule.Config = configured
	t.drift, t.labels, t.suspicion, t.alarms = s.Drift, s.Labels, s.Suspicion, s.Alarms
	if s.Format < checkpointFormat {
		t.log.Info("the checkpoint is of an older version; drift detection and the evidence for candidates start over")
	}
	if live := t.host.Live(); live != nil && live.WasReset {
		startOver(ctx, t)
		return
	}
	if t.live != nil {
		t.live.Agreement, t.live.Sensitivity, t.live.FittedAt = s.LiveAgreement, s.LiveSensitivity, s.LiveFittedAt
		t.liveRows = fittedRows{s.LiveFirst, s.LiveLast}
	}
	t.rules = s.Rules.Restored(t.config.Training.Gate)
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
			back.Agreement, back.Sensitivity = c.Agreement, c.Sensitivity
			if s.Format == checkpointFormat {
				c.restore(&back.comparison, t.config.Training.Gate)
			}
		}
	}
	t.schedule.Fitted, t.judged = fitted, s.Judged
	if t.isProbing() {
		t.probe.restore(ctx, s.Probe)
	}
	t.fitDue(ctx) // as the trainer did after the checkpoint, before the next row
}

// restore continues a comparison, unless the gate was configured differently since: then its evidence is about another
// hypothesis, and the comparison starts over.
func (s *candidateState) restore(c *policy.Comparison, g spec.Gate) {
	door := policy.DoorBetter
	switch {
	case s.Door == policy.DoorNewClass:
		door = s.Door
	case s.NonInferiority:
		door = policy.DoorMoreRows
	}
	was := policy.NewComparison(g, door)
	if was.IsNonInferiority() && !was.IsOpen(g) || was.Test.Margin != s.Test.Margin {
		return
	}
	if was.Test, was.HeldOut = s.Test, s.HeldOut; s.Nearest.Count > 0 { // else the state is of an earlier version
		was.Nearest = s.Nearest
	}
	*c = was
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

// takeOver starts over from a live model and its checkpoint, as after a restart; nil: from nothing.
func (t *Trainer) takeOver(l *spec.Live) {
	c := *t.config
	c.Resume, c.Standby = l, false
	if l != nil {
		t.host.Promote(l)
	}
	pinned, alarms := t.pinned, t.alarms
	*t = *New(&c, t.host)
	t.pinned, t.alarms = pinned, alarms
}

// adopt continues from a model that was chosen outside of the trainer.
func (t *Trainer) adopt(ctx context.Context, l *spec.Live, pinned bool) {
	isSame := t.live != nil && t.live.Note().Version == l.Version && t.live.Digest() == l.Model.Digest() &&
		t.pinned == pinned
	t.pinned, t.storeFailed = pinned, false
	t.host.Promote(l)
	switch {
	case isSame && !l.IsProvisional(): // the trainer has decided whether its epoch is comparable with those before
		t.origin, t.previousOrigin = l.First(), l.Before
		return
	case l.WasReset && t.resume == nil:
		startOver(ctx, t)
		return
	case l.IsProvisional(): // after a reset, restore starts over
		t.live, t.candidates = nil, nil
		return
	}
	t.setLive(l)
	t.candidates, t.newest, t.rules = nil, 0, policy.Rules{}
	s, err := readCheckpoint(l.State) // if its format is newer, the model suffices
	if err == nil && t.standby {
		t.data.setBounds(s.Start, s.Quota)
	}
	t.keepMethod(l.Model.Dim(), s.Choice, s.ChoiceClasses)
	t.fitter.keepLandmarks(ctx, l.Model)
	t.drift.Reset()
	t.schedule.Fitted = nil
	if t.resume != nil {
		t.resume.forgetModels()
	}
	t.log.Info("a chosen model goes live", "version", l.Version, "pinned", pinned)
}

func (t *Trainer) setLive(l *spec.Live) {
	t.live, t.liveRows = prequential.New(l.Model), fittedRows{}
	t.origin, t.previousOrigin = l.First(), l.Before
	t.judged, t.heldOutAccuracy = 0, math.NaN() // of another live model
}

// forgetModels keeps only the state of rows in a checkpoint, because the models in it are not the live one and its
// candidates.
func (s *checkpoint) forgetModels() {
	s.Rules = policy.Rules{}
	s.Candidates, s.Probe, s.LiveAgreement, s.Drift = nil, nil, policy.Agreement{}, evidence.DriftDetector{}
	s.LiveSensitivity, s.LiveFirst, s.LiveLast = policy.Sensitivity{}, window.Position{}, window.Position{}
	s.Policy.Fitted, s.Judged, s.LiveFittedAt = nil, 0, 0
}

// startOver has the next fit be a first one, as the configuration says, from the rows of the window.
func startOver(ctx context.Context, t *Trainer) {
	t.live, t.candidates, t.newest = nil, nil, 0
	t.fitter.landmarks = landmarks{}
	*t.plan = *newPlan(t.config)
	t.schedule.Nested = t.plan.byMoments()
	t.drift.Reset()
	if w := t.data.window; w != nil {
		t.plan.setLimit(w.Features())
		t.schedule.Nested = t.plan.byMoments()
		t.schedule.Cut(w.Len())
		if t.probe != nil {
			t.probe.cut(w.Len())
		}
		t.fitDue(ctx)
	}
}
