package trainer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/internal/stage/prequential"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// checkpointFormat is the version of the format of a checkpoint.
const checkpointFormat = 1

// checkpoint is the state of a trainer without the rows of its window and the live model. It is taken when all
// candidates have just been fitted, so that they can be fitted again from the rows.
type checkpoint struct {
	Format     int                    `json:"format"`
	Last       window.Position        `json:"last"`   // of the newest row that was learned
	Oldest     window.Position        `json:"oldest"` // of the window: reading from its message on brings the rows back
	Labels     window.Position        `json:"labels"` // the newest label that was read separately
	Start      window.Position        `json:"start"`
	Level      int                    `json:"level"`
	References int                    `json:"references"` // maximum per class
	Policy     policy.Schedule        `json:"policy"`
	Drift      evidence.DriftDetector `json:"drift"`
	Live       policy.Agreement       `json:"live"`
	Candidates []candidateState       `json:"candidates"`
	Probe      *probeState            `json:"scouts,omitempty"`
	Choice     *model.Choice          `json:"choice,omitempty"`
	Landmarks  renewal                `json:"landmarks,omitzero"`
	Alarms     int                    `json:"alarms"`
	Stamps     EventTime              `json:"stamps"`
	Answers    EventTime              `json:"answers"`
}

// candidateState is the comparison of one candidate.
type candidateState struct {
	Size    int                     `json:"size"`
	Growing bool                    `json:"growing"`
	Test    evidence.SequentialTest `json:"test"`
	Agree   policy.Agreement        `json:"agree"`
}

// probeState is the state of the window probe.
type probeState struct {
	Policy policy.Schedule `json:"policy"`
	Sizes  []int           `json:"sizes"`
	Leads  []policy.Lead   `json:"leads"`
}

// maxCheckpoint is the maximum size of a checkpoint: stores take it with its encoding.
const maxCheckpoint = 40 << 10

func (s *checkpoint) bytes() []byte {
	text := s.marshal()
	if len(text) > maxCheckpoint { // very many classes: their agreement is counted again after a restart
		s.Live = policy.Agreement{}
		for i := range s.Candidates {
			s.Candidates[i].Agree = policy.Agreement{}
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

// readCheckpoint reads a checkpoint. If this version cannot read it, the rows are read from the stream again.
func readCheckpoint(text []byte) (*checkpoint, error) {
	s := &checkpoint{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the checkpoint is damaged: %w", err)
	}
	if s.Format > checkpointFormat {
		return nil, fmt.Errorf("the checkpoint has format %d and this embedd reads %d; use a newer embedd", s.Format,
			checkpointFormat)
	}
	return s, nil
}

// forgetModels keeps only the state of rows in a checkpoint, because the models in it are not the live one and its
// candidates.
func (s *checkpoint) forgetModels() {
	s.Candidates, s.Probe, s.Live, s.Drift = nil, nil, policy.Agreement{}, evidence.DriftDetector{}
	s.Policy.Fitted = nil
}

// ReadFrom returns the first message that must be learned again to restore the window of a checkpoint: the creation
// time of its stream in nanoseconds, and its sequence number; 0 is the first message.
func ReadFrom(text []byte) (created int64, seq uint64) {
	s, err := readCheckpoint(text)
	if len(text) == 0 || err != nil {
		return 0, 0
	}
	return s.Oldest.Created, s.Oldest.Seq
}

// Parts are the parts of a trainer that tests of package stage look at.
type Parts struct {
	Window    *window.Window
	Schedule  policy.Schedule
	Live      *prequential.Model
	Landmarks *fit.Landmarks
	Renewed   bool       // the landmarks are not those of the live model
	Settings  fit.Config // of the next fit
	ByMoments bool
	Probe     bool

	Fit        func(context.Context, fit.Config) (*model.Model, error) // fits the whole window
	Samples    func(*window.Suffix) *model.Data
	WindowRows func(rows, features int) int
}

// Inspect returns the parts of a trainer that is idle.
func Inspect(t *Trainer) Parts {
	return Parts{Window: t.data.window, Schedule: t.schedule, Live: t.live, Landmarks: t.fitter.landmarks.Landmarks,
		Renewed: t.fitter.landmarks.New, Settings: t.plan.settings, ByMoments: t.plan.byMoments(),
		Probe: t.probe != nil,
		Fit: func(ctx context.Context, c fit.Config) (*model.Model, error) {
			_, m, err := t.fitter.fit(ctx, 0, c)
			return m, err
		},
		Samples: t.fitter.samples, WindowRows: t.plan.windowRows}
}
