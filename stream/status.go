package stream

import (
	"math"
	"time"

	"github.com/embedd/embedd/plugin"
)

// Status is how one pipeline stands.
type Status struct {
	Pipeline string
	Ready    bool
	Reason   string // why it is not ready
	// what last happened to the input stream that learning had to follow, with the time; "" where nothing did
	Turn   string
	Stage  plugin.Status
	Pinned bool               // the live model was chosen, and nothing replaces it
	Age    time.Duration      // since the live model was last found good: made, or kept over a newer candidate
	Stale  bool               // the age is over MaxAge
	Labels plugin.LabelStatus // zero where labels come with their rows
}

// Status tells how the pipelines stand; empty before Run has opened them.
func (e *Engine) Status() []Status {
	e.mu.Lock()
	running := e.running
	e.mu.Unlock()
	var out []Status
	for _, p := range running {
		out = append(out, p.status())
	}
	return out
}

func (p *pipeline) status() Status {
	s := Status{Pipeline: p.Name, Stage: p.stage.Status(), Pinned: p.pinned.Load(),
		Labels: p.stage.LabelStatus()}
	s.Age, s.Stale = p.age()
	if turn := p.turn.Load(); turn != nil {
		s.Turn = *turn
	}
	switch {
	case s.Stage.Live == nil && p.Stage.Until != plugin.UntilSkip:
		s.Reason = p.progress()
	case s.Stale:
		s.Reason = p.staleReason(s.Age)
	case !p.nc.IsConnected():
		s.Reason = "not connected to the server"
	default:
		s.Ready = true
	}
	return s
}

// Report is a status in the form in which it travels.
type Report struct {
	Pipeline string       `json:"pipeline"`
	Instance string       `json:"instance,omitempty"` // the service that says it, where several run the pipeline
	Ready    bool         `json:"ready"`
	Reason   string       `json:"reason,omitempty"`
	Model    *ReportModel `json:"model"` // null before the first
	Learning Learning     `json:"learning"`
}

// ReportModel is the live model.
type ReportModel struct {
	Version    string  `json:"version"`
	Method     string  `json:"method"`
	Dim        int     `json:"dim"`
	Epoch      int     `json:"epoch"`
	Bootstrap  bool    `json:"bootstrap"` // the PCA that serves until a first model exists
	Pinned     bool    `json:"pinned"`
	AgeSeconds float64 `json:"age_seconds"`
	Stale      bool    `json:"stale"`
}

// Learning is how far the learning side is; see [plugin.Status], whose figures these are. What has not been measured
// yet is null.
type Learning struct {
	Rows           int      `json:"rows"`    // labelled rows in the window
	Classes        int      `json:"classes"` // of them
	Largest        int      `json:"largest"` // rows of the largest class
	Bytes          int64    `json:"bytes"`
	Needed         int      `json:"needed"`   // labelled rows that make a first model due
	Backlog        int      `json:"backlog"`  // labelled rows that wait to be learned from
	Dropped        int      `json:"dropped"`  // labelled rows that came too fast
	Overfull       int      `json:"overfull"` // labelled rows whose class was one too many
	Fitting        bool     `json:"fitting"`
	Filling        bool     `json:"filling"` // the window is filled again after a restart
	Accuracy       *float64 `json:"accuracy"`
	Chance         *float64 `json:"chance"`
	Candidate      *float64 `json:"candidate"` // accuracy of the candidate for which most speaks
	CandidateRows  int      `json:"candidate_rows"`
	Evidence       float64  `json:"evidence"`
	Alarms         int      `json:"drift_alarms"`
	Fits           int      `json:"fits"`
	LastFitSeconds float64  `json:"last_fit_seconds"`
	LastFit        string   `json:"last_fit,omitempty"` // what came of it
}

func learning(s plugin.Status) Learning {
	return Learning{Rows: s.Rows, Classes: s.Classes, Largest: s.Largest, Bytes: s.Bytes, Needed: s.Needed,
		Backlog: s.Backlog, Dropped: s.Dropped, Overfull: s.Overfull, Fitting: s.Fitting, Filling: s.Filling,
		Accuracy: known(s.Accuracy), Chance: known(s.Chance), Candidate: known(s.Candidate),
		CandidateRows: s.CandidateRows, Evidence: s.Evidence, Alarms: s.Alarms, Fits: s.Fits,
		LastFitSeconds: s.LastFit.Seconds(), LastFit: s.Note}
}

// known is nil for what is not a number: JSON has none.
func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// Report is the status for others.
func (s Status) Report() Report {
	g := s.Stage
	r := Report{Pipeline: s.Pipeline, Ready: s.Ready, Reason: s.Reason,
		Learning: learning(g)}
	if l := g.Live; l != nil {
		r.Model = &ReportModel{Version: l.Version, Method: l.Model.Method(), Dim: l.Model.Dim(), Epoch: l.Epoch,
			Bootstrap: l.Bootstrap, Pinned: s.Pinned, AgeSeconds: s.Age.Seconds(), Stale: s.Stale}
	}
	return r
}
