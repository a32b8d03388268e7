package stream

import (
	"time"

	"github.com/embedd/embedd/plugin"
)

// Status is how one pipeline stands.
type Status struct {
	Pipeline string
	Ready    bool
	Reason   string // why it is not ready
	Stage    plugin.Status
	Pinned   bool          // the live model was chosen, and nothing replaces it
	Age      time.Duration // since the live model was last found good: made, or kept over a newer candidate
	Stale    bool          // the age is over MaxAge
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
	s := Status{Pipeline: p.Name, Stage: p.stage.Status(), Pinned: p.pinned.Load()}
	s.Age, s.Stale = p.age()
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

// Learning is how far the learning side is.
type Learning struct {
	Rows           int     `json:"rows"`    // labelled rows in the window
	Classes        int     `json:"classes"` // of them
	Waiting        int     `json:"waiting"` // labelled rows since the last fit
	Needed         int     `json:"needed"`  // that make a fit due
	Fitting        bool    `json:"fitting"`
	Fits           int     `json:"fits"`
	LastFitSeconds float64 `json:"last_fit_seconds"`
	LastFit        string  `json:"last_fit,omitempty"` // what came of it
}

// Report is the status for others.
func (s Status) Report() Report {
	g := s.Stage
	r := Report{Pipeline: s.Pipeline, Ready: s.Ready, Reason: s.Reason,
		Learning: Learning{Rows: g.Rows, Classes: g.Classes, Waiting: g.Waiting, Needed: g.Needed, Fitting: g.Fitting,
			Fits: g.Fits, LastFitSeconds: g.LastFit.Seconds(), LastFit: g.Note}}
	if l := g.Live; l != nil {
		r.Model = &ReportModel{Version: l.Version, Method: l.Model.Method(), Dim: l.Model.Dim(), Epoch: l.Epoch,
			Bootstrap: l.Bootstrap, Pinned: s.Pinned, AgeSeconds: s.Age.Seconds(), Stale: s.Stale}
	}
	return r
}
