package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/evidence"
	"github.com/embedd/embedd/plugin/window"
)

// stateFormat is the version of the form of a checkpoint.
const stateFormat = 1

// state is a checkpoint: what the trainer knows beside the rows of its window and the live model. It is taken when all
// candidates have just been fitted, so that they come back from the rows.
type state struct {
	Format     int               `json:"format"`
	Last       window.Position   `json:"last"`   // of the newest row that was learned
	Oldest     window.Position   `json:"oldest"` // of the window: who reads from its message on has the rows again
	Labels     window.Position   `json:"labels"` // the newest that was read, where labels come apart from their rows
	Start      window.Position   `json:"start"`
	Level      int               `json:"level"`
	References int               `json:"references"` // most of a class
	Policy     policy            `json:"policy"`
	Drift      evidence.Adaptive `json:"drift"`
	Live       agreement         `json:"live"`
	Candidates []stood           `json:"candidates"`
	Scouts     *scouted          `json:"scouts,omitempty"`
	Choice     *model.Choice     `json:"choice,omitempty"`
	Landmarks  renewal           `json:"landmarks,omitzero"`
	Alarms     int               `json:"alarms"`
	Stamps     stamps            `json:"stamps"`
	Answers    stamps            `json:"answers"`
}

// stood is how one candidate stood.
type stood struct {
	Size    int           `json:"size"`
	Growing bool          `json:"growing"`
	Test    evidence.Test `json:"test"`
	Agree   agreement     `json:"agree"`
}

// scouted is how scouts stood.
type scouted struct {
	Policy policy `json:"policy"`
	Sizes  []int  `json:"sizes"`
	Leads  []lead `json:"leads"`
}

// state is the checkpoint as of now.
func (t *trainer) state() []byte {
	t.sift() // as a restart does, which has the rows alone
	s := state{Format: stateFormat, Labels: t.labels, Start: t.window.Start(), Level: t.window.Level(),
		References: t.references.level, Policy: t.policy, Drift: t.drift,
		Choice: t.choice, Landmarks: t.marks.renewal, Alarms: t.alarms}
	s.Stamps, s.Answers = t.stage.learner.times()
	if t.window.Len() > 0 {
		s.Last = t.window.Back(1)
		s.Oldest = t.readFrom()
	}
	if t.live != nil {
		s.Live = t.live.agree
	}
	for _, c := range t.candidates {
		s.Candidates = append(s.Candidates, stood{c.size, c.Growing, c.Test, c.agree})
	}
	if t.scouting() {
		s.Scouts = &scouted{Policy: t.scouts.policy}
		for _, c := range t.scouts.members {
			s.Scouts.Sizes, s.Scouts.Leads = append(s.Scouts.Sizes, c.size), append(s.Scouts.Leads, c.lead)
		}
	}
	text := marshal(s)
	if len(text) > maxState { // of very many classes: their agreement is counted anew after a restart
		s.Live = agreement{}
		for i := range s.Candidates {
			s.Candidates[i].Agree = agreement{}
		}
		text = marshal(s)
	}
	return text
}

// maxState is the size of a checkpoint that stores take, with its encoding.
const maxState = 40 << 10

func marshal(s state) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a checkpoint cannot be written: %v", err)) // plain data always can
	}
	return text
}

// readState reads a checkpoint. One that this version cannot read is as none: the rows come back from the stream.
func readState(text []byte) (*state, error) {
	s := &state{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the checkpoint is damaged: %w", err)
	}
	if s.Format > stateFormat {
		return nil, fmt.Errorf("the checkpoint is of format %d and this embedd reads %d; use a newer embedd", s.Format,
			stateFormat)
	}
	return s, nil
}

// ReadFrom tells from which message on a host has to call Learn again to have the window of a checkpoint back: the
// creation time of its stream in nanoseconds, and its sequence number; 0: from the first.
func ReadFrom(checkpoint []byte) (created int64, seq uint64) {
	s, err := readState(checkpoint)
	if len(checkpoint) == 0 || err != nil {
		return 0, 0
	}
	return s.Oldest.Created, s.Oldest.Seq
}

// restore ends the filling of the window after a restart: all is as it was at the checkpoint.
func (t *trainer) restore(ctx context.Context) {
	s := t.resume
	t.resume = nil
	t.references = newReferences()
	if s.References > 0 {
		t.references.level = s.References
	}
	t.sift()
	t.referAll()
	if s.Format == 0 { // a model without a checkpoint
		t.policy.cut(t.window.Len())
		return
	}
	t.policy = s.Policy.as(t.policy)
	t.drift, t.alarms = s.Drift, s.Alarms
	if t.live != nil {
		t.live.agree = s.Live
	}
	if !t.window.Trainable() || t.live == nil {
		return
	}
	if t.standby { // candidates are made when it may fit
		t.policy.Fitted = nil
		return
	}
	fitted := t.policy.Fitted
	for _, c := range s.Candidates {
		t.fitCandidate(ctx, c.Size)
		if back := t.candidateOf(c.Size); back != nil {
			back.Growing, back.Test, back.agree = c.Growing, c.Test, c.Agree
		}
	}
	t.policy.Fitted = fitted
	t.restoreScouts(ctx, s.Scouts)
	t.look(ctx) // as the trainer did after the checkpoint, before the next row
}

// restoreScouts fits the scouts of a checkpoint again.
func (t *trainer) restoreScouts(ctx context.Context, s *scouted) {
	if s == nil || !t.scouting() {
		return
	}
	for _, size := range s.Sizes {
		t.fitScout(ctx, size)
	}
	for _, c := range t.scouts.members {
		if at := slices.Index(s.Sizes, c.size); at >= 0 && at < len(s.Leads) {
			c.lead = s.Leads[at]
		}
	}
	t.scouts.policy = s.Policy.as(t.scouts.policy)
}
